//! The store inside the process, in memory or in files, and the readable form of what the Redis
//! scripts do. One lock, no waiting inside it: a step changes the state, saves what it changed on
//! the shelf, and only then tells anybody.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::{mpsc, watch};

use self::memory::Memory;
use self::session::Session;
use self::shelf::{Change, Kind, Shelf};
use self::signals::Switchboard;
use self::state::State;
use crate::command::{Command, Idempotency, Queued};
use crate::event::{Event, Frame};
use crate::id::{ConnectionId, LogId, Partition, SessionId};
use crate::revocation::Revocation;
use crate::store::{
    Adoption, AgentCard, Append, Appended, Attach, Attached, Attachment, Claim, ClaimToken,
    Claimant, Enqueue, Enqueued, Error, Fork, Forked, Listener, Listing, NewSession, Opened,
    Posted, Record, Result, STREAM_TTL, Signal, Store, StreamId, Summary, Tidied, Tidying, Topic,
    Touch, Usage, WorkerId,
};

mod agents;
mod expiry;
#[cfg(any(test, feature = "conformance"))]
mod failover;
mod file;
mod lineage;
mod list;
mod memory;
mod outbox;
mod revocation;
mod session;
mod shelf;
mod signals;
mod spending;
mod state;
mod upkeep;
mod whole;

#[cfg(any(test, feature = "conformance"))]
pub use self::failover::Replica;
pub use self::file::Refused;

/// Everything ends with the process: for tests and `--ephemeral`.
pub type MemoryStore = Embedded<Memory>;
/// Everything is in a directory.
pub type FileStore = Embedded<file::Disk>;

#[derive(Clone)]
pub struct Embedded<S> {
    state: Arc<Mutex<State>>,
    switchboard: Arc<Switchboard>,
    shelf: S,
    /// Why nothing can be saved any more.
    failed: Arc<watch::Sender<Option<String>>>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::on(Memory::default()).expect("an empty shelf can be read")
    }
}

impl<S: Shelf> Embedded<S> {
    fn on(shelf: S) -> Result<Self> {
        Ok(Self {
            state: Arc::new(Mutex::new(State::of(&shelf)?)),
            switchboard: Arc::default(),
            shelf,
            failed: Arc::new(watch::Sender::new(None)),
        })
    }

    /// Returns once nothing can be saved any more, with the reason. What was acknowledged is safe;
    /// the process has to start again.
    pub async fn failed(&self) -> String {
        let mut failed = self.failed.subscribe();
        let reason = failed.wait_for(Option::is_some).await;
        reason
            .ok()
            .and_then(|reason| reason.clone())
            .unwrap_or_default()
    }

    fn state(&self) -> Result<MutexGuard<'_, State>> {
        if let Some(reason) = &*self.failed.borrow() {
            return Err(Error::Unavailable(reason.clone()));
        }
        let state = self.state.lock();
        Ok(state.expect("no step panics while it holds the lock"))
    }

    /// With an error, memory is ahead of the shelf: from then on no step is taken.
    fn save(&self, changes: &[Change<'_>]) -> Result<()> {
        self.shelf.save(changes).inspect_err(|error| {
            tracing::error!(%error, "nothing can be saved any more");
            self.failed.send_replace(Some(error.to_string()));
        })
    }

    fn announce(&self, topic: Topic, signal: Signal) {
        self.switchboard.send(&topic, signal);
    }

    fn announce_log(&self, log: LogId, signal: Signal) {
        self.announce(Topic::Log(log), signal);
    }

    fn announce_frame(&self, log: LogId, frame: Arc<Frame>) {
        self.announce_log(log.clone(), Signal::Frame(log, frame));
    }

    /// Tells the session's holder, or the workers that wait for work, about its inbox.
    fn wake(&self, state: &mut State, id: &SessionId) -> Result<()> {
        let Some(session) = state.session(&self.shelf, id)? else {
            return Ok(());
        };
        match &session.lease {
            Some(lease) if lease.expires > Instant::now() => {
                let topic = Topic::Inbox(id.partition(), lease.worker.clone());
                self.announce(topic, Signal::Inbox(id.clone()));
            }
            _ => {
                let topic = Topic::Ready(id.partition(), session.agent.clone());
                state.wait(&self.shelf, id)?;
                self.announce(topic, Signal::Ready(id.clone()));
            }
        }
        Ok(())
    }

    fn claimed(
        &self,
        state: &mut State,
        id: &SessionId,
        claimant: &Claimant,
    ) -> Result<Option<Claim>> {
        let claim = state.claim(&self.shelf, id, claimant)?;
        if claim.is_some()
            && let Some(session) = state.session(&self.shelf, id)?
        {
            self.save(&[Change::Session(id, session)])?;
        }
        Ok(claim)
    }
}

