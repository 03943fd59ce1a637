//! Sessions come to a connection's stream, and leave it.

use baton_session::command::CommandId;
use baton_session::cursor::Cursor;
use baton_session::id::{LogId, SessionId};
use baton_session::route::{DeliveryPath, Route};
use baton_session::store;
use baton_session::token::ConnectionToken;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::super::feed::MessageFeed as _;
use super::super::session_feed::{FeedReader, FeedStart, SessionFeed};
use super::super::wake::StreamWake;
use super::ConnectionFeed;
use crate::stream::log_tail::LogTail;

/// So many are opened at a time, when a stream begins with many.
const OPENED_AT_ONCE: usize = 32;

pub(super) struct WatchedSession {
    pub feed: SessionFeed,
    pub resting: bool,
    /// The last entry that told to watch it. If that is another one than the first, whatever it was
    /// for may not have reached the session yet, and counts on this watch: it does not end because
    /// the session is closed.
    pub last_watch: u64,
    /// The commands that this stream waits for before it ends.
    pub awaited: Option<Vec<CommandId>>,
}

impl WatchedSession {
    pub async fn is_busy(&mut self) -> store::Result<bool> {
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
    /// Opens the sessions to watch of a client or the store, in any order. Nothing changes before
    /// all are open, so a failure may be tried again.
    pub(super) async fn open_all(
        &self,
        sessions: Vec<(u64, SessionId, Option<FeedStart>)>,
    ) -> store::Result<Vec<(u64, SessionFeed)>> {
        let opened = stream::iter(sessions)
            .map(|(watch, session, from)| self.open_watch(watch, session, from))
            .buffered(OPENED_AT_ONCE);
        let opened: Vec<_> = opened.try_collect().await?;
        let found = opened.into_iter();
        Ok(found
            .filter_map(|(watch, feed)| Some((watch, feed?)))
            .collect())
    }

    /// False if a session's part of the cursor could not be honoured.
    pub(super) fn add_all(&mut self, opened: Vec<(u64, SessionFeed)>) -> bool {
        let mut honoured = true;
        for (watch, feed) in opened {
            honoured &= feed.start().reset.is_none();
            self.add(watch, feed);
        }
        honoured
    }

    pub(super) async fn watch(
        &mut self,
        watch: u64,
        session: SessionId,
        from: FeedStart,
    ) -> store::Result<()> {
        if let Some(first) = self.watches.get(&session) {
            if let Some(watched) = self.sessions.get_mut(first) {
                watched.last_watch = watch;
            }
            return Ok(());
        }
        if let (_, Some(feed)) = self.open_watch(watch, session, Some(from)).await? {
            self.add(watch, feed);
        }
        Ok(())
    }

    fn add(&mut self, watch: u64, feed: SessionFeed) {
        let session = feed.session().clone();
        if self.watches.contains_key(&session) {
            return;
        }
        self.watches.insert(session, watch);
        self.positions.set(watch, feed.position());
        self.due.insert(watch);
        let watched = WatchedSession {
            feed,
            resting: false,
            last_watch: watch,
            awaited: None,
        };
        self.sessions.insert(watch, watched);
    }

    pub(super) async fn leave(&mut self, watch: u64) {
        self.due.remove(&watch);
        self.positions.leave(watch);
        let Some(watched) = self.sessions.remove(&watch) else {
            return;
        };
        let session = watched.feed.session();
        self.watches.remove(session);
        let (store, id) = (&self.services.store, &self.connection.id);
        if let Err(error) = store.forget_watch(id, session, watched.last_watch).await {
            // It takes one of many places in the store until the connection ends, nothing else.
            tracing::debug!(%error, connection.id = %id, session.id = %session, "could not forget \
                a watch");
        }
    }

    /// From the session's end on, if nothing else is said.
    async fn open_watch(
        &self,
        watch: u64,
        session: SessionId,
        from: Option<FeedStart>,
    ) -> store::Result<(u64, Option<SessionFeed>)> {
        let store = &self.services.store;
        let log = LogId::Session(session.clone());
        let wake = self.outbox.wake().notify().clone();
        let wake = StreamWake::of(wake, self.callers.clone(), watch);
        let from = match from {
            Some(from) => from,
            None => {
                let head = store.heads(std::slice::from_ref(&log)).await?[0];
                self.after(&session, head).await?
            }
        };
        let tail = LogTail::open(&self.services, &log, wake).await?;
        let mut attachment = self.attachment(&session).await?;
        if attachment.is_none() && matches!(from, FeedStart::Joined) {
            match tail.head().await? {
                // It is announced before it exists.
                0 => attachment = Some(not_yet_created()),
                // Created between the two looks, or forgotten and kept for its forks.
                _ => attachment = self.attachment(&session).await?,
            }
        }
        let Some(attachment) = attachment else {
            return Ok((watch, None));
        };
        let reader = FeedReader {
            session,
            connection: self.connection.id.clone(),
            principal: self.connection.principal.clone(),
            scope: self.scope,
            via: DeliveryPath::Connection,
            turn_notices: self.connection.client.turn_notices,
            holder: None,
        };
        let feed = SessionFeed::open(&self.services, reader, tail, attachment, from);
        Ok((watch, Some(feed.await?)))
    }

    /// Idle sessions are not woken by events on their own stream. Now and then they are brought up
    /// to date, so that a client that resumes from the cursor does not have to read all those
    /// events.
    pub(super) fn catch_up_resting(&mut self) {
        for (watch, watched) in &mut self.sessions {
            if !watched.resting {
                continue;
            }
            if watched.feed.rouse() {
                self.due.insert(*watch);
            } else {
                self.positions.set(*watch, watched.feed.position());
            }
        }
    }

    pub(super) async fn after(&self, session: &SessionId, seq: u64) -> store::Result<FeedStart> {
        let frames = self
            .services
            .store
            .read(&LogId::Session(session.clone()), seq, 1)
            .await?;
        let nonce = frames.first().map(|frame| frame.nonce).unwrap_or_default();
        Ok(FeedStart::After(Cursor::live(seq, nonce)))
    }

    async fn attachment(&self, session: &SessionId) -> store::Result<Option<store::Attachment>> {
        let ConnectionToken { id, principal, .. } = &self.connection;
        self.services.store.attachment(session, id, principal).await
    }
}

/// A session as it is before it exists.
fn not_yet_created() -> store::Attachment {
    let mut route = Route::default();
    route.switch(1, DeliveryPath::Connection);
    store::Attachment {
        head: 0,
        route,
        controller: None,
        directives: Vec::new(),
        view: Default::default(),
        pending: Vec::new(),
        deleted: false,
        closed: false,
        left: 0,
    }
}
