//! The content of a connection stream or WebSocket: the connection's outbox, and every session that
//! has no stream of its own. Its cursor covers them all, see `position` and `positions`.

mod cursor_text;
mod resume;
mod session_positions;
mod watched_sessions;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use baton_session::command::{CommandId, IdempotencyKey};
use baton_session::cursor::Cursor;
use baton_session::event::Event;
use baton_session::id::{LogId, Nonce, SessionId};
use baton_session::store::{self, OutboxProgress, PostOutcome, StreamId, StreamTouch};
use baton_session::token::{ConnectionToken, TokenScope};
use bytes::Bytes;
use tokio::sync::Notify;

pub use self::cursor_text::ConnectionCursor;
use self::cursor_text::OutboxEntry;
use self::session_positions::SessionPositions;
use super::hub::LogSubscription;
use super::session_feed::{FeedStart, SessionFeed};
use super::tailed_log::{LogNotice, LogTail};
use super::truncation::{LOST_TAIL, nonce_of};
use super::wake::WakeCallers;
use super::{GatherOutcome, MessageFeed, OutgoingMessage, StartPosition, is_enough};
use crate::stream::StreamServices;

const PAGE: usize = 64;

pub struct ConnectionFeed {
    services: Arc<StreamServices>,
    connection: ConnectionToken,
    /// Of the tokens that it gets with its answers.
    scope: TokenScope,
    holder: String,
    outbox: LogSubscription,
    wake: Arc<Notify>,
    /// The last entry of the outbox that was read.
    read: u64,
    /// Of that entry, if it is known. Another one there means that the store has lost it.
    nonce: Option<Nonce>,
    /// The last entry when this stream was opened: a detach before that concerned an earlier one.
    opened_at: u64,
    notices_seen: u64,
    /// The outbox may have become shorter.
    doubtful: bool,
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
    /// Our own registration was announced; from then on another one means that we lost the stream.
    announced: bool,
    ended: bool,
    start: StartPosition,
}

struct WatchedSession {
    feed: SessionFeed,
    resting: bool,
    /// The last entry that told to watch it. If that is another one than the first, whatever it was
    /// for may not have reached the session yet, and counts on this watch: it does not end because
    /// the session is closed.
    last_watch: u64,
    /// The commands that this stream waits for before it ends.
    awaited: Option<Vec<CommandId>>,
}

impl WatchedSession {
    async fn is_busy(&mut self) -> store::Result<bool> {
        if !self.resting {
            return self.feed.is_under_way().await;
        }
        // The end of its turns is not seen here. It is enough to wait for those that were under
        // way, or a client with one prompt after the other would never let go.
        let work = self.feed.work().await?;
        let awaited = self.awaited.get_or_insert_with(|| work.clone());
        Ok(work.iter().any(|command| awaited.contains(command)))
    }
}

