//! The store in memory: for tests, for `--ephemeral`, and as the readable form of what the Redis
//! scripts do. One lock, no waiting inside it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::mpsc;

use self::session::Session;
use self::signals::Switchboard;
use crate::command::{Command, Idempotency, Queued};
use crate::event::{Event, Frame};
use crate::id::{ConnectionId, LogId, Nonce, Partition, SessionId};
use crate::store::{
    AgentCard, Append, Appended, Attach, Attached, Attachment, Claim, ClaimToken, Claimant,
    Enqueue, Enqueued, HEARTBEAT, Listener, NewSession, Opened, Posted, REMEMBERED_KEYS, Result,
    STREAM_TTL, Signal, Store, StreamId, Topic, Touch, WorkerId,
};

mod session;
mod signals;

#[derive(Clone, Default)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
    switchboard: Arc<Switchboard>,
}

#[derive(Default)]
struct State {
    sessions: HashMap<SessionId, Session>,
    outboxes: HashMap<ConnectionId, Outbox>,
    /// Sessions with work and no holder, longest waiting first.
    ready: HashMap<String, Vec<SessionId>>,
    agents: HashMap<String, (AgentCard, HashMap<WorkerId, Instant>)>,
}

#[derive(Default)]
struct Outbox {
    frames: Vec<Arc<Frame>>,
    known: RememberedKeys<u64>,
    holder: Option<String>,
    written: Option<String>,
}

/// The last keys that were used, with what they led to.
struct RememberedKeys<T> {
    entries: HashMap<String, (String, T)>,
    order: std::collections::VecDeque<String>,
}

impl<T> Default for RememberedKeys<T> {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
            order: Default::default(),
        }
    }
}

impl<T: Clone> RememberedKeys<T> {
    /// `Some(Err(()))` if the key was used for something else.
    fn find(&self, key: &Idempotency) -> Option<std::result::Result<T, ()>> {
        let (fingerprint, outcome) = self.entries.get(&key.key)?;
        Some(if *fingerprint == key.fingerprint {
            Ok(outcome.clone())
        } else {
            Err(())
        })
    }

    fn remember(&mut self, key: &Idempotency, outcome: T) {
        self.entries
            .insert(key.key.clone(), (key.fingerprint.clone(), outcome));
        self.order.push_back(key.key.clone());
        if self.order.len() as u64 > REMEMBERED_KEYS
            && let Some(oldest) = self.order.pop_front()
        {
            self.entries.remove(&oldest);
        }
    }
}

