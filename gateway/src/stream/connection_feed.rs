//! What a connection stream or WebSocket carries: the connection's outbox, and every session that
//! has no stream of its own. Its cursor covers them all, see `position`.

mod position;
mod restart;

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_session::command::CommandId;
use baton_session::cursor::Cursor;
use baton_session::event::Event;
use baton_session::id::{LogId, Nonce, SessionId};
use baton_session::route::Via;
use baton_session::store;
use baton_session::token::{Connection, Scope};
use tokio::sync::Notify;

pub use self::position::Position;
use super::footing::{LOST_TAIL, nonce_of};
use super::hub::Subscription;
use super::session_feed::{From, Reader, SessionFeed};
use super::topic::{Look, Notice};
use super::{Feed, Gathered, Outgoing, Start, is_enough};
use crate::app::App;

const PAGE: usize = 64;

pub struct ConnectionFeed {
    app: Arc<App>,
    connection: Connection,
    /// Of the tokens that it gets with its answers.
    scope: Scope,
    holder: String,
    outbox: Subscription,
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
    /// What comes next is not kept any more.
    fell_behind: bool,
    /// By the outbox entry that told us to watch.
    sessions: BTreeMap<u64, Watched>,
    /// The one of them that was looked at last.
    served: u64,
    /// Our own registration was announced; from then on another one means that we lost the stream.
    announced: bool,
    ended: bool,
    start: Start,
}

struct Watched {
    feed: SessionFeed,
    resting: bool,
    /// The commands that this stream waits for before it ends.
    awaited: Option<Vec<CommandId>>,
}

impl Watched {
    async fn is_busy(&mut self) -> store::Result<bool> {
        if !self.resting {
            return self.feed.is_under_way().await;
        }
        // The end of its turns is not seen here. It is enough to wait for those that were under way,
        // or a client with one prompt after the other would never let go.
        let work = self.feed.work().await?;
        let awaited = self.awaited.get_or_insert_with(|| work.clone());
        Ok(work.iter().any(|command| awaited.contains(command)))
    }
}

impl ConnectionFeed {
    /// `cursor` is what the client or the ledger remembers; `None` is the beginning.
    pub async fn open(
        app: Arc<App>,
        connection: Connection,
        scope: Scope,
        holder: String,
        outbox: Subscription,
        wake: Arc<Notify>,
        cursor: Option<&str>,
    ) -> store::Result<Self> {
        let log = LogId::Outbox(connection.id.clone());
        let head = app.store.heads(std::slice::from_ref(&log)).await?[0];
        outbox.topic.grow(head);
        let notices_seen = outbox.notices;
        let mut feed = Self {
            app,
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
            served: 0,
            announced: false,
            ended: false,
            start: Start {
                cursor: "0".into(),
                reset: None,
            },
        };
        let honoured = match cursor.map(Position::parse) {
            None => feed.resume(Position::default()).await?,
            Some(Some(position)) => feed.resume(position).await?,
            Some(None) => false,
        };
        if !honoured {
            feed.start_over(head).await?;
        }
        feed.start.cursor = feed.position().to_string();
        Ok(feed)
    }

    /// False if the session's part of the cursor could not be honoured.
    async fn watch(&mut self, watch: u64, session: SessionId, from: From) -> store::Result<bool> {
        if self
            .sessions
            .values()
            .any(|watched| *watched.feed.session() == session)
        {
            return Ok(true);
        }
        let log = LogId::Session(session.clone());
        let subscription = self.app.hub.subscribe(&log, self.wake.clone()).await?;
        let mut attachment = self.attachment(&session).await?;
        if attachment.is_none() && matches!(from, From::Joined) {
            match self.app.store.heads(&[log]).await?[0] {
                // It is announced before it exists.
                0 => attachment = Some(unborn()),
                // Created between the two looks, or forgotten and kept for its forks.
                _ => attachment = self.attachment(&session).await?,
            }
        }
        let Some(attachment) = attachment else {
            return Ok(true);
        };
        let reader = Reader {
            session,
            connection: self.connection.id.clone(),
            principal: self.connection.principal.clone(),
            scope: self.scope,
            via: Via::Connection,
            holder: None,
        };
        let feed = SessionFeed::open(
            &self.app,
            reader,
            subscription,
            self.wake.clone(),
            attachment,
            from,
        )
        .await?;
        let honoured = feed.start().reset.is_none();
        self.sessions.insert(
            watch,
            Watched {
                feed,
                resting: false,
                awaited: None,
            },
        );
        Ok(honoured)
    }

    async fn attachment(&self, session: &SessionId) -> store::Result<Option<store::Attachment>> {
        let Connection { id, principal, .. } = &self.connection;
        self.app.store.attachment(session, id, principal).await
    }

    fn position(&self) -> Position {
        let sessions = self
            .sessions
            .iter()
            .map(|(watch, watched)| (*watch, watched.feed.position()));
        Position {
            outbox: self.read,
            nonce: self.nonce,
            sessions: sessions.collect(),
        }
    }

