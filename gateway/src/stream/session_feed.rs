//! What one connection gets of one session, on one of its streams. Every holder of a stream works
//! this out from the log alone, and they all come to the same result.

use std::sync::Arc;

use baton_session::cursor::{Cursor, Phase};
use baton_session::event::{Event, Frame};
use baton_session::id::{ConnectionId, LogId, Nonce, SessionId};
use baton_session::route::Via;
use baton_session::store::{self, Attachment, Directive, Store};
use bytes::Bytes;
use tokio::sync::Notify;

use super::hub::Subscription;
use super::topic::{Look, Muted, Notice};
use super::{Feed, Outgoing, Start};
use crate::app::App;
use crate::rpc;

/// Frames per read from the store; a slow client holds no more than this.
const PAGE: usize = 64;
/// Messages per write.
const MAX_BATCH: usize = 1024;

pub struct SessionFeed {
    store: Arc<dyn Store>,
    subscription: Subscription,
    wake: Arc<Notify>,
    session: SessionId,
    connection: ConnectionId,
    principal: String,
    /// The stream this feed writes to.
    via: Via,
    /// The name under which a session stream is held.
    holder: Option<String>,
    /// Our own registration was announced; from then on another one means that we lost the stream.
    announced: bool,
    attachment: Attachment,
    /// The attachment must be read again.
    stale: bool,
    /// The number of the last directive that was answered here or is not ours.
    answered: u64,
    /// How far the history of the current directive was replayed.
    replayed: Option<u64>,
    /// The agent's open questions after this number have yet to be asked again.
    ask_after: Option<u64>,
    next: u64,
    position: Cursor,
    notices_seen: u64,
    /// Ends after the directive's answer.
    one_shot: bool,
    ended: bool,
    start: Start,
}

/// From where a stream goes on.
pub enum From {
    /// After this cursor.
    After(Cursor),
    /// From where the connection joined the session.
    Joined,
}

pub struct Reader {
    pub session: SessionId,
    pub connection: ConnectionId,
    pub principal: String,
    pub via: Via,
    pub holder: Option<String>,
}

impl SessionFeed {
    /// `attachment` must have been read after the subscription was confirmed.
    pub async fn open(
        app: &App,
        reader: Reader,
        subscription: Subscription,
        wake: Arc<Notify>,
        attachment: Attachment,
        from: From,
    ) -> store::Result<Self> {
        let notices_seen = subscription.notices;
        subscription.topic.grow(attachment.head);
        let mut feed = Self {
            store: app.store.clone(),
            subscription,
            wake,
            one_shot: reader.via == Via::OneShot,
            session: reader.session,
            connection: reader.connection,
            principal: reader.principal,
            via: reader.via,
            holder: reader.holder,
            announced: false,
            attachment,
            stale: false,
            answered: 0,
            replayed: None,
            ask_after: None,
            next: 1,
            position: Cursor::default(),
            notices_seen,
            ended: false,
            start: Start {
                cursor: String::new(),
                reset: None,
            },
        };
        let reset = match from {
            From::After(cursor) => feed.resume(cursor).await?,
            From::Joined => {
                let head = feed.attachment.head;
                let joined = feed.attachment.route.joined().unwrap_or(head + 1);
                let next = feed
                    .attachment
                    .route
                    .next_by(feed.via, joined)
                    .unwrap_or(head + 1);
                feed.go_to(next).await?;
                None
            }
        };
        feed.start = Start {
            cursor: feed.position.to_string(),
            reset,
        };
        Ok(feed)
    }

