//! The in-memory state of an embedded store: the sessions and outboxes in use, the queue for
//! workers, and the registered workers.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use super::agents::AgentRegistry;
use super::backend::StorageBackend;
use super::outbox::Outbox;
use super::reports::KnownReports;
use super::requests::RequestIndex;
use super::session::StoredSession;
use super::single_use::SpentNames;
use crate::id::{ConnectionId, LogId, SessionId};
use crate::revocation::RevocationRegister;
use crate::store::{
    Claim, ClaimToken, Claimant, ListPosition, Result, SessionSummary, StreamTouch,
};

/// More than these are kept in memory only while they are used.
const ROOM: usize = 8192;

#[derive(Default)]
pub struct StoreState {
    pub(super) sessions: HashMap<SessionId, StoredSession>,
    outboxes: HashMap<ConnectionId, Outbox>,
    /// Sessions with a lease, run out or not.
    leased: HashSet<SessionId>,
    /// Sessions with work and no holder by agent, longest waiting first.
    ready: HashMap<String, BTreeMap<u64, SessionId>>,
    tickets: u64,
    pub(super) requests: RequestIndex,
    pub revoked: RevocationRegister,
    pub spent: SpentNames,
    pub agents: AgentRegistry,
    pub reports: KnownReports,
    /// How many there were when room was last made.
    left: usize,
}

impl StoreState {
    /// As the process before has left it.
    pub fn of<S: StorageBackend>(backend: &S) -> Result<Self> {
        let mut revoked = RevocationRegister::default();
        for known in backend.revoked()? {
            revoked.apply(&known, 0);
        }
        let mut state = Self {
            revoked,
            spent: SpentNames::of(backend.spent()?),
            ..Self::default()
        };
        for id in backend.waiting()? {
            state.wait(backend, &id)?;
            let session = state.session(backend, &id)?;
            let keys = session.map(|session| session.awaited()).unwrap_or_default();
            for key in keys {
                state.note_request(&key, &id);
            }
        }
        Ok(state)
    }

    pub fn session<S: StorageBackend>(
        &mut self,
        backend: &S,
        id: &SessionId,
    ) -> Result<Option<&mut StoredSession>> {
        if !self.sessions.contains_key(id) {
            match backend.session(id)? {
                Some(session) => self.make_room::<S>().sessions.insert(id.clone(), session),
                None => return Ok(None),
            };
        }
        Ok(self.sessions.get_mut(id))
    }

    pub fn outbox<S: StorageBackend>(
        &mut self,
        backend: &S,
        id: &ConnectionId,
    ) -> Result<&mut Outbox> {
        if !self.outboxes.contains_key(id) {
            let outbox = backend.outbox(id)?.unwrap_or_default();
            self.make_room::<S>().outboxes.insert(id.clone(), outbox);
        }
        Ok(self.outboxes.get_mut(id).expect("it is there by now"))
    }

    pub fn insert(&mut self, id: SessionId, session: StoredSession) {
        self.sessions.insert(id, session);
    }

    pub fn remove(&mut self, id: &SessionId) {
        self.no_longer_waits(id);
        self.leased.remove(id);
        self.sessions.remove(id);
    }

    pub fn remove_outbox(&mut self, id: &ConnectionId) {
        self.outboxes.remove(id);
    }

    /// Reads from the backend without loading: listing a session is not a use of it.
    pub fn summary<S: StorageBackend>(
        &self,
        backend: &S,
        place: ListPosition,
    ) -> Result<Option<SessionSummary>> {
        if let Some(session) = self.sessions.get(&place.session) {
            return Ok(Some(session.summary(place)));
        }
        let session = backend.session(&place.session)?;
        Ok(session.map(|session| session.summary(place)))
    }

    /// Drops unused entries from memory; the backend finds them again.
    fn make_room<S: StorageBackend>(&mut self) -> &mut Self {
        let count = self.sessions.len() + self.outboxes.len();
        if S::FINDS_AGAIN && count > ROOM.max(self.left * 2) {
            self.sessions.retain(|_, session| session.is_busy());
            self.outboxes.retain(|_, outbox| outbox.holder.is_some());
            self.left = self.sessions.len() + self.outboxes.len();
        }
        self
    }

    pub fn head<S: StorageBackend>(&mut self, backend: &S, log: &LogId) -> Result<u64> {
        Ok(match log {
            LogId::Session(id) => self.session(backend, id)?.map_or(0, |session| session.head),
            LogId::Outbox(id) => match self.outboxes.get(id) {
                Some(outbox) => outbox.head,
                None => backend.outbox(id)?.map_or(0, |outbox| outbox.head),
            },
        })
    }

    // ---- the queue for workers ----

    /// Agents with sessions that wait, or that were run here, and no worker now.
    pub fn deserted(&self) -> Vec<String> {
        let waiting = self.ready.iter().filter(|(_, waiting)| !waiting.is_empty());
        let waiting = waiting.map(|(name, _)| name);
        let names: BTreeSet<&String> = waiting.chain(self.agents.names()).collect();
        let alone = names.into_iter().filter(|name| !self.agents.is_alive(name));
        alone.cloned().collect()
    }

    pub fn wait<S: StorageBackend>(&mut self, backend: &S, id: &SessionId) -> Result<()> {
        let ticket = self.tickets + 1;
        let Some(session) = self
            .session(backend, id)?
            .filter(|session| session.waits.is_none())
        else {
            return Ok(());
        };
        session.waits = Some(ticket);
        let agent = session.agent.clone();
        self.tickets = ticket;
        let waiting = self.ready.entry(agent).or_default();
        waiting.insert(ticket, id.clone());
        Ok(())
    }

