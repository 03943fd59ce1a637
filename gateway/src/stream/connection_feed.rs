//! The content of a connection stream or WebSocket: the connection's outbox, and every session that
//! has no stream of its own. Its cursor covers them all, see `cursor_text` and `session_positions`.

mod cursor_text;
mod outbox;
mod resume;
mod session_messages;
mod session_positions;
mod short_cursor;
mod truncation;
mod watched_sessions;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use baton_session::id::SessionId;
use baton_session::store;
use baton_session::token::{ConnectionToken, TokenScope};
use tokio::sync::Notify;

pub use self::cursor_text::ConnectionCursor;
use self::session_positions::SessionPositions;
use self::watched_sessions::WatchedSession;
use super::feed::{GatherOutcome, MessageFeed, OutgoingMessage, StartPosition};
use super::log_tail::LogTail;
use super::takeover::TakeoverWatch;
use super::wake::WakeCallers;
use crate::stream::StreamServices;

pub struct ConnectionFeed {
    services: Arc<StreamServices>,
    connection: ConnectionToken,
    /// Of the tokens that it gets with its answers.
    scope: TokenScope,
    /// The name under which this stream is held.
    holder: String,
    takeover: TakeoverWatch,
    outbox: LogTail,
    /// The last entry when this stream was opened: a detach before that concerned an earlier one.
    opened_at: u64,
    /// The next entries are not kept any more.
    fell_behind: bool,
    /// By the outbox entry that told us to watch.
    sessions: BTreeMap<u64, WatchedSession>,
    /// The same entries, by session.
    watches: HashMap<SessionId, u64>,
    positions: SessionPositions,
    has_reported: bool,
    /// Those who have called.
    callers: Arc<WakeCallers>,
    /// Those that have to be looked at: whoever has called and is not done with.
    due: BTreeSet<u64>,
    /// The one of them that was looked at last.
    served: u64,
    ended: bool,
    /// The client has to be told that it starts anew.
    reset_due: bool,
    start: StartPosition,
}

impl ConnectionFeed {
    /// `cursor` is what the client or the stream registry remembers; `None` is the beginning.
    pub async fn open(
        services: Arc<StreamServices>,
        connection: ConnectionToken,
        scope: TokenScope,
        holder: String,
        outbox: LogTail,
        cursor: Option<&str>,
    ) -> store::Result<Self> {
        let head = outbox.head().await?;
        outbox.grow(head);
        let mut feed = Self {
            takeover: TakeoverWatch::new(connection.id.clone(), Some(holder.clone())),
            services,
            connection,
            scope,
            holder,
            outbox,
            opened_at: head,
            fell_behind: false,
            sessions: BTreeMap::new(),
            watches: HashMap::new(),
            positions: SessionPositions::default(),
            has_reported: false,
            callers: Arc::default(),
            due: BTreeSet::new(),
            served: 0,
            ended: false,
            reset_due: false,
            start: StartPosition {
                cursor: "0".into(),
                reset: None,
            },
        };
        let position = match cursor.map(ConnectionCursor::parse) {
            None => Some(ConnectionCursor::default()),
            Some(position) => position,
        };
        let parts = position.as_ref().map(|position| position.parts.clone());
        let honoured = match position {
            Some(position) => feed.resume(position).await?,
            None => false,
        };
        if !honoured {
            feed.begin_anew(head, &parts.unwrap_or_default()).await?;
        }
        feed.shorten_cursor().await?;
        feed.start.cursor = feed.cursor();
        Ok(feed)
    }

    fn cursor(&self) -> String {
        let (read, nonce) = self.outbox.last();
        self.positions.cursor(read, nonce)
    }
}

impl MessageFeed for ConnectionFeed {
    const KIND: &'static str = "connection";

    fn start(&self) -> StartPosition {
        self.start.clone()
    }

    async fn gather(&mut self, out: &mut Vec<OutgoingMessage>) -> store::Result<GatherOutcome> {
        let notices = self.outbox.notices();
        self.ended |= notices.iter().any(|notice| self.takeover.is_taken(notice));
        if self.ended {
            return Ok(GatherOutcome::Ended);
        }
        self.due.append(&mut self.callers.take());
        self.look_for_loss().await?;
        if self.reset_due {
            self.shorten_cursor().await?;
            self.start.cursor = self.cursor();
            self.reset_due = false;
            return Ok(GatherOutcome::Reset);
        }
        self.read_outbox(out).await?;
        self.read_sessions(out).await?;
        Ok(GatherOutcome::open_if(!self.ended))
    }

    fn wake(&self) -> &Arc<Notify> {
        self.outbox.wake().notify()
    }

    fn seems_busy(&self) -> bool {
        let mut sessions = self.sessions.values();
        sessions.any(|watched| !watched.resting && watched.feed.turn_seems_to_run())
    }

    /// Also if the turn comes on the session's own stream: an SDK client that loses its connection
    /// stream gives that one up, too.
    async fn is_busy(&mut self) -> store::Result<bool> {
        for watched in self.sessions.values_mut() {
            if watched.is_busy().await? {
                return Ok(true);
            }
        }
        let head = self.outbox.head().await?;
        self.outbox.grow(head);
        Ok(self.outbox.next() <= head)
    }
}