#[async_trait]
impl<S: Shelf> Store for Embedded<S> {
    fn partitions(&self) -> u16 {
        1
    }

    async fn ping(&self) -> Result<()> {
        self.state().map(drop)
    }

    async fn register(&self, agent: &AgentCard, worker: &WorkerId, lasts: Duration) -> Result<()> {
        self.state()?.agents.register(agent, worker, lasts);
        Ok(())
    }

    async fn agents(&self) -> Result<Vec<(AgentCard, usize)>> {
        Ok(self.state()?.agents.cards())
    }

    async fn waiting(&self, agent: &str) -> Result<u64> {
        Ok(self.state()?.waiting(agent))
    }

    async fn deserted(&self) -> Result<Vec<String>> {
        Ok(self.state()?.deserted())
    }

    async fn post(&self, to: &ConnectionId, event: Event, key: &Idempotency) -> Result<Posted> {
        let mut state = self.state()?;
        let outbox = state.outbox(&self.shelf, to)?;
        let log = LogId::Outbox(to.clone());
        match outbox.recall(key) {
            None => {}
            Some(None) => return Ok(Posted::Conflict),
            Some(Some(number)) => {
                let frames = self.shelf.read(&log, number, 1)?;
                let event = frames.first().and_then(|frame| frame.events.first());
                let missing = || Error::Broken(format!("entry {number} of {to} is missing"));
                return event.cloned().map(Posted::Known).ok_or_else(missing);
            }
        }
        let frame = outbox.add(event, key);
        let before = outbox.use_now();
        self.save(&[
            Change::Frame(&log, &frame),
            Change::Outbox(to, outbox),
            Change::Used(Kind::Outbox, &log, before, before.and(Some(outbox.used))),
        ])?;
        self.announce_frame(log, frame);
        Ok(Posted::New)
    }

    async fn create(&self, new: &NewSession, first: &Command, key: &Idempotency) -> Result<()> {
        let mut state = self.state()?;
        if state.session(&self.shelf, &new.id)?.is_some() {
            return Ok(());
        }
        let session = Session::create(new, first, key);
        let log = LogId::Session(new.id.clone());
        self.save(&[
            Change::Queued(&new.id, &session.inbox[0]),
            Change::Session(&new.id, &session),
            Change::Used(Kind::Session, &log, None, Some(session.used)),
            Change::Listed(&session, None, session.place(&new.id)),
        ])?;
        state.insert(new.id.clone(), session);
        self.wake(&mut state, &new.id)
    }

    async fn enqueue(&self, request: &Enqueue) -> Result<Enqueued> {
        let mut state = self.state()?;
        let id = &request.session;
        let Some(session) = state.session(&self.shelf, id)? else {
            return Ok(Enqueued::NotFound);
        };
        let outcome = session.enqueue(request);
        if matches!(outcome, Enqueued::Accepted { .. }) {
            let queued = session.inbox.last().expect("just accepted");
            self.save(&[Change::Queued(id, queued), Change::Session(id, session)])?;
            self.wake(&mut state, id)?;
        }
        Ok(outcome)
    }

