//! One connection's events of one session, on one of its streams. Every holder of a stream derives
//! them from the log alone, and they all come to the same result.

use std::sync::Arc;

use baton_session::cursor::{Cursor, CursorPhase};
use baton_session::event::{Event, Frame};
use baton_session::id::{ConnectionId, LogId, Nonce, SessionId};
use baton_session::route::DeliveryPath;
use baton_session::store::{self, Attachment, Store};
use baton_session::token::TokenScope;
use bytes::Bytes;
use tokio::sync::Notify;

use super::hub::LogSubscription;
use super::open_requests::OpenRequests;
use super::tailed_log::{KeptFrame, LogNotice, LogTail};
use super::truncation::{LOST_TAIL, LogCheck, TruncationCheck, nonce_of};
use super::wake::StreamWake;
use super::{GatherOutcome, MessageFeed, OutgoingMessage, StartPosition};
use crate::auth::token_issuer::TokenIssuer;
use crate::stream::StreamServices;

pub mod answer_token;
mod directives;
mod ending;
mod event_selection;
mod questions;
mod resting;
#[cfg(test)]
mod tests;
mod unfinished_work;

/// Frames per read from the store.
const PAGE: usize = 64;
/// So many events are searched for the last one that a client has in common with the log.
const LOOKED_BACK: u64 = 4096;
/// A cursor that is further beyond the log's end is not of this session.
const MAY_COME_BACK: u64 = 100_000;

#[derive(Debug, PartialEq, Eq)]
enum RefreshOutcome {
    Done,
    /// There is no such session, or not yet.
    NoSession,
    /// The store has lost the end of the log.
    TooShort,
}

pub struct SessionFeed {
    store: Arc<dyn Store>,
    subscription: LogSubscription,
    wake: StreamWake,
    session: SessionId,
    connection: ConnectionId,
    principal: String,
    scope: TokenScope,
    issuer: TokenIssuer,
    /// The stream this feed writes to.
    via: DeliveryPath,
    /// The name under which a session stream is held.
    holder: Option<String>,
    /// Our own registration was announced; from then on another one means that we lost the stream.
    announced: bool,
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
    next: u64,
    /// The last event that was told; those after it were passed over.
    last_delivered: u64,
    position: Cursor,
    /// Where it stands in the log: what `next` comes after.
    truncation: TruncationCheck,
    notices_seen: u64,
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
    pub holder: Option<String>,
}

