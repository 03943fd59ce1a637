//! From the store back to clients.
//!
//! | file | what |
//! |---|---|
//! | `topic` | one log as this process has it: the last frames, how far it has grown |
//! | `wake` | how readers of topics are woken |
//! | `hub` | all topics, fed by one push connection |
//! | `session_feed` | what one connection gets of one session on one of its streams |
//! | `connection_feed` | what a connection stream or WebSocket carries |
//! | `one_shot` | the events of one request |
//! | `asked` | the questions a client was asked |
//! | `footing` | whether what was delivered is still part of the log |
//! | `sse`, `websocket` | the ways to write them out |
//! | `patience` | gives streams up whose clients don't read |
//! | `leave` | when a stream of a gateway that drains may end |
//! | `ledger` | tells the store which streams are held here and how far they were written |

pub mod asked;
pub mod connection_feed;
pub mod footing;
pub mod hub;
pub mod leave;
pub mod ledger;
pub mod one_shot;
pub mod patience;
pub mod session_feed;
pub mod sse;
pub mod topic;
pub mod wake;
pub mod websocket;

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
pub struct Outgoing {
    pub cursor: String,
    pub message: Bytes,
}

impl Outgoing {
    fn size(&self) -> usize {
        self.cursor.len() + self.message.len()
    }
}

/// Whether there is enough for one write. To be asked before another page is read: a slow client holds no more
/// than this and one page.
fn is_enough<M>(out: &[M], size: impl Fn(&M) -> usize) -> bool {
    out.len() >= MAX_BATCH || out.iter().map(size).sum::<usize>() >= MAX_BATCH_BYTES
}

/// The next item of a feed.
pub enum Next {
    Batch(Vec<Outgoing>),
    /// Delivered events are not part of the log any more: the stream starts anew, as
    /// [`Feed::start`] says.
    Reset,
    /// Nothing happened until the deadline, or something else did.
    Idle,
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gathered {
    /// More may come.
    Open,
    /// The stream ends after what was gathered.
    Ended,
    /// Nothing was gathered; see [`Next::Reset`].
    Reset,
}

impl Gathered {
    fn open_if(open: bool) -> Self {
        if open { Self::Open } else { Self::Ended }
    }
}

/// A source of messages for one stream.
pub trait Feed: Send + 'static {
    /// As metrics name it.
    const KIND: &'static str;

    /// The position the stream starts from, or after a reset goes on from, and whether the client's
    /// own could not be honoured.
    fn start(&self) -> Start;

    /// Collects what is there into `out`.
    fn gather(
        &mut self,
        out: &mut Vec<Outgoing>,
    ) -> impl Future<Output = store::Result<Gathered>> + Send;

    fn wake(&self) -> &Arc<Notify>;

    /// Something is under way that this stream has to bring to its end, as far as is known here.
    fn seems_busy(&self) -> bool;

    /// The same, as the store knows it.
    fn is_busy(&mut self) -> impl Future<Output = store::Result<bool>> + Send;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    pub cursor: String,
    pub reset: Option<&'static str>,
}

/// Waits for messages. Only the idle wait ends at `deadline` or by `news`; a read from the store is
/// never cut off half way, so nothing that was taken from the log is dropped.
pub async fn next(feed: &mut impl Feed, deadline: Instant, news: impl Future<Output = ()>) -> Next {
    let mut news = std::pin::pin!(news);
    let mut out = Vec::new();
    loop {
        match feed.gather(&mut out).await {
            Ok(_) if !out.is_empty() => return Next::Batch(out),
            Ok(Gathered::Open) => {}
            Ok(Gathered::Ended) => return Next::End,
            Ok(Gathered::Reset) => return Next::Reset,
            Err(_) if !out.is_empty() => return Next::Batch(out),
            Err(store::Error::Unavailable(_)) => {
                sleep(Duration::from_millis(200)).await;
                continue;
            }
            Err(error) => {
                tracing::error!(%error, "a stream ends because its log cannot be read");
                return Next::End;
            }
        }
        tokio::select! {
            biased;
            _ = feed.wake().notified() => {}
            _ = sleep_until(deadline) => return Next::Idle,
            _ = &mut news => return Next::Idle,
        }
    }
}
