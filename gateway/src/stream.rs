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
//! | filter | `feed` | a source of messages for one stream |
//! | | `session_feed` | the events of a session for a connection, on one of its streams |
//! | | `connection_feed` | the messages of a connection stream or WebSocket |
//! | | `one_shot` | the events of one request |
//! | | `single_answer`, `silent_feed` | an answer that is known at once, and nothing at all |
//! | | `open_requests` | the agent's requests that a client has not answered |
//! | writer | `registered_stream` | opens a stream that its client may come back to |
//! | | `writer` | what a stream does next, on whichever wire |
//! | | `sse`, `websocket` | its steps as bytes |
//! | | `drain_stream` | when a stream of a gateway that drains may end |
//! | | `stall` | ends streams whose clients don't read |
//! | | `stream_registry` | tells the store which streams are held here, and how far they are |

pub mod connection_feed;
pub mod drain_stream;
pub mod feed;
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
pub mod writer;

use std::sync::Arc;
use std::time::Duration;

use baton_session::store::Store;
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
