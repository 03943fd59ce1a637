//! The events of one request, for the body of the POST that made it.

use std::sync::Arc;

use baton_protocol::compose;
use baton_session::command::CommandId;
use baton_session::cursor::Cursor;
use baton_session::event::{Event, Frame, ResponseRecipient};
use baton_session::id::{ConnectionId, LogId, SessionId};
use baton_session::route::DeliveryPath;
use baton_session::store;
use baton_session::token::TokenScope;
use bytes::Bytes;
use tokio::sync::Notify;

use super::feed::{GatherOutcome, MessageFeed, OutgoingMessage, StartPosition, is_enough};
use super::log_tail::LogTail;
use super::open_requests::OpenRequests;
use super::session_feed::answer_token;
use super::truncation::{LOST_TAIL, LogCheck};
use crate::auth::token_issuer::TokenIssuer;
use crate::stream::StreamServices;
use crate::trace;

/// Events in which the begin of a turn is looked for.
const LOOKED_BACK: u64 = 10_000;
const NOT_SEEN: &str =
    "the cursor is not part of the session's history: the request is told from its beginning";

pub struct OneShotFeed {
    tail: LogTail,
    follow: FollowedRequest,
    /// Events up to here were seen by the client before it repeated its POST.
    seen: Cursor,
    /// The last event that was read.
    position: Cursor,
    reset: Option<&'static str>,
    /// The turn has begun, so what is said belongs to it.
    begun: bool,
    /// The answer was found whose turn nobody has seen begin, and where it is.
    unmatched_answer: Option<u64>,
    looked_back: bool,
    /// The agent's questions are for this client to answer.
    controls: bool,
    issuer: TokenIssuer,
    /// The prompt waits for a turn whose questions are now for this client.
    took_over: bool,
    /// Those it was asked and has not answered.
    open_requests: OpenRequests,
    ended: bool,
}

/// A command that was accepted, and where its events begin.
#[derive(Clone, Debug)]
pub struct FollowedRequest {
    pub session: SessionId,
    pub connection: ConnectionId,
    pub request: Arc<str>,
    /// `None` for the one that creates the session, which begins no turn.
    pub command: Option<CommandId>,
    pub head: u64,
    pub principal: String,
    /// The request creates the session, and its answer brings a token of this scope.
    pub created: Option<TokenScope>,
}

impl OneShotFeed {
    /// `after` skips what a client that repeats its POST has already seen.
    pub async fn open(
        services: &StreamServices,
        follow: FollowedRequest,
        after: Option<Cursor>,
    ) -> store::Result<Self> {
        let log = LogId::Session(follow.session.clone());
        let mut tail = LogTail::open(services, &log, Arc::new(Notify::new())).await?;
        tail.grow(tail.head().await?);
        tail.skip_to(follow.head + 1);
        let seen = after.unwrap_or_default();
        let known = seen.seq == 0 || tail.nonce_of(seen.seq).await? == Some(seen.nonce);
        Ok(Self {
            tail,
            // The turn's begin may lie before the cursor: what was seen is read but not sent again.
            seen: if known { seen } else { Cursor::default() },
            position: Cursor::default(),
            reset: (!known).then_some(NOT_SEEN),
            follow,
            begun: false,
            unmatched_answer: None,
            looked_back: false,
            controls: true,
            issuer: services.issuer.clone(),
            took_over: false,
            open_requests: OpenRequests::default(),
            ended: false,
        })
    }

    fn deliver(&mut self, frame: &Frame, out: &mut Vec<OutgoingMessage>) {
        for (seq, event) in frame.numbered() {
            if seq != self.tail.next() || self.ended {
                continue;
            }
            if !self.begun && !self.looked_back && self.is_answer_of_a_turn(event) {
                self.unmatched_answer = Some(seq);
                return;
            }
            let unseen = seq > self.seen.seq;
            let mut say = |at: Cursor, message| {
                let cursor = at.to_string();
                out.push(OutgoingMessage { cursor, message });
            };
            if let Event::Response { turn: true, .. } = event {
                // Under the cursor before, so that nobody who comes back in between misses the end.
                let open = self.open_requests.withdraw().filter(|_| unseen);
                open.for_each(|message| say(self.position, message));
            }
            self.tail.advance(seq, frame.nonce);
            self.position = Cursor::live(seq, frame.nonce);
            if let Some(message) = self.message_for(event).filter(|_| unseen) {
                say(self.position, message);
            }
        }
    }

    fn is_answer_of_a_turn(&self, event: &Event) -> bool {
        let Event::Response { to, turn: true, .. } = event else {
            return false;
        };
        self.follow.command.is_some() && self.is_ours(to)
    }

