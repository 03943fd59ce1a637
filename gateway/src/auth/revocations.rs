//! Revocations, as this process knows them. Pushed by the store, so that no request has to ask;
//! read in full at the start, after a loss of signals, and now and then.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard};

use baton_session::clock::unix_millis;
use baton_session::id::{ConnectionId, SessionId};
use baton_session::revocation::{Revocation, RevocationRegister, RevocationSubject, RevokeOutcome};
use baton_session::store::{self, Store};

use self::watches::RevocationWatches;
pub use self::watches::{RevocationWatch, WatchedSubject};

mod watches;

/// Logouts of all callers together, some 30 MB. Beyond that those of the caller with the most
/// become one; and if there are as many callers, nobody's login from before counts any more.
/// Nothing is let in again.
const ROOM: usize = 100_000;
/// As many more make the whole set be read half as often.
const READ_LESS_OFTEN: usize = 10_000;

pub struct KnownRevocations {
    known: RwLock<RevocationState>,
    /// Nothing was ever revoked: nothing has to be looked up.
    is_empty: AtomicBool,
    /// Signals may have been lost, and what the store has was not read since.
    incomplete: AtomicBool,
    /// Open streams that have to check again.
    interests: Arc<RevocationWatches>,
    /// Rounds since the whole set was read.
    rounds: AtomicU64,
    room: usize,
}

#[derive(Default)]
struct RevocationState {
    register: RevocationRegister,
    /// Logins of everybody that were issued then or earlier are refused, until then.
    floor: Option<(u64, u64)>,
    /// Up to when streams have looked at what takes effect later.
    checked_until: u64,
}

impl Default for KnownRevocations {
    fn default() -> Self {
        Self::with_room(ROOM)
    }
}

impl KnownRevocations {
    fn with_room(room: usize) -> Self {
        Self {
            known: RwLock::default(),
            is_empty: AtomicBool::new(true),
            incomplete: AtomicBool::new(false),
            interests: Arc::default(),
            rounds: AtomicU64::new(0),
            room,
        }
    }

