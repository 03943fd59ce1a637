//! From the store back to clients.
//!
//! ```text
//! client ◀ writer (sse | websocket) ◀ filter (session | request | connection) ◀ tail ◀ hub ◀ store
//! ```
//!
//! | | file | contents |
//! |---|---|---|
//! | hub | `hub` | all tailed logs, fed by one push connection |
//! | | `tailed_log` | one log as this process has it: the last frames, how far it has grown |
//! | | `wake` | how readers of logs are woken |
//! | tail | `log_tail` | one reader of a log: its notices, its next page, whether it is intact |
//! | | `truncation` | whether delivered events are still part of the log |
//! | | `takeover` | notices that another holder has the stream |
//! | filter | `session_feed` | the events of a session for a connection, on one of its streams |
//! | | `connection_feed` | the messages of a connection stream or WebSocket |
//! | | `one_shot` | the events of one request |
//! | | `single_answer`, `silent_feed` | an answer that is known at once, and nothing at all |
//! | | `open_requests` | the agent's requests that a client has not answered |
//! | writer | `registered_stream` | opens a stream that its client may come back to |
//! | | `sse`, `websocket` | the ways to write them out |
//! | | `drain_stream` | when a stream of a gateway that drains may end |
//! | | `stall` | ends streams whose clients don't read |
//! | | `stream_registry` | tells the store which streams are held here, and how far they are |

pub mod connection_feed;
pub mod drain_stream;
pub mod hub;
pub mod log_tail;
pub mod one_shot;
pub mod open_requests;
pub mod registered_stream;
pub mod session_feed;
pub mod silent_feed;
pub mod single_answer;
pub mod sse;
pub mod stall;
pub mod stream_registry;
pub mod tailed_log;
pub mod takeover;
pub mod truncation;
pub mod wake;
pub mod websocket;

use std::sync::Arc;
use std::time::Duration;

use baton_session::store::{self, Store};
use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use self::hub::Hub;
use self::stall::StallTimeouts;
use self::stream_registry::StreamRegistry;
use crate::auth::token_issuer::TokenIssuer;
use crate::drain::DrainState;
use crate::metrics::GatewayMetrics;

/// All that streams need of their gateway.
pub struct StreamServices {
    pub store: Arc<dyn Store>,
    /// The keys that sign session tokens, and what was revoked.
    pub issuer: TokenIssuer,
    /// Tails every log that a stream of this process reads.
    pub hub: Arc<Hub>,
    /// Tells the store which streams are held here and how far they were written.
    pub stream_registry: Arc<StreamRegistry>,
    /// Ends streams whose clients don't read.
    pub stall_timeouts: Arc<StallTimeouts>,
    pub metrics: Arc<GatewayMetrics>,
    /// The first half of stopping: no stream is cut in a turn.
    pub drain: Arc<DrainState>,
    /// The second half: whatever is still open ends.
    pub stop: CancellationToken,
    /// How often an idle stream gets a comment.
    pub keep_alive: Duration,
}

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
    fn size(&self) -> usize {
        self.cursor.len() + self.message.len()
    }
}

/// Whether there is enough for one write. To be asked before another page is read: a slow client
/// holds no more than this and one page.
fn is_enough<M>(out: &[M], size: impl Fn(&M) -> usize) -> bool {
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
    fn open_if(open: bool) -> Self {
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
                return FeedOutput::End;
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