impl MemoryStore {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("no step panics while it holds the lock")
    }

    fn announce(&self, topic: Topic, signal: Signal) {
        self.switchboard.send(&topic, signal);
    }

    fn announce_log(&self, log: LogId, signal: Signal) {
        self.announce(Topic::Log(log), signal);
    }

    /// Tells the session's holder, or the workers that wait for work, about its inbox.
    fn wake(&self, state: &mut State, id: &SessionId) {
        let session = state.sessions.get(id).expect("the caller just used it");
        match &session.lease {
            Some(lease) if lease.expires > Instant::now() => {
                let topic = Topic::Inbox(id.partition(), lease.worker.clone());
                self.announce(topic, Signal::Inbox(id.clone()));
            }
            _ => {
                let agent = session.agent.clone();
                let waiting = state.ready.entry(agent.clone()).or_default();
                if !waiting.contains(id) {
                    waiting.push(id.clone());
                }
                self.announce(
                    Topic::Ready(id.partition(), agent),
                    Signal::Ready(id.clone()),
                );
            }
        }
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn partitions(&self) -> u16 {
        1
    }

    async fn ping(&self) -> Result<()> {
        Ok(())
    }

    async fn register(&self, agent: &AgentCard, worker: &WorkerId) -> Result<()> {
        let mut state = self.state();
        let entry = state
            .agents
            .entry(agent.name.clone())
            .or_insert_with(|| (agent.clone(), HashMap::new()));
        entry.0 = agent.clone();
        entry
            .1
            .insert(worker.clone(), Instant::now() + HEARTBEAT * 3);
        Ok(())
    }

    async fn agents(&self) -> Result<Vec<(AgentCard, usize)>> {
        let now = Instant::now();
        let state = self.state();
        let alive = |workers: &HashMap<WorkerId, Instant>| {
            workers.values().filter(|until| **until > now).count()
        };
        Ok(state
            .agents
            .values()
            .map(|(card, workers)| (card.clone(), alive(workers)))
            .collect())
    }

    async fn post(&self, to: &ConnectionId, event: Event, key: &Idempotency) -> Result<Posted> {
        let mut state = self.state();
        let outbox = state.outboxes.entry(to.clone()).or_default();
        let known = outbox.known.find(key).filter(|_| !key.key.is_empty());
        match known {
            Some(Ok(seq)) => {
                return Ok(Posted::Known(
                    outbox.frames[seq as usize - 1].events[0].clone(),
                ));
            }
            Some(Err(())) => return Ok(Posted::Conflict),
            None => {}
        }
        let seq = outbox.frames.len() as u64 + 1;
        let frame = Arc::new(Frame {
            first: seq,
            nonce: Nonce(0),
            events: vec![event],
        });
        outbox.frames.push(frame.clone());
        if !key.key.is_empty() {
            outbox.known.remember(key, seq);
        }
        let log = LogId::Outbox(to.clone());
        self.announce_log(log.clone(), Signal::Frame(log, frame));
        Ok(Posted::New)
    }

    async fn create(&self, new: &NewSession, first: &Command, key: &Idempotency) -> Result<()> {
        let mut state = self.state();
        if state.sessions.contains_key(&new.id) {
            return Ok(());
        }
        state
            .sessions
            .insert(new.id.clone(), Session::create(new, first, key));
        self.wake(&mut state, &new.id);
        Ok(())
    }

    async fn enqueue(&self, request: &Enqueue) -> Result<Enqueued> {
        let mut state = self.state();
        let Some(session) = state.sessions.get_mut(&request.session) else {
            return Ok(Enqueued::NotFound);
        };
        let outcome = session.enqueue(request);
        if matches!(outcome, Enqueued::Accepted { .. }) {
            self.wake(&mut state, &request.session);
        }
        Ok(outcome)
    }

    async fn attach(&self, request: &Attach) -> Result<Attached> {
        let mut state = self.state();
        let Some(session) = state.sessions.get_mut(&request.session) else {
            return Ok(Attached::NotFound);
        };
        let outcome = session.attach(request);
        if matches!(outcome, Attached::Done(_)) {
            let signal = Signal::Attached(request.session.clone(), request.connection.clone());
            self.announce_log(LogId::Session(request.session.clone()), signal);
        }
        Ok(outcome)
    }

    async fn attachment(
        &self,
        session: &SessionId,
        connection: &ConnectionId,
        principal: &str,
    ) -> Result<Option<Attachment>> {
        let state = self.state();
        let session = state
            .sessions
            .get(session)
            .filter(|session| session.principal == principal);
        Ok(session.map(|session| session.attachment(connection)))
    }

    async fn open_stream(
        &self,
        stream: &StreamId,
        principal: &str,
        holder: &str,
    ) -> Result<Option<Opened>> {
        let mut state = self.state();
        let opened = match &stream.session {
            None => {
                let outbox = state.outboxes.entry(stream.connection.clone()).or_default();
                outbox.holder = Some(holder.to_owned());
                Opened {
                    written: outbox.written.clone(),
                    attachment: None,
                }
            }
            Some(id) => {
                let session = state
                    .sessions
                    .get_mut(id)
                    .filter(|session| session.principal == principal);
                let Some(session) = session else {
                    return Ok(None);
                };
                let party = session
                    .parties
                    .entry(stream.connection.clone())
                    .or_default();
                party.stream = Some((holder.to_owned(), Instant::now() + STREAM_TTL));
                let written = party.written.clone();
                Opened {
                    written,
                    attachment: Some(session.attachment(&stream.connection)),
                }
            }
        };
        let (log, connection) = (stream.log(), stream.connection.clone());
        self.announce_log(
            log.clone(),
            Signal::Taken {
                log,
                connection,
                holder: holder.to_owned(),
            },
        );
        Ok(Some(opened))
    }

    async fn touch_streams(&self, touches: &[Touch]) -> Result<Vec<String>> {
        let mut state = self.state();
        let until = Some(Instant::now() + STREAM_TTL);
        let lost = touches.iter().filter(|touch| !state.touch(touch, until));
        Ok(lost.map(|touch| touch.holder.clone()).collect())
    }

    async fn close_stream(&self, touch: &Touch) -> Result<()> {
        self.state().touch(touch, None);
        Ok(())
    }

    async fn read(&self, log: &LogId, from: u64, limit: usize) -> Result<Vec<Arc<Frame>>> {
        let state = self.state();
        let frames = match log {
            LogId::Session(id) => state.sessions.get(id).map(|session| &session.frames),
            LogId::Outbox(id) => state.outboxes.get(id).map(|outbox| &outbox.frames),
        };
        let Some(frames) = frames else {
            return Ok(Vec::new());
        };
        let start = frames.partition_point(|frame| frame.last() < from);
        Ok(frames[start..].iter().take(limit).cloned().collect())
    }

    async fn heads(&self, logs: &[LogId]) -> Result<Vec<u64>> {
        let state = self.state();
        let head = |log: &LogId| match log {
            LogId::Session(id) => state.sessions.get(id).map_or(0, Session::head),
            LogId::Outbox(id) => state
                .outboxes
                .get(id)
                .map_or(0, |outbox| outbox.frames.len() as u64),
        };
        Ok(logs.iter().map(head).collect())
    }

    async fn claim(&self, session: &SessionId, claimant: &Claimant) -> Result<Option<Claim>> {
        Ok(self.state().claim(session, claimant))
    }

    async fn claim_any(&self, _partition: Partition, claimant: &Claimant) -> Result<Option<Claim>> {
        let mut state = self.state();
        let now = Instant::now();
        let expired = state.sessions.iter().find(|(_, session)| {
            session.agent == claimant.agent
                && session
                    .lease
                    .as_ref()
                    .is_some_and(|lease| lease.expires <= now)
        });
        let waiting = || {
            state
                .ready
                .get(&claimant.agent)
                .and_then(|waiting| waiting.first())
        };
        let Some(id) = expired.map(|(id, _)| id).or_else(waiting).cloned() else {
            return Ok(None);
        };
        Ok(state.claim(&id, claimant))
    }

    async fn renew(
        &self,
        claims: &[(SessionId, ClaimToken)],
        lease: Duration,
    ) -> Result<Vec<SessionId>> {
        let mut state = self.state();
        let mut lost = Vec::new();
        for (id, token) in claims {
            match state
                .sessions
                .get_mut(id)
                .and_then(|session| session.lease.as_mut())
            {
                Some(held) if held.token == *token => held.expires = Instant::now() + lease,
                _ => {
                    lost.push(id.clone());
                    continue;
                }
            }
            // A command came while the lease was over: others were told, the holder was not.
            if state.no_longer_waits(id) {
                self.wake(&mut state, id);
            }
        }
        Ok(lost)
    }

    async fn inbox(&self, session: &SessionId, after: u64) -> Result<Vec<Queued>> {
        let state = self.state();
        let inbox = state.sessions.get(session).map(|session| &session.inbox);
        let waiting = inbox
            .into_iter()
            .flatten()
            .filter(|queued| queued.number > after);
        Ok(waiting.cloned().collect())
    }

    async fn append(&self, append: &Append) -> Result<Appended> {
        let mut state = self.state();
        let Some(session) = state.sessions.get_mut(&append.session) else {
            return Ok(Appended::Fenced);
        };
        let (outcome, frame) = session.append(append);
        if let Some(frame) = frame {
            let log = LogId::Session(append.session.clone());
            self.announce_log(log.clone(), Signal::Frame(log, frame));
        }
        Ok(outcome)
    }

    async fn release(&self, session: &SessionId, token: &ClaimToken) -> Result<()> {
        let mut state = self.state();
        let Some(held) = state.sessions.get_mut(session) else {
            return Ok(());
        };
        if held
            .lease
            .as_ref()
            .is_some_and(|lease| lease.token == *token)
        {
            held.give_up();
            if !held.inbox.is_empty() {
                self.wake(&mut state, session);
            }
        }
        Ok(())
    }

    async fn listen(&self, sink: mpsc::Sender<Signal>) -> Result<Arc<dyn Listener>> {
        Ok(self.switchboard.clone().connect(sink))
    }
}