    /// Goes on after a client's cursor. Returns why it can't, if it can't.
    async fn resume(&mut self, cursor: Cursor) -> store::Result<Option<&'static str>> {
        let head = self.attachment.head;
        let directive = self.attachment.directive.clone();
        let latest = directive.as_ref().map_or(0, |directive| directive.number);
        let known = cursor.seq <= head
            && (cursor.seq == 0 || self.nonce_of(cursor.seq).await? == Some(cursor.nonce));
        let replaying_other = matches!(cursor.phase, Phase::Replaying(number) if number != latest);
        if !known || replaying_other {
            self.answered = latest;
            self.go_to(head + 1).await?;
            let gone = "the cursor is not part of this session's history: load the session again";
            let superseded =
                "the load that was being replayed was superseded: load the session again";
            return Ok(Some(if known { superseded } else { gone }));
        }
        self.position = cursor;
        self.next = cursor.seq + 1;
        match (cursor.phase, directive) {
            (Phase::Replaying(_), Some(directive)) => {
                self.answered = latest - 1;
                self.replayed = Some(cursor.seq);
                self.next = directive.upto + 1;
            }
            (Phase::Answered(number), _) => {
                self.answered = number;
                self.ask_after = Some(0);
            }
            (Phase::Asked(number, question), _) => {
                self.answered = number;
                self.ask_after = Some(question);
            }
            (_, Some(directive)) if cursor.seq > directive.upto => self.answered = latest,
            _ => self.answered = latest.saturating_sub(1),
        }
        Ok(None)
    }

    async fn go_to(&mut self, next: u64) -> store::Result<()> {
        self.next = next;
        let nonce = if next > 1 {
            self.nonce_of(next - 1).await?
        } else {
            None
        };
        self.position = Cursor::live(next - 1, nonce.unwrap_or_default());
        Ok(())
    }

    async fn nonce_of(&self, seq: u64) -> store::Result<Option<Nonce>> {
        let frames = self.store.read(&self.log(), seq, 1).await?;
        let frame = frames.first().filter(|frame| frame.first <= seq);
        Ok(frame.map(|frame| frame.nonce))
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

    /// Collects what is there. False once the stream is to end.
    pub async fn collect(&mut self, out: &mut Vec<(Cursor, Bytes)>) -> store::Result<bool> {
        if self.ended || !self.heed_notices() {
            return Ok(false);
        }
        if self.stale {
            self.refresh().await?;
        }
        loop {
            self.follow_directive(out).await?;
            if self.ended || out.len() >= MAX_BATCH {
                return Ok(!self.ended);
            }
            match self.subscription.topic.look(self.next) {
                Look::UpToDate => return Ok(true),
                Look::Frames(frames) => frames.iter().for_each(|frame| self.deliver(frame, out)),
                Look::InStore => {
                    let frames = self.store.read(&self.log(), self.next, PAGE).await?;
                    if frames.is_empty() {
                        return Ok(true);
                    }
                    frames.iter().for_each(|frame| self.deliver(frame, out));
                }
            }
        }
    }

    /// False if another holder took this stream over.
    fn heed_notices(&mut self) -> bool {
        for notice in self
            .subscription
            .topic
            .notices_since(&mut self.notices_seen)
        {
            match notice {
                Notice::Taken { connection, .. }
                    if connection != self.connection || self.holder.is_none() => {}
                Notice::Taken { holder, .. } if self.holder.as_ref() == Some(&holder) => {
                    self.announced = true
                }
                Notice::Taken { .. } if self.announced => return false,
                Notice::Taken { .. } => {}
                Notice::Attached(_) | Notice::Resync => self.stale = true,
            }
        }
        true
    }

    async fn refresh(&mut self) -> store::Result<()> {
        let read = self
            .store
            .attachment(&self.session, &self.connection, &self.principal)
            .await?;
        if let Some(attachment) = read {
            self.subscription.topic.grow(attachment.head);
            self.attachment = attachment;
        }
        self.stale = false;
        Ok(())
    }

    /// The directive that this stream still has to carry out.
    fn directive(&mut self) -> Option<Directive> {
        let directive = self.attachment.directive.clone()?;
        if directive.number <= self.answered {
            return None;
        }
        if directive.via != self.via {
            self.answered = directive.number;
            return None;
        }
        Some(directive)
    }

    /// History, then the answer. Without replay, the answer comes once everything before it went out.
    async fn follow_directive(&mut self, out: &mut Vec<(Cursor, Bytes)>) -> store::Result<()> {
        while let Some(directive) = self.directive() {
            if directive.replay {
                let from = *self.replayed.get_or_insert(0) + 1;
                if from <= directive.upto {
                    if out.len() >= MAX_BATCH {
                        return Ok(());
                    }
                    self.replay(&directive, from, out).await?;
                    continue;
                }
            } else if self.next <= directive.upto {
                return Ok(());
            }
            self.answer(&directive, out).await?;
        }
        self.ask_again(out).await
    }

    async fn replay(
        &mut self,
        directive: &Directive,
        from: u64,
        out: &mut Vec<(Cursor, Bytes)>,
    ) -> store::Result<()> {
        let frames = self.store.read(&self.log(), from, PAGE).await?;
        if frames.is_empty() {
            self.replayed = Some(directive.upto);
        }
        for frame in &frames {
            for (seq, event) in frame
                .numbered()
                .filter(|(seq, _)| (from..=directive.upto).contains(seq))
            {
                self.replayed = Some(seq);
                self.position = Cursor {
                    seq,
                    nonce: frame.nonce,
                    phase: Phase::Replaying(directive.number),
                };
                if let Event::Update { message, .. } | Event::Echo { message, .. } = event {
                    out.push((self.position, message.clone()));
                }
            }
        }
        Ok(())
    }

    async fn answer(
        &mut self,
        directive: &Directive,
        out: &mut Vec<(Cursor, Bytes)>,
    ) -> store::Result<()> {
        let nonce = match directive.upto {
            0 => None,
            upto => self.nonce_of(upto).await?,
        };
        self.position = Cursor {
            seq: directive.upto,
            nonce: nonce.unwrap_or_default(),
            phase: Phase::Answered(directive.number),
        };
        let answer = rpc::result(&directive.request, &self.attachment.view);
        out.push((self.position, answer));
        self.answered = directive.number;
        self.replayed = None;
        self.ask_after = Some(0);
        self.next = self.next.max(directive.upto + 1);
        self.ended = self.one_shot;
        Ok(())
    }

    /// A client that has just taken control is asked the agent's open questions again.
    async fn ask_again(&mut self, out: &mut Vec<(Cursor, Bytes)>) -> store::Result<()> {
        let Some(after) = self.ask_after else {
            return Ok(());
        };
        // Later ones come live.
        let upto = self.position.seq;
        let controls = self.attachment.controller.as_ref() == Some(&self.connection);
        let open = self.attachment.pending.iter().copied();
        let open: Vec<u64> = open
            .filter(|seq| controls && (after + 1..=upto).contains(seq))
            .collect();
        for seq in open {
            let frames = self.store.read(&self.log(), seq, 1).await?;
            let mut events = frames.iter().flat_map(|frame| frame.numbered());
            if let Some((_, Event::Request { message, .. })) =
                events.find(|(number, _)| *number == seq)
            {
                self.position.phase = Phase::Asked(self.answered, seq);
                out.push((self.position, message.clone()));
            }
            self.ask_after = Some(seq);
        }
        self.ask_after = None;
        Ok(())
    }

    fn deliver(&mut self, frame: &Frame, out: &mut Vec<(Cursor, Bytes)>) {
        // A resume is answered between two events, see `follow_directive`.
        let upto = self
            .directive()
            .map_or(u64::MAX, |directive| directive.upto);
        for (seq, event) in frame.numbered() {
            if seq != self.next || seq > upto {
                continue;
            }
            self.next = seq + 1;
            self.position = Cursor::live(seq, frame.nonce);
            if let Some(message) = self.concerns(seq, event) {
                out.push((self.position, message.clone()));
            }
        }
    }

    fn concerns<'a>(&mut self, seq: u64, event: &'a Event) -> Option<&'a Bytes> {
        // The attachment already knows what the log said when it was read.
        let news = seq > self.attachment.head;
        if let Event::Begin(begin) = event
            && news
        {
            self.attachment.controller = Some(begin.connection.clone());
            if begin.connection == self.connection {
                self.attachment.route.switch(seq, begin.via);
            }
        }
        let here = self.attachment.route.at(seq) == Some(self.via);
        match event {
            Event::Update { message, .. } => here.then_some(message),
            Event::Echo { by, message } => (here && *by != self.connection).then_some(message),
            Event::Request { message, .. } => {
                let controls = self.attachment.controller.as_ref() == Some(&self.connection);
                (here && controls).then_some(message)
            }
            Event::Response { to, turn, message } if to.connection == self.connection => {
                if *turn && news {
                    self.attachment.route.one_shot_ended(seq);
                }
                (to.via == self.via).then_some(message)
            }
            _ => None,
        }
    }

    // ---- for a connection stream, which reads many sessions and hears little of most ----

    /// Stops listening if the session's own stream carries it from here on.
    pub fn rest(&mut self) -> bool {
        let elsewhere = self.attachment.route.at(self.next) == Some(Via::Session);
        let idle = self.directive().is_none() && !self.stale;
        elsewhere
            && idle
            && self
                .subscription
                .topic
                .mute(self.subscription.reader, &self.connection, self.next)
    }

    /// False while it rests and nothing concerns it.
    pub fn rouse(&mut self) -> bool {
        match self.subscription.topic.muted(self.subscription.reader) {
            Muted::Still(last) => {
                if let Some((seq, nonce)) = last.filter(|(seq, _)| *seq >= self.next) {
                    self.next = seq + 1;
                    self.position = Cursor::live(seq, nonce);
                }
                self.notices_seen != self.subscription.topic.notice_count()
            }
            Muted::ResumeAt(seq) => {
                self.next = self.next.max(seq);
                // Who asked what in between is in the store, not here.
                self.stale = true;
                true
            }
            Muted::Unsure => true,
        }
    }
}

impl Feed for SessionFeed {
    fn start(&self) -> Start {
        self.start.clone()
    }

    async fn gather(&mut self, out: &mut Vec<Outgoing>) -> store::Result<bool> {
        let mut collected = Vec::new();
        let outcome = self.collect(&mut collected).await;
        let outgoing = |(cursor, message): (Cursor, Bytes)| Outgoing {
            cursor: cursor.to_string(),
            message,
        };
        out.extend(collected.into_iter().map(outgoing));
        outcome
    }

    fn wake(&self) -> &Arc<Notify> {
        &self.wake
    }
}
