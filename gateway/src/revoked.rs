//! What was revoked, as this process knows it. Pushed by the store, so that no request has to ask; read
//! in full at the start, after a loss of signals, and now and then.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{RwLock, RwLockReadGuard};

use baton_session::clock::unix_millis;
use baton_session::id::{ConnectionId, SessionId};
use baton_session::revocation::{Revocation, Subject};
use baton_session::store::{self, Store};
use tokio::sync::watch;

/// Some 30 MB. Beyond that those that end first are dropped, which is a fault to be seen to.
const ROOM: usize = 100_000;
/// Connections that their clients have given up. Beyond that the oldest are dropped, and nobody is
/// harmed: only their own clients could come back with them.
const GIVEN_UP: usize = 50_000;
/// As many more make the whole set be read half as often.
const READ_LESS_OFTEN: usize = 10_000;

pub struct Revoked {
    known: RwLock<Known>,
    /// Nothing was ever revoked: nothing has to be looked up.
    is_empty: AtomicBool,
    /// Changes whenever open streams have to look again.
    news: watch::Sender<()>,
    /// Rounds since the whole set was read.
    rounds: AtomicU64,
    room: usize,
}

#[derive(Default)]
struct Known {
    sessions: HashMap<SessionId, Revocation>,
    connections: HashMap<ConnectionId, Revocation>,
    principals: HashMap<String, Revocation>,
    /// By generation.
    families: HashMap<String, BTreeMap<u32, Revocation>>,
    /// All of them, by when they end.
    ends: BTreeSet<(u64, Subject)>,
    /// But those of connections that were given up.
    given_up: BTreeSet<(u64, ConnectionId)>,
    /// Up to when streams have looked at what takes effect later.
    looked: u64,
}

impl Default for Revoked {
    fn default() -> Self {
        Self::with_room(ROOM)
    }
}

impl Revoked {
    fn with_room(room: usize) -> Self {
        Self {
            known: RwLock::default(),
            is_empty: AtomicBool::new(true),
            news: watch::Sender::new(()),
            rounds: AtomicU64::new(0),
            room,
        }
    }

    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().expect("held for moments only")
    }

    /// Whether something of this was issued too early. Each comes with when that was, in seconds since 1970;
    /// the principal's part is whatever is given of the other two.
    pub fn is_revoked(
        &self,
        principal: &str,
        connection: Option<(&ConnectionId, u64)>,
        session: Option<(&SessionId, u64)>,
    ) -> bool {
        if self.is_empty.load(Ordering::Acquire) {
            return false;
        }
        let (now, known) = (seconds(), self.known());
        let hits = |found: Option<&Revocation>, issued: u64| {
            found.is_some_and(|found| found.from <= now && issued <= found.before)
        };
        let issued = [
            connection.map(|(_, issued)| issued),
            session.map(|(_, issued)| issued),
        ];
        let oldest = issued.into_iter().flatten().min();
        oldest.is_some_and(|oldest| hits(known.principals.get(principal), oldest))
            || connection.is_some_and(|(id, issued)| hits(known.connections.get(id), issued))
            || session.is_some_and(|(id, issued)| hits(known.sessions.get(id), issued))
    }

    /// Whether a session token was renewed, and its own time is over; or a login was ended.
    pub fn is_family_revoked(&self, family: &str, generation: u32) -> bool {
        if self.is_empty.load(Ordering::Acquire) {
            return false;
        }
        let (now, known) = (seconds(), self.known());
        let later = known.families.get(family).into_iter();
        let mut later = later.flat_map(|all| all.range(generation.saturating_add(1)..));
        later.any(|(_, revocation)| revocation.from <= now)
    }

    /// Whether a ticket or login, which stands for the principal's credential, was taken back.
    pub fn stands_no_more(&self, principal: &str, issued: u64, login: Option<&str>) -> bool {
        if self.is_empty.load(Ordering::Acquire) {
            return false;
        }
        // Looked at first, as the lock must not be taken twice.
        let is_ended = login.is_some_and(|family| self.is_family_revoked(family, 0));
        let known = self.known();
        let found = known.principals.get(principal);
        is_ended || found.is_some_and(|found| found.from <= seconds() && issued <= found.before)
    }

    /// Whether the client itself has ended it.
    pub fn was_given_up(&self, connection: &ConnectionId) -> bool {
        let known = self.known();
        let found = known.connections.get(connection);
        found.is_some_and(Revocation::is_of_ended)
    }

    /// What a principal gets now is dated after what was taken from it, or of the session, be it in the
    /// same second.
    pub fn issue_time(&self, principal: &str, session: Option<&SessionId>) -> u64 {
        let known = self.known();
        let session = session.and_then(|session| known.sessions.get(session));
        let revoked = [known.principals.get(principal), session];
        let before = revoked
            .into_iter()
            .flatten()
            .map(|known| known.before)
            .max();
        before.map_or(0, |before| before + 1).max(seconds())
    }

    /// For what is open: subscribe first, then look.
    pub fn news(&self) -> watch::Receiver<()> {
        self.news.subscribe()
    }

    pub fn add(&self, revocation: Revocation) {
        self.add_all([revocation]);
    }

    /// Takes in what the store has. What is known here and not there stays: nothing is ever unrevoked.
    pub async fn read_all(&self, store: &dyn Store) -> store::Result<()> {
        self.rounds.store(0, Ordering::Relaxed);
        self.add_all(store.revocations().await?);
        Ok(())
    }

    /// To be called regularly: signals are hints. A large set is read less often.
    pub async fn refresh(&self, store: &dyn Store) {
        let round = self.rounds.fetch_add(1, Ordering::Relaxed);
        if round < (self.known().len() / READ_LESS_OFTEN) as u64 {
            return self.add_all([]);
        }
        if let Err(error) = self.read_all(store).await {
            tracing::warn!(%error, "could not read what was revoked");
        }
    }

    fn add_all(&self, revocations: impl IntoIterator<Item = Revocation>) {
        let now = seconds();
        let mut known = self.known.write().expect("held for moments only");
        known.forget(now);
        let mut is_news = known.takes_effect(now);
        for revocation in revocations {
            is_news |= revocation.until > now && known.add(revocation);
        }
        let dropped = known.make_room(self.room);
        self.is_empty.store(known.len() == 0, Ordering::Release);
        drop(known);
        if dropped > 0 {
            tracing::error!(
                dropped,
                room = self.room,
                "too many revocations: those that end first are NOT enforced by this gateway"
            );
        }
        if is_news {
            self.news.send_replace(());
        }
    }
}