impl State {
    fn claim(&mut self, id: &SessionId, claimant: &Claimant) -> Option<Claim> {
        let session = self.sessions.get_mut(id)?;
        if session.agent != claimant.agent {
            return None;
        }
        let claim = session.claim(id, claimant);
        self.no_longer_waits(id);
        claim
    }

    /// Takes the session out of the queue for a worker; true if it was there.
    fn no_longer_waits(&mut self, id: &SessionId) -> bool {
        let agent = self.sessions.get(id).map(|session| &session.agent);
        let Some(waiting) = agent.and_then(|agent| self.ready.get_mut(agent)) else {
            return false;
        };
        let before = waiting.len();
        waiting.retain(|waiting| waiting != id);
        waiting.len() < before
    }

    /// `until` is the registration's new end; `None` ends it now. False if another holder has it.
    fn touch(&mut self, touch: &Touch, until: Option<Instant>) -> bool {
        let written = touch.written.clone();
        let connection = &touch.stream.connection;
        match &touch.stream.session {
            None => {
                let Some(outbox) = self.outboxes.get_mut(connection) else {
                    return true;
                };
                if outbox.holder.as_deref() != Some(&touch.holder) {
                    return outbox.holder.is_none();
                }
                outbox.written = written.or(outbox.written.take());
                outbox.holder = until.and(outbox.holder.take());
            }
            Some(id) => {
                let session = self.sessions.get_mut(id);
                let Some(party) = session.and_then(|session| session.parties.get_mut(connection))
                else {
                    return true;
                };
                if party
                    .stream
                    .as_ref()
                    .is_none_or(|(holder, _)| *holder != touch.holder)
                {
                    return party.stream.is_none();
                }
                party.written = written.or(party.written.take());
                party.stream = until.map(|until| (touch.holder.clone(), until));
            }
        }
        true
    }
}
