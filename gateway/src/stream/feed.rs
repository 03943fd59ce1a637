//! A source of messages for one stream: the events of its logs that are for its client, each with
//! the position after it.

use std::sync::Arc;
use std::time::Duration;

use baton_session::store;
use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

/// Messages and bytes of one write. Later ones are read when the client has taken these.
const MAX_BATCH: usize = 1024;
const MAX_BATCH_BYTES: usize = 1 << 20;

/// A message on its way out, with the position after it.
#[derive(Debug)]
pub struct OutgoingMessage {
    pub cursor: String,
    pub message: Bytes,
}

impl OutgoingMessage {
    pub fn size(&self) -> usize {
        self.cursor.len() + self.message.len()
    }
}

/// Whether there is enough for one write. To be asked before another page is read: a slow client
/// holds no more than this and one page.
pub fn is_enough<M>(out: &[M], size: impl Fn(&M) -> usize) -> bool {
    out.len() >= MAX_BATCH || out.iter().map(size).sum::<usize>() >= MAX_BATCH_BYTES
}

/// The next item of a feed.
pub enum FeedOutput {
    Batch(Vec<OutgoingMessage>),
    /// Delivered events are not part of the log any more: the stream starts anew, as
    /// [`MessageFeed::start`] says.
    Reset,
    /// Nothing happened until the deadline, or something else did.
    Idle,
    End,
    /// The log cannot be read.
    Unreadable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatherOutcome {
    /// More may come.
    Open,
    /// The stream ends after what was gathered.
    Ended,
    /// Nothing was gathered; see [`FeedOutput::Reset`].
    Reset,
}

impl GatherOutcome {
    pub fn open_if(open: bool) -> Self {
        if open { Self::Open } else { Self::Ended }
    }
}

/// A source of messages for one stream.
pub trait MessageFeed: Send + 'static {
    /// As metrics name it.
    const KIND: &'static str;

    /// The position the stream starts from, or after a reset goes on from, and whether the client's
    /// own could not be honoured.
    fn start(&self) -> StartPosition;

    /// Collects what is there into `out`.
    fn gather(
        &mut self,
        out: &mut Vec<OutgoingMessage>,
    ) -> impl Future<Output = store::Result<GatherOutcome>> + Send;

    fn wake(&self) -> &Arc<Notify>;

    /// Something is under way that this stream has to bring to its end, as far as is known here.
    fn seems_busy(&self) -> bool;

    /// The same, as the store knows it.
    fn is_busy(&mut self) -> impl Future<Output = store::Result<bool>> + Send;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartPosition {
    pub cursor: String,
    pub reset: Option<&'static str>,
}

/// Waits for messages. Only the idle wait ends at `deadline` or by `changed`; a read from the store
/// is never cut off half way, so nothing that was taken from the log is dropped.
pub async fn next(
    feed: &mut impl MessageFeed,
    deadline: Instant,
    changed: impl Future<Output = ()>,
) -> FeedOutput {
    let mut changed = std::pin::pin!(changed);
    let mut out = Vec::new();
    loop {
        match feed.gather(&mut out).await {
            Ok(_) if !out.is_empty() => return FeedOutput::Batch(out),
            Ok(GatherOutcome::Open) => {}
            Ok(GatherOutcome::Ended) => return FeedOutput::End,
            Ok(GatherOutcome::Reset) => return FeedOutput::Reset,
            Err(_) if !out.is_empty() => return FeedOutput::Batch(out),
            Err(store::Error::Unavailable(_)) => {
                sleep(Duration::from_millis(200)).await;
                continue;
            }
            Err(error) => {
                tracing::error!(%error, "a stream ends because its log cannot be read");
                return FeedOutput::Unreadable;
            }
        }
        tokio::select! {
            biased;
            _ = feed.wake().notified() => {}
            _ = sleep_until(deadline) => return FeedOutput::Idle,
            _ = &mut changed => return FeedOutput::Idle,
        }
    }
}