    async fn read_outbox(&mut self, out: &mut Vec<Outgoing>) -> store::Result<()> {
        while !is_enough(out, Outgoing::size) {
            let frames = match self.outbox.look(self.read + 1) {
                Look::UpToDate => return Ok(()),
                Look::Frames(frames) => frames,
                Look::InStore => self.outbox.read(self.read + 1, PAGE).await?,
            };
            if frames.is_empty() {
                return Ok(());
            }
            // Whoever reads an entry before it leaves the outbox has it; who comes too late has to be told.
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
                    self.take_in(seq, frame.nonce, event, out).await?;
                }
            }
        }
        Ok(())
    }

    async fn take_in(
        &mut self,
        seq: u64,
        nonce: Nonce,
        event: &Event,
        out: &mut Vec<Outgoing>,
    ) -> store::Result<()> {
        match event {
            Event::Watch { session, after } => {
                let from = if *after == 0 {
                    From::Joined
                } else {
                    self.after(session, *after).await?
                };
                self.watch(seq, session.clone(), from).await?;
            }
            Event::Closed => self.ended |= seq > self.opened_at,
            _ => {}
        }
        (self.read, self.nonce) = (seq, Some(nonce));
        if let Event::Message { message } = event {
            let cursor = self.position().to_string();
            out.push(Outgoing {
                cursor,
                message: message.clone(),
            });
        }
        Ok(())
    }

    async fn after(&self, session: &SessionId, seq: u64) -> store::Result<From> {
        let frames = self
            .app
            .store
            .read(&LogId::Session(session.clone()), seq, 1)
            .await?;
        let nonce = frames.first().map(|frame| frame.nonce).unwrap_or_default();
        Ok(From::After(Cursor::live(seq, nonce)))
    }

    async fn read_sessions(&mut self, out: &mut Vec<Outgoing>) -> store::Result<()> {
        // Those that found no room the last time come first now.
        let later = self.sessions.range(..=self.served);
        let sooner = self.sessions.range(self.served + 1..);
        let watches: Vec<u64> = sooner.chain(later).map(|(watch, _)| *watch).collect();
        // One session that cannot be read must not hold up the others.
        let mut failed = Ok(());
        for watch in watches {
            if is_enough(out, Outgoing::size) {
                break;
            }
            self.served = watch;
            let mut collected = Vec::new();
            let outcome = {
                let watched = self.sessions.get_mut(&watch).expect("listed a moment ago");
                if watched.resting && !watched.feed.rouse() {
                    continue;
                }
                let outcome = watched.feed.collect(&mut collected).await;
                watched.resting = watched.feed.rest();
                outcome
            };
            if !collected.is_empty() {
                let mut position = self.position();
                for (cursor, message) in collected {
                    position.sessions.insert(watch, cursor);
                    out.push(Outgoing {
                        cursor: position.to_string(),
                        message,
                    });
                }
            }
            failed = failed.and(outcome.map(drop));
        }
        failed
    }

    /// True if something that was delivered does not exist any more. It is said before anything
    /// else, since every later cursor would pass over it.
    async fn has_slipped(&mut self) -> store::Result<bool> {
        if (self.doubtful || self.fell_behind) && !self.stands_firm().await? {
            let log = LogId::Outbox(self.connection.id.clone());
            let head = self.app.store.heads(&[log]).await?[0];
            self.start_over(head).await?;
            return Ok(true);
        }
        let mut slipped = false;
        for watched in self.sessions.values_mut() {
            slipped |= watched.feed.has_slipped().await?;
        }
        if slipped {
            self.start.reset = Some(LOST_TAIL);
        }
        Ok(slipped)
    }

    /// Whether the last entry that was read is still there, and what comes after it as well.
    async fn stands_firm(&mut self) -> store::Result<bool> {
        let log = LogId::Outbox(self.connection.id.clone());
        let firm = match (self.read, self.fell_behind) {
            (_, true) => false,
            (0, false) => true,
            (read, false) => {
                let found = nonce_of(&*self.app.store, &log, read).await?;
                found.is_some_and(|found| self.nonce.is_none_or(|nonce| nonce == found))
            }
        };
        self.doubtful = false;
        Ok(firm)
    }

    fn is_taken(&mut self) -> bool {
        for notice in self.outbox.topic.notices_since(&mut self.notices_seen) {
            match notice {
                Notice::Taken { holder, .. } if holder == self.holder => self.announced = true,
                Notice::Taken { .. } if self.announced => return true,
                Notice::Resync | Notice::Doubt => self.doubtful = true,
                _ => {}
            }
        }
        false
    }
}

impl Feed for ConnectionFeed {
    const KIND: &'static str = "connection";

    fn start(&self) -> Start {
        self.start.clone()
    }

    async fn gather(&mut self, out: &mut Vec<Outgoing>) -> store::Result<Gathered> {
        if self.ended || self.is_taken() {
            self.ended = true;
            return Ok(Gathered::Ended);
        }
        if self.has_slipped().await? {
            self.start.cursor = self.position().to_string();
            return Ok(Gathered::Reset);
        }
        self.read_outbox(out).await?;
        self.read_sessions(out).await?;
        Ok(Gathered::open_if(!self.ended))
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
        let head = self.app.store.heads(&[log]).await?[0];
        self.outbox.topic.grow(head);
        Ok(self.read < head)
    }
}

/// A session as it is before it exists.
fn unborn() -> store::Attachment {
    let mut route = baton_session::route::Route::default();
    route.switch(1, Via::Connection);
    store::Attachment {
        head: 0,
        route,
        controller: None,
        directives: Vec::new(),
        view: Default::default(),
        pending: Vec::new(),
        deleted: false,
    }
}