    async fn attach(&self, request: &Attach) -> Result<Attached> {
        let mut state = self.state()?;
        let id = &request.session;
        let Some(session) = state.session(&self.shelf, id)? else {
            return Ok(Attached::NotFound);
        };
        let outcome = session.attach(request);
        if matches!(outcome, Attached::Done(_)) {
            let log = LogId::Session(id.clone());
            let before = session.use_now();
            let now = before.and(Some(session.used));
            let used = Change::Used(Kind::Session, &log, before, now);
            self.save(&[Change::Session(id, session), used])?;
            let signal = Signal::Attached(id.clone(), request.connection.clone());
            self.announce_log(log, signal);
        }
        Ok(outcome)
    }

    async fn attachment(
        &self,
        session: &SessionId,
        connection: &ConnectionId,
        principal: &str,
    ) -> Result<Option<Attachment>> {
        let mut state = self.state()?;
        let session = state.session(&self.shelf, session)?;
        let session = session.filter(|session| session.was_for(principal));
        Ok(session.map(|session| session.attachment(connection)))
    }

    async fn fork(&self, fork: &Fork) -> Result<Forked> {
        self.fork_session(fork)
    }

    async fn list(&self, listing: &Listing) -> Result<Vec<Summary>> {
        self.list_sessions(listing)
    }

    async fn usage(&self, principal: &str, most: u64) -> Result<Usage> {
        self.usage_of(principal, most)
    }

    async fn delete(&self, session: &SessionId, principal: &str, end: &Command) -> Result<bool> {
        self.delete_session(session, principal, end)
    }

    async fn record(&self, session: &SessionId, principal: &str) -> Result<Option<Record>> {
        self.record_of(session, principal)
    }

    async fn adopt(&self, adoption: &Adoption, claimant: &Claimant) -> Result<bool> {
        self.adopt_session(adoption, claimant)
    }

    async fn publish(&self, session: &SessionId, token: &ClaimToken) -> Result<bool> {
        self.publish_session(session, token)
    }

    async fn open_stream(
        &self,
        stream: &StreamId,
        principal: &str,
        holder: &str,
    ) -> Result<Option<Opened>> {
        let mut state = self.state()?;
        let connection = &stream.connection;
        let opened = match &stream.session {
            None => {
                let outbox = state.outbox(&self.shelf, connection)?;
                outbox.holder = Some(holder.to_owned());
                Opened {
                    written: outbox.written.clone(),
                    attachment: None,
                }
            }
            Some(id) => {
                let session = state.session(&self.shelf, id)?;
                let Some(session) = session.filter(|session| session.is_for(principal)) else {
                    return Ok(None);
                };
                let party = session.parties.entry(connection.clone()).or_default();
                party.stream = Some((holder.to_owned(), Instant::now() + STREAM_TTL));
                Opened {
                    written: party.written.clone(),
                    attachment: Some(session.attachment(connection)),
                }
            }
        };
        let (log, connection) = (stream.log(), connection.clone());
        let taken = Signal::Taken {
            log: log.clone(),
            connection,
            holder: holder.to_owned(),
        };
        self.announce_log(log, taken);
        Ok(Some(opened))
    }

    async fn touch_streams(&self, touches: &[Touch]) -> Result<Vec<String>> {
        let mut state = self.state()?;
        let until = Some(Instant::now() + STREAM_TTL);
        let mut lost = Vec::new();
        for touch in touches {
            if !self.touch(&mut state, touch, until)? {
                lost.push(touch.holder.clone());
            }
        }
        Ok(lost)
    }

    async fn close_stream(&self, touch: &Touch) -> Result<()> {
        let mut state = self.state()?;
        self.touch(&mut state, touch, None).map(drop)
    }

    async fn read(&self, log: &LogId, from: u64, limit: usize) -> Result<Vec<Arc<Frame>>> {
        lineage::read(&self.shelf, log, from, limit)
    }

    async fn heads(&self, logs: &[LogId]) -> Result<Vec<u64>> {
        let mut state = self.state()?;
        let head = |log| state.head(&self.shelf, log);
        logs.iter().map(head).collect()
    }

