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

use super::asked::Asked;
use super::footing::{Footing, Ground, LOST_TAIL, nonce_of};
use super::hub::Subscription;
use super::session_feed::opening;
use super::topic::{Look, Notice};
use super::{Feed, Gathered, Outgoing, Start, is_enough};
use crate::app::App;
use crate::mint::Mint;
use crate::trace;

const PAGE: usize = 64;
/// Events in which the begin of a turn is looked for.
const LOOKED_BACK: u64 = 10_000;
const NOT_SEEN: &str =
    "the cursor is not part of the session's history: the request is told from its beginning";

pub struct OneShotFeed {
    subscription: Subscription,
    wake: Arc<Notify>,
    follow: Follow,
    next: u64,
    footing: Footing,
    notices_seen: u64,
    /// Events up to here were seen by the client before it repeated its POST.
    seen: Cursor,
    /// The last event that was read.
    position: Cursor,
    reset: Option<&'static str>,
    /// The turn has begun, so what is said belongs to it.
    begun: bool,
    /// The answer was found whose turn nobody has seen begin, and where it is.
    unheard: Option<u64>,
    looked_back: bool,
    /// The agent's questions are for this client to answer.
    controls: bool,
    mint: Mint,
    /// The prompt waits for a turn whose questions are now for this client.
    took_over: bool,
    /// Those it was asked and has not answered.
    asked: Asked,
    ended: bool,
}

/// A command that was accepted, and where its events begin.
#[derive(Clone, Debug)]
pub struct Follow {
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
    pub async fn open(app: &App, follow: Follow, after: Option<Cursor>) -> store::Result<Self> {
        let wake = Arc::new(Notify::new());
        let log = LogId::Session(follow.session.clone());
        let subscription = app.hub.subscribe(&log, wake.clone()).await?;
        let head = app.store.heads(std::slice::from_ref(&log)).await?[0];
        subscription.topic.grow(head);
        let seen = after.unwrap_or_default();
        let known =
            seen.seq == 0 || nonce_of(&*app.store, &log, seen.seq).await? == Some(seen.nonce);
        let mut footing = Footing::new(app.store.clone(), log, wake.clone().into());
        footing.set(follow.head, None);
        Ok(Self {
            notices_seen: subscription.notices,
            subscription,
            wake,
            next: follow.head + 1,
            footing,
            // The turn's begin may lie before the cursor: what was seen is read but not sent again.
            seen: if known { seen } else { Cursor::default() },
            position: Cursor::default(),
            reset: (!known).then_some(NOT_SEEN),
            follow,
            begun: false,
            unheard: None,
            looked_back: false,
            controls: true,
            mint: app.mint.clone(),
            took_over: false,
            asked: Asked::default(),
            ended: false,
        })
    }

    fn heed_notices(&mut self) {
        let notices = self
            .subscription
            .topic
            .notices_since(&mut self.notices_seen);
        if notices
            .iter()
            .any(|notice| matches!(notice, Notice::Resync | Notice::Doubt))
        {
            self.footing.doubt();
        }
    }

    fn deliver(&mut self, frame: &Frame, out: &mut Vec<Outgoing>) {
        for (seq, event) in frame.numbered() {
            if seq != self.next || self.ended {
                continue;
            }
            if !self.begun && !self.looked_back && self.is_answer_of_a_turn(event) {
                self.unheard = Some(seq);
                return;
            }
            let unseen = seq > self.seen.seq;
            let mut say = |at: Cursor, message| {
                let cursor = at.to_string();
                out.push(Outgoing { cursor, message });
            };
            if let Event::Response { turn: true, .. } = event {
                // Under the cursor before, so that nobody who comes back in between misses the end.
                let open = self.asked.withdraw().filter(|_| unseen);
                open.for_each(|message| say(self.position, message));
            }
            self.next = seq + 1;
            self.position = Cursor::live(seq, frame.nonce);
            self.footing.set(seq, Some(frame.nonce));
            if let Some(message) = self.concerns(event).filter(|_| unseen) {
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

    /// A request that a store has lost, and that was sent again, is answered by the turn that the first one began: under
    /// another name, and perhaps before it was sent again. It is told from there. A prompt that was cancelled in time
    /// has no turn.
    async fn look_back(&mut self, answer: u64) -> store::Result<()> {
        self.looked_back = true;
        let mut from = answer.saturating_sub(LOOKED_BACK).max(1);
        let mut begin = None;
        while from < answer {
            let frames = self.subscription.read(from, PAGE).await?;
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
        if let Some(begin) = begin {
            self.next = begin + 1;
            self.begun = true;
        }
        Ok(())
    }

    /// With a token for the session that the request has created.
    fn opened(&self, answer: &Bytes, scope: TokenScope) -> Option<Bytes> {
        let follow = &self.follow;
        let meta = || self.mint.meta(&follow.session, &follow.principal, scope);
        opening::add(answer, meta)
    }

    fn concerns(&mut self, event: &Event) -> Option<Bytes> {
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
                    self.asked.note(id);
                    message.clone()
                }),
            Event::Answer { id, by, .. } => {
                let others = by.as_ref() != Some(&self.follow.connection);
                (self.asked.settle(id) && others).then(|| compose::cancel_request(id))
            }
            Event::Response { to, message, .. } => {
                let ours = self.is_ours(to);
                self.ended = ours;
                if ours {
                    let (session, by) = (&self.follow.session, &self.follow.connection);
                    trace::deliver(to.trace.as_ref(), session, by, DeliveryPath::OneShot);
                }
                let created = self.follow.created.as_ref().filter(|_| ours);
                let opened = created.and_then(|scope| self.opened(message, *scope));
                ours.then(|| opened.unwrap_or_else(|| message.clone()))
            }
            _ => None,
        }
    }
}

impl Feed for OneShotFeed {
    const KIND: &'static str = "one_shot";