impl Known {
    fn find(&self, subject: &Subject) -> Option<&Revocation> {
        match subject {
            Subject::Session(id) => self.sessions.get(id),
            Subject::Connection(id) => self.connections.get(id),
            Subject::Principal(name) => self.principals.get(name),
            Subject::Family { family, below } => self.families.get(family)?.get(below),
        }
    }

    /// False if it changes nothing.
    fn add(&mut self, new: Revocation) -> bool {
        if let Some(known) = self.find(&new.subject) {
            if *known == new || !known.gives_way_to(&new) {
                return false;
            }
            let end = (known.until, new.subject.clone());
            self.ends.remove(&end);
            if let Subject::Connection(id) = &new.subject {
                self.given_up.remove(&(end.0, id.clone()));
            }
        }
        match &new.subject {
            Subject::Connection(id) if new.is_of_ended() => {
                self.given_up.insert((new.until, id.clone()));
            }
            subject => _ = self.ends.insert((new.until, subject.clone())),
        }
        match new.subject.clone() {
            Subject::Session(id) => _ = self.sessions.insert(id, new),
            Subject::Connection(id) => _ = self.connections.insert(id, new),
            Subject::Principal(name) => _ = self.principals.insert(name, new),
            Subject::Family { family, below } => {
                self.families.entry(family).or_default().insert(below, new);
            }
        }
        true
    }

    fn forget(&mut self, now: u64) {
        while self.ends.first().is_some_and(|(end, _)| *end <= now) {
            self.drop_first();
        }
        let ended = |known: &Self| known.given_up.first().is_some_and(|(end, _)| *end <= now);
        while ended(self) || self.given_up.len() > GIVEN_UP {
            if let Some((_, id)) = self.given_up.pop_first() {
                self.connections.remove(&id);
            }
        }
    }

    fn len(&self) -> usize {
        self.ends.len() + self.given_up.len()
    }

    /// How many had to be dropped.
    fn make_room(&mut self, room: usize) -> usize {
        let dropped = self.ends.len().saturating_sub(room);
        (0..dropped).for_each(|_| self.drop_first());
        dropped
    }

    fn drop_first(&mut self) {
        match self.ends.pop_first() {
            None => {}
            Some((_, Subject::Session(id))) => _ = self.sessions.remove(&id),
            Some((_, Subject::Connection(id))) => _ = self.connections.remove(&id),
            Some((_, Subject::Principal(name))) => _ = self.principals.remove(&name),
            Some((_, Subject::Family { family, below })) => {
                if let Some(all) = self.families.get_mut(&family) {
                    all.remove(&below);
                    if all.is_empty() {
                        self.families.remove(&family);
                    }
                }
            }
        }
    }

    /// Whether something that was announced has taken effect since the last look.
    fn takes_effect(&mut self, now: u64) -> bool {
        let since = std::mem::replace(&mut self.looked, now);
        // Streams know no families, and those are the many.
        let sessions = self.sessions.values();
        let mut all = sessions
            .chain(self.connections.values())
            .chain(self.principals.values());
        since < now && all.any(|known| (since + 1..=now).contains(&known.from))
    }
}

fn seconds() -> u64 {
    unix_millis() / 1000
}

#[cfg(test)]
mod tests;