    async fn claim(&self, session: &SessionId, claimant: &Claimant) -> Result<Option<Claim>> {
        self.claimed(&mut *self.state()?, session, claimant)
    }

    async fn claim_any(&self, _partition: Partition, claimant: &Claimant) -> Result<Option<Claim>> {
        let mut state = self.state()?;
        let Some(id) = state.next_for(&claimant.agent) else {
            return Ok(None);
        };
        self.claimed(&mut state, &id, claimant)
    }

    async fn renew(
        &self,
        claims: &[(SessionId, ClaimToken)],
        lease: Duration,
    ) -> Result<Vec<SessionId>> {
        let mut state = self.state()?;
        let mut lost = Vec::new();
        for (id, token) in claims {
            if !state.renew(id, token, lease) {
                lost.push(id.clone());
            } else if state.no_longer_waits(id) {
                // A command came while the lease was over: others were told, the holder was not.
                self.wake(&mut state, id)?;
            }
        }
        Ok(lost)
    }

    async fn inbox(&self, session: &SessionId, after: u64) -> Result<Vec<Queued>> {
        let mut state = self.state()?;
        let session = state.session(&self.shelf, session)?;
        let inbox = session.into_iter().flat_map(|session| &session.inbox);
        let is_later = |queued: &&Queued| queued.number > after;
        Ok(inbox.filter(is_later).cloned().collect())
    }

    async fn append(&self, append: &Append) -> Result<Appended> {
        let mut state = self.state()?;
        let id = &append.session;
        let Some(session) = state.session(&self.shelf, id)? else {
            return Ok(Appended::Fenced);
        };
        let place = session.place(id);
        let (outcome, written) = session.append(append);
        let Some(written) = written else {
            return Ok(outcome);
        };
        let log = LogId::Session(id.clone());
        let mut changes: Vec<Change<'_>> = Vec::with_capacity(4);
        changes.extend(written.frame.iter().map(|frame| Change::Frame(&log, frame)));
        changes.extend(append.acks.iter().map(|number| Change::Done(id, *number)));
        let released = matches!(outcome, Appended::Done { released: true, .. });
        // When nobody sees it any more, it doesn't matter when it was last used.
        let before = match &place {
            Some(_) if released => session.use_now(),
            _ => None,
        };
        if before.is_some() {
            let used = Change::Used(Kind::Session, &log, before, Some(session.used));
            changes.push(used);
        }
        let moved = session.place(id);
        if moved != place {
            changes.push(Change::Listed(session, place, moved));
        }
        if written.beside_the_log || before.is_some() {
            changes.push(Change::Session(id, session));
        }
        self.save(&changes)?;
        if released {
            state.let_go(id);
        }
        if let Some(frame) = written.frame {
            self.announce_frame(log, frame);
        }
        Ok(outcome)
    }

    async fn release(&self, session: &SessionId, token: &ClaimToken) -> Result<()> {
        let mut state = self.state()?;
        let Some(held) = state.session(&self.shelf, session)? else {
            return Ok(());
        };
        let lease = held.lease.as_ref();
        if lease.is_some_and(|lease| lease.token == *token) {
            held.give_up();
            let waits = !held.inbox.is_empty();
            self.save(&[Change::Session(session, held)])?;
            state.let_go(session);
            if waits {
                self.wake(&mut state, session)?;
            }
        }
        Ok(())
    }

    async fn revoke(&self, revocation: &Revocation) -> Result<()> {
        self.revoke_subject(revocation)
    }

    async fn revocations(&self) -> Result<Vec<Revocation>> {
        self.all_revocations()
    }

    async fn spend(&self, name: &str, lasts: Duration) -> Result<bool> {
        self.spend_name(name, lasts)
    }

    async fn tidy(&self, _partition: Partition, when: &Tidying) -> Result<Tidied> {
        expiry::tidy(self, when)
    }

    async fn listen(&self, sink: mpsc::Sender<Signal>) -> Result<Arc<dyn Listener>> {
        Ok(self.switchboard.clone().connect(sink))
    }
}