impl SessionFeed {
    /// `attachment` must have been read after the subscription was confirmed.
    pub async fn open(
        services: &StreamServices,
        reader: FeedReader,
        subscription: LogSubscription,
        wake: impl Into<StreamWake>,
        attachment: Attachment,
        from: FeedStart,
    ) -> store::Result<Self> {
        let wake = wake.into();
        let notices_seen = subscription.notices;
        subscription.tailed.grow(attachment.head);
        let log = LogId::Session(reader.session.clone());
        let mut feed = Self {
            truncation: TruncationCheck::new(services.store.clone(), log, wake.clone()),
            store: services.store.clone(),
            subscription,
            wake,
            only: None,
            close_answered: false,
            gone: false,
            session: reader.session,
            connection: reader.connection,
            principal: reader.principal,
            scope: reader.scope,
            issuer: services.issuer.clone(),
            via: reader.via,
            holder: reader.holder,
            announced: false,
            attachment,
            stale: false,
            answered: 0,
            replayed: None,
            ask_after: None,
            open_requests: OpenRequests::default(),
            recalled: 0,
            next: 1,
            last_delivered: 0,
            position: Cursor::default(),
            notices_seen,
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
                feed.next = feed.attachment.head + 1;
                feed.truncation.set(feed.attachment.head, None);
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

    /// Goes on after a client's cursor. Returns why it can't, if it can't.
    async fn resume(&mut self, cursor: Cursor) -> store::Result<Option<&'static str>> {
        const GONE: &str = "the cursor is not part of what this connection gets of the session: \
            load the session again";
        let directives = self.attachment.directives.clone();
        let head = self.attachment.head;
        let found = match cursor.seq {
            0 => Some(cursor.nonce),
            seq if seq > head => None,
            seq => self.nonce_of(seq).await?,
        };
        // A store that has failed over may lack the end of the log, and its writer may still bring
        // it.
        let beyond = found.is_none()
            && cursor.phase == CursorPhase::Live
            && cursor.seq.saturating_sub(head) <= MAY_COME_BACK;
        let known = found == Some(cursor.nonce) || beyond;
        if found != Some(cursor.nonce) {
            // The log is not what it was, so what is kept of it here may not be part of it.
            self.subscription.tailed.notify(LogNotice::Resync);
        }
        let replaying = match cursor.phase {
            CursorPhase::Replaying(number) => directives
                .iter()
                .find(|directive| directive.number == number),
            _ => None,
        };
        let joined = self
            .attachment
            .route
            .joined()
            .is_some_and(|joined| joined <= cursor.seq.saturating_add(1));
        let ours = match cursor.phase {
            CursorPhase::Replaying(_) => replaying.is_some(),
            // A connection stream's cursor was made here, before the connection joined perhaps.
            _ => joined || self.via == DeliveryPath::Connection || cursor.seq == 0,
        };
        if !known || !ours {
            self.answered = directives.last().map_or(0, |directive| directive.number);
            let next = if ours {
                self.after_last_common(cursor, head).await?
            } else {
                head + 1
            };
            self.go_to(next).await?;
            return Ok(Some(GONE));
        }
        self.position = cursor;
        self.next = cursor.seq + 1;
        // It may have been said before the stream was cut.
        self.close_answered = self.attachment.closed;
        self.truncation.set(cursor.seq, Some(cursor.nonce));
        if beyond {
            self.truncation.doubt();
        }
        self.recall_questions().await?;
        match cursor.phase {
            CursorPhase::Replaying(number) => {
                self.answered = number - 1;
                self.replayed = Some(cursor.seq);
                self.next = replaying.map_or(self.next, |directive| directive.upto + 1);
                self.truncation.set(self.next - 1, None);
            }
            CursorPhase::Answered(number) => {
                self.answered = number;
                self.ask_after = Some(0);
            }
            CursorPhase::Asked(number, question) => {
                self.answered = number;
                self.ask_after = Some(question);
            }
            CursorPhase::Live => {
                self.last_delivered = cursor.seq;
                let before = directives
                    .iter()
                    .filter(|directive| directive.upto < cursor.seq);
                self.answered = before.map(|directive| directive.number).max().unwrap_or(0);
            }
        }
        Ok(None)
    }

    /// Where a client goes on that saw events which are lost: a claim writes without a break, so
    /// what the log has of its last claim was seen, and what comes after that is new. If the log
    /// has nothing of that claim, the client is told the last two turns again: something twice is
    /// better than an answer never.
    async fn after_last_common(&self, seen: Cursor, head: u64) -> store::Result<u64> {
        let upto = seen.seq.min(head);
        let joined = self.attachment.route.joined();
        let mut from = upto.saturating_sub(LOOKED_BACK).max(1);
        let (mut last, mut begun) = (None, [head + 1; 2]);
        let is_near = seen.seq.saturating_sub(head) <= MAY_COME_BACK;
        while is_near && seen.phase == CursorPhase::Live && from <= upto {
            let frames = self.store.read(&self.log(), from, PAGE).await?;
            let Some(end) = frames.last().map(|frame| frame.last()) else {
                break;
            };
            let of_claim = frames.iter().filter(|frame| frame.nonce == seen.nonce);
            last = of_claim.map(|frame| frame.last().min(upto)).max().or(last);
            for (seq, event) in frames.iter().flat_map(|frame| frame.numbered()) {
                if matches!(event, Event::Begin(_)) && seq <= upto {
                    begun = [begun[1], seq];
                }
            }
            from = end + 1;
        }
        let next = last.map_or(begun[0].min(begun[1]), |last| last + 1);
        Ok(joined.map_or(head + 1, |joined| next.max(joined)))
    }

    async fn go_to(&mut self, next: u64) -> store::Result<()> {
        self.next = next;
        let nonce = if next > 1 {
            self.nonce_of(next - 1).await?
        } else {
            None
        };
        self.position = Cursor::live(next - 1, nonce.unwrap_or_default());
        self.truncation.move_to(next - 1, nonce);
        Ok(())
    }

    async fn nonce_of(&self, seq: u64) -> store::Result<Option<Nonce>> {
        nonce_of(&*self.store, &self.log(), seq).await
    }

    fn log(&self) -> LogId {
        LogId::Session(self.session.clone())
    }

    pub fn session(&self) -> &SessionId {
        &self.session
    }

    pub fn position(&self) -> Cursor {
        self.position
    }

    /// To be asked before anything is collected. True if what was delivered is not part of the log
    /// any more; the feed then goes on from the log's end.
    pub async fn was_truncated(&mut self) -> store::Result<bool> {
        self.ended |= !self.apply_notices();
        // A deleted session is forgotten before long, and that is no loss.
        if self.attachment.deleted || self.truncation.check().await? != LogCheck::Lost {
            return Ok(false);
        }
        self.subscription.tailed.notify(LogNotice::Resync);
        let head = self.store.heads(&[self.log()]).await?[0];
        match self.read_attachment().await? {
            Some(attachment) => self.adopt(attachment),
            None => self.gone = head == 0,
        }
        self.stale = false;
        self.attachment.head = head;
        self.answered = self.attachment.latest().map_or(0, |last| last.number);
        (self.replayed, self.ask_after) = (None, None);
        let next = self.after_last_common(self.position, head).await?;
        self.go_to(next).await?;
        self.start = StartPosition {
            cursor: self.position.to_string(),
            reset: Some(LOST_TAIL),
        };
        // A load or resume cannot be answered twice; its POST may be sent again.
        self.ended |= self.only.is_some();
        Ok(true)
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
            let (frames, pushed) = match self.subscription.tail(self.next) {
                LogTail::UpToDate => return Ok(true),
                LogTail::Frames(frames) => (frames, true),
                LogTail::InStore => (self.subscription.read(self.next, PAGE).await?, false),
            };
            if frames.is_empty() {
                return Ok(true);
            }
            // A connection that was attached before an event was written gets it. Pushed events
            // come after the attach signal; events read from the store may be ahead of it.
            self.ended |= !self.apply_notices();
            if self.ended {
                return Ok(false);
            }
            self.stale |= !pushed && self.would_pass_over(&frames);
            if self.stale {
                let last = frames.last().map_or(0, |frame| frame.last());
                match self.refresh().await? {
                    RefreshOutcome::Done => {}
                    // Forgotten, and its log kept for forks: nothing of that is news.
                    RefreshOutcome::NoSession => {
                        self.attachment.head = self.attachment.head.max(last)
                    }
                    RefreshOutcome::TooShort => return Ok(true),
                }
                continue;
            }
            let before = self.next;
            for frame in &frames {
                let had = out.len();
                self.deliver(frame, out);
                if out.len() > had {
                    self.subscription.handed_on(frame);
                }
            }
            if self.next == before
                && self
                    .directive()
                    .is_none_or(|directive| before <= directive.upto)
            {
                return Err(store::Error::Broken(format!(
                    "the log of {} has a hole at {before}",
                    self.session
                )));
            }
        }
    }

