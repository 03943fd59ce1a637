//! One connection's events of one session, on one of its streams. Every holder of a stream derives
//! them from the log alone, and they all come to the same result.

use std::sync::Arc;

use baton_session::cursor::Cursor;
use baton_session::event::{Event, Frame};
use baton_session::id::{ConnectionId, SessionId};
use baton_session::route::DeliveryPath;
use baton_session::store::{self, Attachment, Store};
use baton_session::token::TokenScope;
use bytes::Bytes;
use tokio::sync::Notify;

use self::refresh::RefreshOutcome;
use super::feed::{self, GatherOutcome, MessageFeed, OutgoingMessage, StartPosition};
use super::log_tail::LogTail;
use super::open_requests::OpenRequests;
use super::takeover::TakeoverWatch;
use crate::auth::token_issuer::TokenIssuer;
use crate::stream::StreamServices;

pub mod answer_token;
mod directives;
mod ending;
mod event_selection;
mod questions;
mod refresh;
mod resting;
mod resume;
#[cfg(test)]
mod tests;
mod turn_notices;
mod unfinished_work;

pub struct SessionFeed {
    store: Arc<dyn Store>,
    tail: LogTail,
    session: SessionId,
    connection: ConnectionId,
    principal: String,
    scope: TokenScope,
    issuer: TokenIssuer,
    /// The stream this feed writes to.
    via: DeliveryPath,
    turn_notices: bool,
    takeover: TakeoverWatch,
    attachment: Attachment,
    /// The attachment must be read again.
    stale: bool,
    /// Directives up to this number are done with, as far as they are ours.
    answered: u64,
    /// How far the history of the current directive was replayed.
    replayed: Option<u64>,
    /// The agent's open questions after this number have yet to be asked again.
    ask_after: Option<u64>,
    /// The open questions that this client was asked.
    open_requests: OpenRequests,
    /// Answers up to here may belong to requests from before this stream was opened.
    recalled: u64,
    /// The last event that was told; those after it were passed over.
    last_delivered: u64,
    position: Cursor,
    /// Its client has heard that the session is closed, as it asked for.
    close_answered: bool,
    /// There is no such session any more.
    gone: bool,
    /// Carries out this directive alone, and ends.
    only: Option<u64>,
    ended: bool,
    start: StartPosition,
}

/// From where a stream goes on.
pub enum FeedStart {
    /// After this cursor.
    After(Cursor),
    /// From where the connection joined the session.
    Joined,
    /// Only what the latest load or resume asks for.
    Directive,
}

pub struct FeedReader {
    pub session: SessionId,
    pub connection: ConnectionId,
    pub principal: String,
    /// Of the tokens that it gets with its answers.
    pub scope: TokenScope,
    pub via: DeliveryPath,
    /// The client wants to know when turns begin and end.
    pub turn_notices: bool,
    /// The name under which a session stream is held.
    pub holder: Option<String>,
}

impl SessionFeed {
    /// `attachment` must have been read after the tail was opened.
    pub async fn open(
        services: &StreamServices,
        reader: FeedReader,
        tail: LogTail,
        attachment: Attachment,
        from: FeedStart,
    ) -> store::Result<Self> {
        tail.grow(attachment.head);
        let mut feed = Self {
            store: services.store.clone(),
            tail,
            only: None,
            close_answered: false,
            gone: false,
            takeover: TakeoverWatch::new(reader.connection.clone(), reader.holder),
            session: reader.session,
            connection: reader.connection,
            principal: reader.principal,
            scope: reader.scope,
            issuer: services.issuer.clone(),
            via: reader.via,
            turn_notices: reader.turn_notices,
            attachment,
            stale: false,
            answered: 0,
            replayed: None,
            ask_after: None,
            open_requests: OpenRequests::default(),
            recalled: 0,
            last_delivered: 0,
            position: Cursor::default(),
            ended: false,
            start: StartPosition {
                cursor: String::new(),
                reset: None,
            },
        };
        // The connection has not joined yet. Where it will is not known, so a cut before that must
        // leave the client with a cursor that means "from where I joined".
        let mut waits = false;
        let reset = match from {
            FeedStart::After(cursor) => feed.resume(cursor).await?,
            FeedStart::Joined => {
                let head = feed.attachment.head;
                let joined = feed.attachment.route.joined();
                feed.go_to(joined.unwrap_or(head + 1)).await?;
                waits = joined.is_none();
                None
            }
            FeedStart::Directive => {
                feed.only = feed.attachment.latest().map(|directive| directive.number);
                feed.tail.skip_to(feed.attachment.head + 1);
                None
            }
        };
        let cursor = if waits {
            "0".into()
        } else {
            feed.position.to_string()
        };
        feed.start = StartPosition { cursor, reset };
        Ok(feed)
    }