impl ConnectionFeed {
    /// `cursor` is what the client or the stream registry remembers; `None` is the beginning.
    pub async fn open(
        services: Arc<StreamServices>,
        connection: ConnectionToken,
        scope: TokenScope,
        holder: String,
        outbox: LogSubscription,
        wake: Arc<Notify>,
        cursor: Option<&str>,
    ) -> store::Result<Self> {
        let log = LogId::Outbox(connection.id.clone());
        let head = services.store.heads(std::slice::from_ref(&log)).await?[0];
        outbox.tailed.grow(head);
        let notices_seen = outbox.notices;
        let mut feed = Self {
            services,
            connection,
            scope,
            holder,
            outbox,
            wake,
            read: 0,
            nonce: None,
            opened_at: head,
            notices_seen,
            doubtful: false,
            fell_behind: false,
            sessions: BTreeMap::new(),
            watches: HashMap::new(),
            positions: SessionPositions::default(),
            has_reported: false,
            callers: Arc::default(),
            due: BTreeSet::new(),
            served: 0,
            announced: false,
            ended: false,
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
        self.positions.cursor(self.read, self.nonce)
    }

    /// To be called before anything changes that is part of the cursor: if that has become too
    /// long, most of it goes into the outbox.
    async fn shorten_cursor(&mut self) -> store::Result<()> {
        let Some(mut draft) = self.positions.draft(self.read) else {
            return Ok(());
        };
        if draft.is_whole {
            self.catch_up_resting();
            draft.text = self.positions.whole();
        }
        let text = Bytes::from(draft.text.clone());
        let mut posted = self.post_positions(text.clone()).await?;
        if posted == PostOutcome::Full && !self.has_reported {
            self.has_reported = true;
            self.report_progress().await?;
            posted = self.post_positions(text).await?;
        }
        match posted {
            PostOutcome::New { number, nonce } => {
                self.positions.posted(&draft, OutboxEntry { number, nonce });
            }
            // A long cursor is better than none.
            PostOutcome::Full
            | PostOutcome::Known(_)
            | PostOutcome::Delivered
            | PostOutcome::Conflict => {
                let id = &self.connection.id;
                tracing::warn!(connection.id = %id, "the outbox does not take positions: cursors \
                    are long");
            }
        }
        Ok(())
    }

    async fn post_positions(&self, text: Bytes) -> store::Result<PostOutcome> {
        let id = &self.connection.id;
        let key = IdempotencyKey::of(id, None, b"");
        let positions = Event::Positions { text };
        self.services.store.post(id, positions, &key).await
    }

    /// Streams that come and go too fast tell the store nothing of how far the client is. It came
    /// with the cursor that this stream began with, and needs nothing before that. Later on the
    /// registry knows better.
    async fn report_progress(&self) -> store::Result<()> {
        let upto = ConnectionCursor::first_needed(&self.start.cursor).unwrap_or(0);
        let settled = 0;
        let touch = StreamTouch {
            stream: StreamId {
                connection: self.connection.id.clone(),
                session: None,
            },
            holder: self.holder.clone(),
            written: None,
            delivered: Some(OutboxProgress { upto, settled }),
        };
        self.services.store.touch_streams(&[touch]).await?;
        Ok(())
    }

    async fn read_outbox(&mut self, out: &mut Vec<OutgoingMessage>) -> store::Result<()> {
        while !is_enough(out, OutgoingMessage::size) {
            let frames = match self.outbox.tail(self.read + 1) {
                LogTail::UpToDate => return Ok(()),
                LogTail::Frames(frames) => frames,
                LogTail::InStore => self.outbox.read(self.read + 1, PAGE).await?,
            };
            if frames.is_empty() {
                return Ok(());
            }
            // A reader that reads an entry before it leaves the outbox has it; a later one has to
            // be told.
            if frames[0].first > self.read + 1 {
                self.fell_behind = true;
                self.wake.notify_one();
                return Ok(());
            }
            for frame in &frames {
                for (seq, event) in frame.numbered() {
                    if seq <= self.read {
                        continue;
                    }
                    // An entry counts as read only when it is dealt with: opening a watch may fail.
                    self.apply_entry(seq, frame.nonce, event, out).await?;
                }
            }
        }
        Ok(())
    }

    async fn apply_entry(
        &mut self,
        seq: u64,
        nonce: Nonce,
        event: &Event,
        out: &mut Vec<OutgoingMessage>,
    ) -> store::Result<()> {
        self.shorten_cursor().await?;
        match event {
            Event::Watch { session, after } => {
                let from = if *after == 0 {
                    FeedStart::Joined
                } else {
                    self.after(session, *after).await?
                };
                self.watch(seq, session.clone(), from).await?;
            }
            Event::Closed => self.ended |= seq > self.opened_at,
            _ => {}
        }
        (self.read, self.nonce) = (seq, Some(nonce));
        self.positions.pass(seq, event.size());
        if let Event::Message { message } = event {
            let cursor = self.cursor();
            out.push(OutgoingMessage {
                cursor,
                message: message.clone(),
            });
        }
        Ok(())
    }

    async fn after(&self, session: &SessionId, seq: u64) -> store::Result<FeedStart> {
        let frames = self
            .services
            .store
            .read(&LogId::Session(session.clone()), seq, 1)
            .await?;
        let nonce = frames.first().map(|frame| frame.nonce).unwrap_or_default();
        Ok(FeedStart::After(Cursor::live(seq, nonce)))
    }

    async fn read_sessions(&mut self, out: &mut Vec<OutgoingMessage>) -> store::Result<()> {
        // Those that found no room the last time come first now.
        let later = self.due.range(..=self.served);
        let sooner = self.due.range(self.served + 1..);
        let watches: Vec<u64> = sooner.chain(later).copied().collect();
        // One session that cannot be read must not hold up the others.
        let mut failed = Ok(());
        for watch in watches {
            if is_enough(out, OutgoingMessage::size) {
                break;
            }
            self.shorten_cursor().await?;
            self.served = watch;
            failed = failed.and(self.read_session(watch, out).await);
        }
        failed
    }

    async fn read_session(
        &mut self,
        watch: u64,
        out: &mut Vec<OutgoingMessage>,
    ) -> store::Result<()> {
        let Some(watched) = self.sessions.get_mut(&watch) else {
            self.due.remove(&watch);
            return Ok(());
        };
        if watched.resting && !watched.feed.rouse() {
            self.due.remove(&watch);
            return Ok(());
        }
        let mut collected = Vec::new();
        let outcome = watched.feed.collect(&mut collected).await;
        watched.resting = watched.feed.rest();
        let position = watched.feed.position();
        if outcome.is_ok() && collected.is_empty() && (watched.resting || watched.feed.is_idle()) {
            self.due.remove(&watch);
        }
        for (cursor, message) in collected {
            self.positions.set(watch, cursor);
            let cursor = self.cursor();
            out.push(OutgoingMessage { cursor, message });
        }
        self.positions.set(watch, position);
        outcome?;
        let Some(watched) = self.sessions.get_mut(&watch) else {
            return Ok(());
        };
        let ends_with_close = (watched.last_watch == watch).then_some(watch);
        let over = watched.feed.is_over(ends_with_close);
        match over.await {
            Ok(true) => self.leave(watch).await,
            Ok(false) => {}
            Err(error) => {
                // It is asked once more.
                self.due.insert(watch);
                return Err(error);
            }
        }
        Ok(())
    }

    /// True if something that was delivered does not exist any more. It is said before anything
    /// else, since every later cursor would pass over it.
    async fn was_truncated(&mut self) -> store::Result<bool> {
        if (self.doubtful || self.fell_behind) && !self.still_intact().await? {
            let log = LogId::Outbox(self.connection.id.clone());
            let head = self.services.store.heads(&[log]).await?[0];
            let sessions = self.sessions.iter();
            let parts = sessions.map(|(watch, watched)| (*watch, Some(watched.feed.position())));
            let parts = parts.collect();
            self.begin_anew(head, &parts).await?;
            return Ok(true);
        }
        let mut truncated = false;
        for watch in &self.due {
            if let Some(watched) = self.sessions.get_mut(watch) {
                truncated |= watched.feed.was_truncated().await?;
                self.positions.set(*watch, watched.feed.position());
            }
        }
        if truncated {
            self.start.reset = Some(LOST_TAIL);
        }
        Ok(truncated)
    }

    /// Whether the last entry that was read is still there, and what comes after it as well.
    async fn still_intact(&mut self) -> store::Result<bool> {
        let log = LogId::Outbox(self.connection.id.clone());
        let firm = match (self.read, self.fell_behind) {
            (_, true) => false,
            (0, false) => true,
            (read, false) => {
                let found = nonce_of(&*self.services.store, &log, read).await?;
                found.is_some_and(|found| self.nonce.is_none_or(|nonce| nonce == found))
            }
        };
        // Cursors that name what is lost get a reset; from here on they name something else.
        for entry in self.positions.entries().to_vec() {
            if firm
                && nonce_of(&*self.services.store, &log, entry.number).await? != Some(entry.nonce)
            {
                self.positions.forget_entries();
                break;
            }
        }
        self.doubtful = false;
        Ok(firm)
    }

    fn is_taken(&mut self) -> bool {
        for notice in self.outbox.tailed.notices_since(&mut self.notices_seen) {
            match notice {
                LogNotice::Taken { holder, .. } if holder == self.holder => self.announced = true,
                LogNotice::Taken { .. } if self.announced => return true,
                LogNotice::Resync | LogNotice::Doubt => self.doubtful = true,
                _ => {}
            }
        }
        false
    }
}

impl MessageFeed for ConnectionFeed {
    const KIND: &'static str = "connection";

    fn start(&self) -> StartPosition {
        self.start.clone()
    }

    async fn gather(&mut self, out: &mut Vec<OutgoingMessage>) -> store::Result<GatherOutcome> {
        if self.ended || self.is_taken() {
            self.ended = true;
            return Ok(GatherOutcome::Ended);
        }
        self.due.append(&mut self.callers.take());
        if self.was_truncated().await? {
            self.shorten_cursor().await?;
            self.start.cursor = self.cursor();
            return Ok(GatherOutcome::Reset);
        }
        self.read_outbox(out).await?;
        self.read_sessions(out).await?;
        Ok(GatherOutcome::open_if(!self.ended))
    }

    fn wake(&self) -> &Arc<Notify> {
        &self.wake
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
        let log = LogId::Outbox(self.connection.id.clone());
        let head = self.services.store.heads(&[log]).await?[0];
        self.outbox.tailed.grow(head);
        Ok(self.read < head)
    }
}