    fn is_ours(&self, to: &ResponseRecipient) -> bool {
        to.connection == self.follow.connection && to.request == self.follow.request
    }

    /// A request that a store has lost, and that was sent again, is answered by the turn that the
    /// first one began: under another name, and perhaps before it was sent again. It is told from
    /// there. A prompt that was cancelled in time has no turn.
    async fn look_back(&mut self, answer: u64) -> store::Result<()> {
        let mut from = answer.saturating_sub(LOOKED_BACK).max(1);
        let mut begin = None;
        while from < answer {
            let frames = self.tail.read_confirmed(from).await?;
            let Some(last) = frames.last().map(|frame| frame.last()) else {
                break;
            };
            let events = frames.iter().flat_map(|frame| frame.numbered());
            for (seq, event) in events.filter(|(seq, _)| *seq < answer) {
                match event {
                    Event::Begin(it) => {
                        begin = (it.connection == self.follow.connection).then_some(seq);
                    }
                    Event::Response { turn: true, .. } => begin = None,
                    _ => {}
                }
            }
            from = last + 1;
        }
        self.looked_back = true;
        if let Some(begin) = begin {
            self.tail.go_back_to(begin + 1);
            self.begun = true;
        }
        Ok(())
    }

    /// With a token for the session that the request has created.
    fn opened(&self, answer: &Bytes, scope: TokenScope) -> Option<Bytes> {
        let follow = &self.follow;
        let meta = || self.issuer.meta(&follow.session, &follow.principal, scope);
        answer_token::add(answer, meta)
    }

    fn message_for(&mut self, event: &Event) -> Option<Bytes> {
        match event {
            Event::Begin(begin) => {
                self.begun |= Some(begin.command) == self.follow.command;
                None
            }
            Event::Control { by, command, .. } => {
                self.controls = *by == self.follow.connection;
                self.took_over |= Some(*command) == self.follow.command;
                None
            }
            Event::Update { message, .. } => self.begun.then(|| message.clone()),
            Event::Request { id, message } => ((self.begun || self.took_over) && self.controls)
                .then(|| {
                    self.open_requests.note(id);
                    message.clone()
                }),
            Event::Answer { id, by, .. } => {
                let others = by.as_ref() != Some(&self.follow.connection);
                (self.open_requests.settle(id) && others).then(|| compose::cancel_request(id))
            }
            Event::Response { to, message, .. } => {
                let ours = self.is_ours(to);
                self.ended = ours;
                if ours {
                    let (session, by) = (&self.follow.session, &self.follow.connection);
                    trace::record_delivery(to.trace.as_ref(), session, by, DeliveryPath::OneShot);
                }
                let created = self.follow.created.as_ref().filter(|_| ours);
                let opened = created.and_then(|scope| self.opened(message, *scope));
                ours.then(|| opened.unwrap_or_else(|| message.clone()))
            }
            _ => None,
        }
    }
}

impl MessageFeed for OneShotFeed {
    const KIND: &'static str = "one_shot";

    fn start(&self) -> StartPosition {
        StartPosition {
            cursor: self.seen.to_string(),
            reset: self.reset,
        }
    }

    async fn gather(&mut self, out: &mut Vec<OutgoingMessage>) -> store::Result<GatherOutcome> {
        self.tail.notices();
        match self.tail.check().await? {
            LogCheck::Intact => {}
            LogCheck::Pending => return Ok(GatherOutcome::Open),
            // The request itself may be lost. Sent again it is joined, or done anew.
            LogCheck::Lost if !self.ended => {
                (self.ended, self.reset) = (true, Some(LOST_TAIL));
                self.seen = Cursor::default();
                return Ok(GatherOutcome::Reset);
            }
            LogCheck::Lost => return Ok(GatherOutcome::Ended),
        }
        while !self.ended && !is_enough(out, OutgoingMessage::size) {
            let Some(page) = self.tail.next_page().await? else {
                return Ok(GatherOutcome::Open);
            };
            self.tail.expect_unbroken(&page)?;
            for frame in &page.frames {
                let had = out.len();
                self.deliver(frame, out);
                if out.len() > had {
                    self.tail.handed_on(frame);
                }
            }
            if let Some(answer) = self.unmatched_answer.take() {
                self.look_back(answer).await?;
            }
        }
        Ok(GatherOutcome::open_if(!self.ended))
    }

    fn wake(&self) -> &Arc<Notify> {
        self.tail.wake().notify()
    }

    /// It ends by itself.
    fn seems_busy(&self) -> bool {
        true
    }

    async fn is_busy(&mut self) -> store::Result<bool> {
        Ok(true)
    }
}