    /// Some of these came after the attachment was read, and are not for this stream as far as that
    /// knows.
    fn would_pass_over(&self, frames: &[KeptFrame]) -> bool {
        let from = self.next.max(self.attachment.head + 1);
        let Some(last) = frames.last().map(|frame| frame.last()) else {
            return false;
        };
        let route = &self.attachment.route;
        (from..=last).any(|seq| route.at(seq) != Some(self.via))
    }

    /// False if another holder took this stream over.
    fn apply_notices(&mut self) -> bool {
        for notice in self
            .subscription
            .tailed
            .notices_since(&mut self.notices_seen)
        {
            match notice {
                LogNotice::Taken { connection, .. }
                    if connection != self.connection || self.holder.is_none() => {}
                LogNotice::Taken { holder, .. } if self.holder.as_ref() == Some(&holder) => {
                    self.announced = true
                }
                LogNotice::Taken { .. } if self.announced => return false,
                LogNotice::Taken { .. } => {}
                LogNotice::Attached(_) => self.stale = true,
                LogNotice::Resync => {
                    self.stale = true;
                    self.truncation.doubt();
                }
                LogNotice::Doubt => self.truncation.doubt(),
            }
        }
        true
    }

    async fn read_attachment(&self) -> store::Result<Option<Attachment>> {
        let of = (&self.session, &self.connection, &self.principal);
        self.store.attachment(of.0, of.1, of.2).await
    }

    /// Reads the attachment again. A log that ends before the last event that was delivered has
    /// lost its end, and the route with it: until its writer has brought both back, the attachment
    /// that is known counts.
    async fn refresh(&mut self) -> store::Result<RefreshOutcome> {
        let Some(attachment) = self.read_attachment().await? else {
            self.stale = false;
            return Ok(RefreshOutcome::NoSession);
        };
        if attachment.head + 1 < self.next && !attachment.deleted {
            self.truncation.doubt();
            self.wake.wake_up();
            return Ok(RefreshOutcome::TooShort);
        }
        self.adopt(attachment);
        Ok(RefreshOutcome::Done)
    }

    fn adopt(&mut self, attachment: Attachment) {
        self.stale = false;
        self.subscription.tailed.grow(attachment.head);
        self.attachment = attachment;
    }

    /// Its position is certain, or does not matter any more.
    fn is_certain(&self) -> bool {
        self.truncation.is_intact() || self.attachment.deleted
    }

    fn deliver(&mut self, frame: &Frame, out: &mut Vec<(Cursor, Bytes)>) {
        // A directive is carried out between two events.
        let upto = self
            .directive()
            .map_or(u64::MAX, |directive| directive.upto);
        for (seq, event) in frame.numbered() {
            if seq != self.next || seq > upto {
                continue;
            }
            if let Event::Response { turn: true, .. } = event {
                self.withdraw_questions(seq, out);
            }
            self.next = seq + 1;
            self.position = Cursor::live(seq, frame.nonce);
            self.truncation.set(seq, Some(frame.nonce));
            if let Some(message) = self.message_for(seq, event) {
                self.last_delivered = seq;
                out.push((self.position, message));
            }
        }
    }
}

/// Enough for one write.
fn is_enough(out: &[(Cursor, Bytes)]) -> bool {
    super::is_enough(out, |(_, message)| message.len())
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
        self.wake.notify()
    }

    fn seems_busy(&self) -> bool {
        self.only.is_some() || self.turn_seems_to_run()
    }

    async fn is_busy(&mut self) -> store::Result<bool> {
        self.is_under_way().await
    }
}