    fn known(&self) -> RwLockReadGuard<'_, RevocationState> {
        self.known.read().expect("held for moments only")
    }

    /// Whether something of this was issued too early. Each comes with when that was, in seconds
    /// since 1970; the principal's part is whatever is given of the other two.
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
        let register = &known.register;
        let hits = |found: Option<&Revocation>, issued: u64| {
            found.is_some_and(|found| found.from <= now && issued <= found.before)
        };
        let issued = [
            connection.map(|(_, issued)| issued),
            session.map(|(_, issued)| issued),
        ];
        let oldest = issued.into_iter().flatten().min();
        let of_all = [
            register.principals.get(principal),
            register.everybody.as_ref(),
        ];
        oldest.is_some_and(|oldest| of_all.into_iter().any(|found| hits(found, oldest)))
            || connection.is_some_and(|(id, issued)| hits(register.connections.get(id), issued))
            || session.is_some_and(|(id, issued)| hits(register.sessions.get(id), issued))
    }

    /// Whether a session token was renewed, and its own time is over; or a login was ended.
    pub fn is_family_revoked(&self, family: &str, generation: u32) -> bool {
        if self.is_empty.load(Ordering::Acquire) {
            return false;
        }
        let (now, known) = (seconds(), self.known());
        let later = known.register.families.get(family).into_iter();
        let mut later = later.flat_map(|all| all.range(generation.saturating_add(1)..));
        later.any(|(_, revocation)| revocation.from <= now)
    }

    /// Whether a login was ended, by itself or with others. `issued`: it or the ticket that it has
    /// asked for.
    pub fn is_login_over(&self, principal: &str, family: &str, issued: u64) -> bool {
        if self.is_empty.load(Ordering::Acquire) {
            return false;
        }
        // Looked at first, as the lock must not be taken twice.
        self.is_family_revoked(family, 0) || {
            let (now, known) = (seconds(), self.known());
            let all = known.register.logins.get(principal);
            let mut all = all.into_iter().chain(&known.register.everybody);
            all.any(|all| all.from <= now && issued <= all.before)
                || known.floor.is_some_and(|(before, _)| issued <= before)
        }
    }

    /// Whether a ticket or login, which stands for the principal's credential, was taken back.
    pub fn is_credential_revoked(&self, principal: &str, issued: u64, login: Option<&str>) -> bool {
        if self.is_empty.load(Ordering::Acquire) {
            return false;
        }
        if login.is_some_and(|family| self.is_login_over(principal, family, issued)) {
            return true;
        }
        let known = self.known();
        let found = known.register.principals.get(principal);
        let mut found = found.into_iter().chain(&known.register.everybody);
        found.any(|found| found.from <= seconds() && issued <= found.before)
    }

    /// Whether something that may be used once may have been, and the store does not know: it was
    /// restored since then. `issued` by its maker's clock.
    pub fn predates_restore(&self, issued: u64) -> bool {
        let known = self.known();
        let restored = known.register.everybody.as_ref();
        restored.is_some_and(|restored| issued <= restored.from)
    }

    /// Whether the client itself has ended it.
    pub fn was_closed_by_client(&self, connection: &ConnectionId) -> bool {
        let known = self.known();
        let found = known.register.connections.get(connection);
        found.is_some_and(Revocation::is_of_ended)
    }

    /// A token issued now is dated after the last revocation of its principal or session, even in
    /// the same second.
    pub fn issue_time(&self, principal: &str, session: Option<&SessionId>) -> u64 {
        let known = self.known();
        let session = session.and_then(|session| known.register.sessions.get(session));
        let everybody = known.register.everybody.as_ref();
        let revocations = [known.register.principals.get(principal), session, everybody];
        let before = revocations.into_iter().flatten().map(|known| known.before);
        after(before)
    }

    /// The same for a login or ticket.
    pub fn login_time(&self, principal: &str) -> u64 {
        let known = self.known();
        let register = &known.register;
        let revocations = [
            register.principals.get(principal),
            register.logins.get(principal),
            register.everybody.as_ref(),
        ];
        let before = revocations.into_iter().flatten().map(|known| known.before);
        after(before.chain(known.floor.map(|(before, _)| before)))
    }

    /// Something may have been revoked that is not known here: nothing is to be made of what it may
    /// have been about.
    pub fn may_be_incomplete(&self) -> bool {
        self.incomplete.load(Ordering::Acquire)
    }

    /// Signals were lost.
    pub fn mark_incomplete(&self) {
        self.incomplete.store(true, Ordering::Release);
    }

    /// For what is open: to be woken for this. Register first, then look.
    pub fn interest(&self, in_these: Vec<WatchedSubject>) -> RevocationWatch {
        RevocationWatches::register(&self.interests, in_these)
    }

    pub fn add(&self, revocation: Revocation) {
        self.add_all([revocation]);
    }

    /// Merges the store's revocations. Those that are known here and not there stay: nothing is
    /// ever unrevoked.
    pub async fn read_all(&self, store: &dyn Store) -> store::Result<()> {
        self.rounds.store(0, Ordering::Relaxed);
        // Signals lost from here on may be missing in the answer.
        self.incomplete.store(false, Ordering::Release);
        match store.revocations().await {
            Ok(all) => self.add_all(all),
            Err(error) => {
                self.mark_incomplete();
                return Err(error);
            }
        }
        Ok(())
    }

    /// To be called regularly: signals are hints. A large set is read less often.
    pub async fn refresh(&self, store: &dyn Store) {
        let round = self.rounds.fetch_add(1, Ordering::Relaxed);
        let rounds = (self.known().register.len() / READ_LESS_OFTEN) as u64;
        if round < rounds && !self.may_be_incomplete() {
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
        let mut changed = known.take_effect(now);
        for revocation in revocations {
            if revocation.until <= now {
                continue;
            }
            if let RevokeOutcome::Done(kept, _) = known.register.apply(&revocation, now) {
                changed.push(kept.subject.clone());
            }
        }
        let everybody = known.make_room(self.room, now, &mut changed);
        let is_empty = known.register.is_empty() && known.floor.is_none();
        self.is_empty.store(is_empty, Ordering::Release);
        drop(known);
        if everybody {
            tracing::error!(
                room = self.room,
                "too many logouts: no login that was made until now counts any more"
            );
            self.interests.wake_all();
        }
        changed
            .iter()
            .for_each(|subject| self.interests.wake(subject));
    }
}

impl RevocationState {
    fn forget(&mut self, now: u64) {
        self.register.forget(now);
        self.floor = self.floor.filter(|(_, until)| *until > now);
    }

    /// True if everybody has to look again.
    fn make_room(&mut self, room: usize, now: u64, changed: &mut Vec<RevocationSubject>) -> bool {
        while self.register.logouts() > room {
            match self.register.collapse_largest(now) {
                Some(all) => changed.push(all.subject),
                None => break,
            }
        }
        if self.register.logins.len() <= room {
            return false;
        }
        let (before, until) = self.floor.unwrap_or_default();
        let dropped = self.register.drop_logins().unwrap_or_default();
        self.floor = Some((before.max(dropped.0), until.max(dropped.1)));
        true
    }

    /// Handles revocations that have taken effect since the last check.
    fn take_effect(&mut self, now: u64) -> Vec<RevocationSubject> {
        let since = std::mem::replace(&mut self.checked_until, now);
        let register = &self.register;
        // Streams know no renewals, and those are the many.
        let all = register
            .sessions
            .values()
            .chain(register.connections.values())
            .chain(register.principals.values());
        let now_in_effect = |known: &&Revocation| since < known.from && known.from <= now;
        all.filter(now_in_effect)
            .map(|known| known.subject.clone())
            .collect()
    }
}

/// The first second after all of them, and not before now.
fn after(all: impl Iterator<Item = u64>) -> u64 {
    all.max().map_or(0, |before| before + 1).max(seconds())
}

fn seconds() -> u64 {
    unix_millis() / 1000
}

#[cfg(test)]
mod tests;