    /// Takes the session out of the queue; true if it was there.
    pub fn no_longer_waits(&mut self, id: &SessionId) -> bool {
        let Some(session) = self.sessions.get_mut(id) else {
            return false;
        };
        let waiting = self.ready.get_mut(&session.agent);
        match (session.waits.take(), waiting) {
            (Some(ticket), Some(waiting)) => waiting.remove(&ticket).is_some(),
            _ => false,
        }
    }

    /// How many sessions of the principal wait, or are held and work.
    pub fn turns_of(&self, principal: &str) -> u64 {
        self.at_work(principal).count() as u64
    }

    /// These sessions.
    pub fn at_work(&self, principal: &str) -> impl Iterator<Item = (&SessionId, &StoredSession)> {
        let waiting = self.ready.values().flat_map(BTreeMap::values);
        // One whose lease ran out while a command came does both.
        let waiting = waiting.filter(|id| !self.leased.contains(*id));
        let busy = self.leased.iter().chain(waiting);
        // One that only rests at its worker is held, too.
        busy.filter_map(move |id| {
            let session = self.sessions.get(id)?;
            (session.is_for(principal) && session.has_work()).then_some((id, session))
        })
    }

    /// Sessions whose lease ran out, then those that wait, longest waiting first.
    pub fn due(&self, agent: &str, limit: usize) -> Vec<SessionId> {
        let waiting = self.ready.get(agent).into_iter().flat_map(BTreeMap::values);
        let mut seen = HashSet::new();
        let all = self.ran_out(agent).chain(waiting);
        let due = all.filter(|id| seen.insert(*id)).take(limit);
        due.cloned().collect()
    }

    /// How many sessions of the agent want a worker.
    pub fn waiting(&self, agent: &str) -> u64 {
        let ready = self.ready.get(agent);
        let is_ready = |id: &SessionId| {
            let session = self.sessions.get(id);
            session.is_some_and(|session| session.waits.is_some())
        };
        // One whose lease ran out while a command came is both.
        let ran_out = self.ran_out(agent).filter(|id| !is_ready(id)).count();
        (ran_out + ready.map_or(0, BTreeMap::len)) as u64
    }

    fn ran_out(&self, agent: &str) -> impl Iterator<Item = &SessionId> {
        let now = Instant::now();
        self.leased.iter().filter(move |id| {
            let session = self
                .sessions
                .get(*id)
                .filter(|session| session.agent == agent && !session.is_arriving());
            let lease = session.and_then(|session| session.lease.as_ref());
            lease.is_some_and(|lease| lease.expires <= now)
        })
    }

    pub fn claim<S: StorageBackend>(
        &mut self,
        backend: &S,
        id: &SessionId,
        claimant: &Claimant,
    ) -> Result<Option<Claim>> {
        let session = self.session(backend, id)?;
        let Some(session) = session.filter(|session| session.agent == claimant.agent) else {
            return Ok(None);
        };
        let claim = session.claim(id, claimant);
        if claim.is_some() {
            self.leased.insert(id.clone());
        }
        self.no_longer_waits(id);
        Ok(claim)
    }

    /// The session, and whether it is to be saved; `None` if it is not held under this token any
    /// more.
    pub fn renew(
        &mut self,
        id: &SessionId,
        token: &ClaimToken,
        lease: Duration,
    ) -> Option<(&StoredSession, bool)> {
        let session = self.sessions.get_mut(id)?;
        let changed = session.renew(token, lease)?;
        Some((session, changed))
    }

    pub fn remove_lease(&mut self, id: &SessionId) {
        self.leased.remove(id);
    }

    // ---- streams ----

    /// `until` is the registration's new end; `None` ends it now. False if another holder has it.
    pub fn touch<S: StorageBackend>(
        &mut self,
        backend: &S,
        touch: &StreamTouch,
        until: Option<Instant>,
    ) -> Result<bool> {
        let written = touch.written.clone();
        let connection = &touch.stream.connection;
        match &touch.stream.session {
            None => {
                let outbox = self.outbox(backend, connection)?;
                // The next holder begins where this one has ended.
                if outbox.before.as_deref() == Some(&touch.holder) {
                    outbox.written = written.clone().or(outbox.written.take());
                    outbox.before = until.and(outbox.before.take());
                }
                if outbox.holder.as_deref() != Some(&touch.holder) {
                    return Ok(outbox.holder.is_none());
                }
                if written.is_some() {
                    outbox.written = written;
                    outbox.before = None;
                }
                outbox.holder = until.and(outbox.holder.take());
            }
            Some(id) => {
                let session = self.session(backend, id)?;
                let party = session.and_then(|session| session.parties.hear_of(connection));
                let Some(party) = party else {
                    return Ok(true);
                };
                if party.before.as_deref() == Some(&touch.holder) {
                    party.written = written.clone().or(party.written.take());
                    party.before = until.and(party.before.take());
                }
                let holder = party.stream.as_ref().map(|(holder, _)| holder);
                if holder.is_none_or(|holder| *holder != touch.holder) {
                    return Ok(party.stream.is_none());
                }
                if written.is_some() {
                    party.written = written;
                    party.before = None;
                }
                party.stream = until.map(|until| (touch.holder.clone(), until));
            }
        }
        Ok(true)
    }
}