    pub fn session(&self) -> &SessionId {
        &self.session
    }

    pub fn position(&self) -> Cursor {
        self.position
    }

    /// Collects what is there. False once the stream is to end.
    pub async fn collect(&mut self, out: &mut Vec<(Cursor, Bytes)>) -> store::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        // Truncation first: as long as the end of the log is missing, the session does not know
        // where that went.
        if !self.is_certain() {
            return Ok(true);
        }
        if self.stale && self.refresh().await? == RefreshOutcome::TooShort {
            return Ok(true);
        }
        loop {
            self.follow_directives(out).await?;
            if self.ended || is_enough(out) {
                return Ok(!self.ended);
            }
            let Some(page) = self.tail.next_page().await? else {
                return Ok(true);
            };
            // A connection that was attached before an event was written gets it. Pushed events
            // come after the attach signal; events read from the store may be ahead of it.
            self.ended |= !self.apply_notices();
            if self.ended {
                return Ok(false);
            }
            self.stale |= !page.pushed && self.would_pass_over(&page);
            if self.stale {
                match self.refresh().await? {
                    RefreshOutcome::Done => {}
                    // Forgotten, and its log kept for forks: nothing of that is news.
                    RefreshOutcome::NoSession => {
                        self.attachment.head = self.attachment.head.max(page.last())
                    }
                    RefreshOutcome::TooShort => return Ok(true),
                }
                continue;
            }
            self.tail.expect_unbroken(&page)?;
            for frame in &page.frames {
                let had = out.len();
                self.deliver(frame, out);
                if out.len() > had {
                    self.tail.handed_on(frame);
                }
            }
        }
    }

    fn deliver(&mut self, frame: &Frame, out: &mut Vec<(Cursor, Bytes)>) {
        // A directive is carried out between two events.
        let upto = self
            .directive()
            .map_or(u64::MAX, |directive| directive.upto);
        for (seq, event) in frame.numbered() {
            if seq != self.tail.next() || seq > upto {
                continue;
            }
            if let Event::Response { turn: true, .. } = event {
                self.withdraw_questions(seq, out);
            }
            self.tail.advance(seq, frame.nonce);
            let before = std::mem::replace(&mut self.position, Cursor::live(seq, frame.nonce));
            let message = self.message_for(seq, event);
            self.notice_turn(before, seq, event, out);
            if let Some(message) = message {
                self.last_delivered = seq;
                out.push((self.position, message));
            }
        }
    }
}

/// Enough for one write.
fn is_enough(out: &[(Cursor, Bytes)]) -> bool {
    feed::is_enough(out, |(_, message)| message.len())
}

impl MessageFeed for SessionFeed {
    const KIND: &'static str = "session";

    fn start(&self) -> StartPosition {
        self.start.clone()
    }

    async fn gather(&mut self, out: &mut Vec<OutgoingMessage>) -> store::Result<GatherOutcome> {
        if self.was_truncated().await? {
            return Ok(GatherOutcome::Reset);
        }
        let mut collected = Vec::new();
        let outcome = self.collect(&mut collected).await;
        let outgoing = |(cursor, message): (Cursor, Bytes)| OutgoingMessage {
            cursor: cursor.to_string(),
            message,
        };
        out.extend(collected.into_iter().map(outgoing));
        outcome.map(GatherOutcome::open_if)
    }

    fn wake(&self) -> &Arc<Notify> {
        self.tail.wake().notify()
    }

    fn seems_busy(&self) -> bool {
        self.only.is_some() || self.turn_seems_to_run()
    }

    async fn is_busy(&mut self) -> store::Result<bool> {
        self.is_under_way().await
    }
}