    fn start(&self) -> Start {
        Start {
            cursor: self.seen.to_string(),
            reset: self.reset,
        }
    }

    async fn gather(&mut self, out: &mut Vec<Outgoing>) -> store::Result<Gathered> {
        self.heed_notices();
        match self.footing.check().await? {
            Ground::Firm => {}
            Ground::Unsure => return Ok(Gathered::Open),
            // The request itself may be lost. Sent again it is joined, or done anew.
            Ground::Gone if !self.ended => {
                (self.ended, self.reset) = (true, Some(LOST_TAIL));
                self.seen = Cursor::default();
                return Ok(Gathered::Reset);
            }
            Ground::Gone => return Ok(Gathered::Ended),
        }
        while !self.ended && !is_enough(out, Outgoing::size) {
            let frames = match self.subscription.look(self.next) {
                Look::UpToDate => return Ok(Gathered::Open),
                Look::Frames(frames) => frames,
                Look::InStore => self.subscription.read(self.next, PAGE).await?,
            };
            if frames.is_empty() {
                return Ok(Gathered::Open);
            }
            let before = self.next;
            for frame in &frames {
                let had = out.len();
                self.deliver(frame, out);
                if out.len() > had {
                    self.subscription.handed_on(frame);
                }
            }
            if let Some(answer) = self.unheard.take() {
                self.look_back(answer).await?;
                continue;
            }
            if self.next == before {
                let session = &self.follow.session;
                return Err(store::Error::Broken(format!(
                    "the log of {session} has a hole at {before}"
                )));
            }
        }
        Ok(Gathered::open_if(!self.ended))
    }

    fn wake(&self) -> &Arc<Notify> {
        &self.wake
    }

    /// It ends by itself.
    fn seems_busy(&self) -> bool {
        true
    }

    async fn is_busy(&mut self) -> store::Result<bool> {
        Ok(true)
    }
}

/// A single answer that is known already.
pub struct Known {
    message: Option<Bytes>,
    wake: Arc<Notify>,
}

impl Known {
    pub fn new(message: Bytes) -> Self {
        Self {
            message: Some(message),
            wake: Arc::new(Notify::new()),
        }
    }
}

impl Feed for Known {
    const KIND: &'static str = "one_shot";

    fn start(&self) -> Start {
        Start {
            cursor: "0".into(),
            reset: None,
        }
    }

    async fn gather(&mut self, out: &mut Vec<Outgoing>) -> store::Result<Gathered> {
        let Some(message) = self.message.take() else {
            return Ok(Gathered::Ended);
        };
        out.push(Outgoing {
            cursor: "0".into(),
            message,
        });
        Ok(Gathered::Open)
    }

    fn wake(&self) -> &Arc<Notify> {
        &self.wake
    }

    fn seems_busy(&self) -> bool {
        true
    }

    async fn is_busy(&mut self) -> store::Result<bool> {
        Ok(true)
    }
}

/// Nothing, for as long as the client likes: the stream of a session that does not exist.
#[derive(Default)]
pub struct Silence {
    wake: Arc<Notify>,
}

impl Feed for Silence {
    const KIND: &'static str = "session";

    fn start(&self) -> Start {
        Start {
            cursor: "0".into(),
            reset: None,
        }
    }

    async fn gather(&mut self, _: &mut Vec<Outgoing>) -> store::Result<Gathered> {
        Ok(Gathered::Open)
    }

    fn wake(&self) -> &Arc<Notify> {
        &self.wake
    }

    fn seems_busy(&self) -> bool {
        false
    }

    async fn is_busy(&mut self) -> store::Result<bool> {
        Ok(false)
    }
}
