//! The store inside the process, in memory or in files, and the readable form of what the Redis
//! scripts do. One lock, no waiting inside it: a step changes the state and saves what it changed
//! on the backend; when that is written, it is announced, and only then does anybody know.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{mpsc, watch};

use self::backend::{ExpiryKind, StorageBackend, StoreChange};
use self::group_commit::CommitQueue;
use self::memory::MemoryBackend;
use self::session::StoredSession;
use self::signals::SignalHub;
use self::state::StoreState;
use crate::clock::unix_millis;
use crate::command::{Command, CommandId, IdempotencyKey, QueuedCommand};
use crate::event::{Event, Frame};
use crate::id::{ConnectionId, LogId, Nonce, Partition, SessionId};
use crate::revocation::Revocation;
use crate::store::{
    AdoptRequest, AgentCard, AppendOutcome, AppendRequest, AttachOutcome, AttachParams, Attachment,
    Claim, ClaimToken, Claimant, CredentialStore, DueSessions, EnqueueOutcome, EnqueueRequest,
    Error, ForkOutcome, ForkRequest, GatewayStore, LastWritten, ListRequest, LogStore, NewSession,
    OpenedStream, PostOutcome, PrincipalUsage, Result, STREAM_TTL, SeenPosition, SessionRecord,
    SessionSummary, Signal, SignalListener, StreamId, StreamTouch, TidyOutcome, TidyPolicy, Topic,
    WorkerId, WorkerStore,
};

mod account;
mod agents;
mod backend;
mod expiry;
#[cfg(any(test, feature = "conformance"))]
mod failover;
mod file;
mod group_commit;
mod lifecycle;
mod lineage;
mod list;
mod memory;
mod outbox;
mod posting;
mod requests;
mod revocation;
mod session;
mod signals;
mod single_use;
mod state;
mod stream_touch;

#[cfg(any(test, feature = "conformance"))]
pub use self::failover::{OutboxReplica, SessionReplica};
pub use self::file::{BackupSnapshot, DirectoryError, RestoreError, admin_of, identity, restore};

/// Everything ends with the process: for tests and `--ephemeral`.
pub type MemoryStore = EmbeddedStore<MemoryBackend>;
/// Everything is in a directory.
pub type FileStore = EmbeddedStore<file::FileBackend>;

#[derive(Clone)]
pub struct EmbeddedStore<S> {
    state: Arc<Mutex<StoreState>>,
    signal_hub: Arc<SignalHub>,
    backend: S,
    commit_queue: Arc<CommitQueue>,
    /// Why nothing can be saved any more.
    failed: Arc<watch::Sender<Option<String>>>,
    /// See [`LogStore::restored`].
    restored: Option<Nonce>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::with_backend(MemoryBackend::default()).expect("an empty shelf can be read")
    }
}

impl<S: StorageBackend> EmbeddedStore<S> {
    fn with_backend(backend: S) -> Result<Self> {
        Ok(Self {
            state: Arc::new(Mutex::new(StoreState::of(&backend)?)),
            signal_hub: Arc::default(),
            restored: backend.restored()?,
            backend,
            commit_queue: Arc::default(),
            failed: Arc::new(watch::Sender::new(None)),
        })
    }

    /// Returns once nothing can be saved any more, with the reason. Acknowledged steps are safe;
    /// the process has to start again.
    pub async fn failed(&self) -> String {
        let mut failed = self.failed.subscribe();
        let reason = failed.wait_for(Option::is_some).await;
        reason
            .ok()
            .and_then(|reason| reason.clone())
            .unwrap_or_default()
    }

    fn is_writable(&self) -> Result<()> {
        match &*self.failed.borrow() {
            Some(reason) => Err(Error::Unavailable(reason.clone())),
            None => Ok(()),
        }
    }

    fn state(&self) -> Result<MutexGuard<'_, StoreState>> {
        self.is_writable()?;
        let state = self.state.lock();
        Ok(state.expect("no step panics while it holds the lock"))
    }

    /// With an error, memory is ahead of the backend: from then on no step is taken.
    fn save(&self, changes: &[StoreChange<'_>]) -> Result<()> {
        self.note_failure(self.backend.save(changes))?;
        self.commit_queue.count_change();
        Ok(())
    }

    fn note_failure(&self, outcome: Result<()>) -> Result<()> {
        outcome.inspect_err(|error| {
            tracing::error!(%error, "nothing can be saved any more");
            self.failed.send_replace(Some(error.to_string()));
        })
    }

    /// As soon as everything saved so far is safe.
    fn announce(&self, topic: Topic, signal: Signal) {
        self.commit_queue.queue_signal(topic, signal);
    }

    fn announce_log(&self, log: LogId, signal: Signal) {
        self.announce(Topic::Log(log), signal);
    }

    fn announce_frame(&self, log: LogId, frame: Arc<Frame>) {
        self.announce_log(log.clone(), Signal::Frame(log, frame));
    }

    /// Tells the session's holder, or the workers that wait for work, about its inbox.
    fn wake(&self, state: &mut StoreState, id: &SessionId) -> Result<()> {
        let Some(session) = state.session(&self.backend, id)? else {
            return Ok(());
        };
        match &session.lease {
            Some(lease) if lease.expires > Instant::now() => {
                let topic = Topic::Inbox(id.partition(), lease.worker.clone());
                self.announce(topic, Signal::Inbox(id.clone()));
            }
            _ => {
                let topic = Topic::Ready(id.partition(), session.agent.clone());
                state.wait(&self.backend, id)?;
                self.announce(topic, Signal::Ready(id.clone()));
            }
        }
        Ok(())
    }

    fn claimed(
        &self,
        state: &mut StoreState,
        id: &SessionId,
        claimant: &Claimant,
    ) -> Result<Option<Claim>> {
        let claim = state.claim(&self.backend, id, claimant)?;
        if claim.is_some()
            && let Some(session) = state.session(&self.backend, id)?
        {
            self.save(&[StoreChange::Session(id, session)])?;
        }
        Ok(claim)
    }
}

#[async_trait]
impl<S: StorageBackend> LogStore for EmbeddedStore<S> {
    fn partitions(&self) -> u16 {
        1
    }

    fn restored(&self) -> Option<Nonce> {
        self.restored
    }

    async fn ping(&self) -> Result<()> {
        self.state().map(drop)
    }

    async fn read(&self, log: &LogId, from: u64, limit: usize) -> Result<Vec<Arc<Frame>>> {
        lineage::read(&self.backend, log, from, limit)
    }

    async fn heads(&self, logs: &[LogId]) -> Result<Vec<u64>> {
        self.step(|state| {
            let head = |log| state.head(&self.backend, log);
            logs.iter().map(head).collect()
        })
        .await
    }

    async fn listen(&self, sink: mpsc::Sender<Signal>) -> Result<Arc<dyn SignalListener>> {
        Ok(self.signal_hub.clone().connect(sink))
    }
}

#[async_trait]
impl<S: StorageBackend> GatewayStore for EmbeddedStore<S> {
    async fn agents(&self) -> Result<Vec<(AgentCard, usize)>> {
        Ok(self.state()?.agents.cards())
    }

    async fn deserted(&self) -> Result<Vec<String>> {
        Ok(self.state()?.deserted())
    }

    async fn waiting(&self, agent: &str) -> Result<u64> {
        Ok(self.state()?.waiting(agent))
    }

    async fn post(
        &self,
        to: &ConnectionId,
        event: Event,
        key: &IdempotencyKey,
    ) -> Result<PostOutcome> {
        self.step(|state| self.post_event(state, to, event, key))
            .await
    }

    async fn has_outbox_room(&self, connection: &ConnectionId) -> Result<bool> {
        self.step(|state| self.outbox_room(state, connection)).await
    }

    async fn describe_client(&self, connection: &ConnectionId, description: &Bytes) -> Result<()> {
        self.step(|state| self.keep_description(state, connection, description))
            .await
    }

    async fn watches(&self, connection: &ConnectionId) -> Result<Vec<(u64, SessionId)>> {
        self.step(|state| Ok(state.outbox(&self.backend, connection)?.watches()))
            .await
    }

    async fn create(&self, new: &NewSession, first: &Command, key: &IdempotencyKey) -> Result<()> {
        self.step(|state| {
            if state.session(&self.backend, &new.id)?.is_some() {
                return Ok(());
            }
            let session = StoredSession::create(new, first, key);
            let log = LogId::Session(new.id.clone());
            let mut changes = vec![
                StoreChange::Queued(&new.id, &session.inbox[0]),
                StoreChange::Session(&new.id, &session),
                StoreChange::Used(ExpiryKind::Session, &log, None, Some(session.used)),
                StoreChange::Listed(&session, None, session.place(&new.id)),
            ];
            changes.extend(session.stored(&new.id));
            self.save(&changes)?;
            state.insert(new.id.clone(), session);
            self.wake(state, &new.id)
        })
        .await
    }

    async fn enqueue(&self, request: &EnqueueRequest) -> Result<EnqueueOutcome> {
        self.step(|state| {
            let id = &request.session;
            let Some(session) = state.session(&self.backend, id)? else {
                return Ok(EnqueueOutcome::NotFound);
            };
            let outcome = session.enqueue(request);
            if matches!(outcome, EnqueueOutcome::Accepted { .. }) {
                let queued = session.inbox.last().expect("just accepted");
                self.save(&[
                    StoreChange::Queued(id, queued),
                    StoreChange::Session(id, session),
                ])?;
                if request.findable {
                    state.note_request(&request.key.key, id);
                }
                self.wake(state, id)?;
            }
            Ok(outcome)
        })
        .await
    }

    async fn session_of(&self, _: &ConnectionId, key: &str) -> Result<Option<SessionId>> {
        self.step(|state| state.session_of(&self.backend, key))
            .await
    }

    async fn attach(&self, request: &AttachParams) -> Result<AttachOutcome> {
        self.step(|state| {
            let id = &request.session;
            let Some(session) = state.session(&self.backend, id)? else {
                return Ok(AttachOutcome::NotFound);
            };
            let outcome = session.attach(request);
            if matches!(outcome, AttachOutcome::Done(_)) {
                let log = LogId::Session(id.clone());
                let before = session.use_now();
                let now = before.and(Some(session.used));
                let used = StoreChange::Used(ExpiryKind::Session, &log, before, now);
                self.save(&[StoreChange::Session(id, session), used])?;
                let signal = Signal::Attached(id.clone(), request.connection.clone());
                self.announce_log(log, signal);
            }
            Ok(outcome)
        })
        .await
    }

    async fn attachment(
        &self,
        session: &SessionId,
        connection: &ConnectionId,
        principal: &str,
    ) -> Result<Option<Attachment>> {
        self.step(|state| {
            let session = state.session(&self.backend, session)?;
            let session = session.filter(|session| session.was_for(principal));
            Ok(session.map(|session| session.attachment(connection)))
        })
        .await
    }

    async fn unwatch(
        &self,
        session: &SessionId,
        connection: &ConnectionId,
        watch: u64,
        seen: SeenPosition,
    ) -> Result<bool> {
        self.step(|state| {
            let Some(found) = state.session(&self.backend, session)? else {
                return Ok(false);
            };
            let left = found.unwatch(connection, watch, seen);
            if left {
                self.save(&[StoreChange::Session(session, found)])?;
            }
            Ok(left)
        })
        .await
    }

    async fn forget_watch(
        &self,
        connection: &ConnectionId,
        session: &SessionId,
        told: u64,
    ) -> Result<()> {
        self.step(|state| {
            let outbox = state.outbox(&self.backend, connection)?;
            if outbox.forget_watch(session, told) {
                self.save(&[StoreChange::Outbox(connection, outbox)])?;
            }
            Ok(())
        })
        .await
    }

    async fn fork(&self, fork: &ForkRequest) -> Result<ForkOutcome> {
        self.step(|state| self.fork_session(state, fork)).await
    }

    async fn list(&self, listing: &ListRequest) -> Result<Vec<SessionSummary>> {
        self.step(|state| self.list_sessions(state, listing)).await
    }

    async fn usage(&self, principal: &str, most: u64) -> Result<PrincipalUsage> {
        self.step(|state| self.usage_of(state, principal, most))
            .await
    }

    async fn delete(&self, session: &SessionId, principal: &str, end: &Command) -> Result<bool> {
        self.step(|state| self.delete_session(state, session, principal, end))
            .await
    }

    async fn record(&self, session: &SessionId, principal: &str) -> Result<Option<SessionRecord>> {
        self.step(|state| self.record_of(state, session, principal))
            .await
    }

    async fn adopt(&self, adoption: &AdoptRequest, claimant: &Claimant) -> Result<bool> {
        self.step(|state| self.adopt_session(state, adoption, claimant))
            .await
    }

    async fn publish(&self, session: &SessionId, token: &ClaimToken) -> Result<bool> {
        self.step(|state| self.publish_session(state, session, token))
            .await
    }

    async fn open_stream(
        &self,
        stream: &StreamId,
        principal: &str,
        holder: &str,
    ) -> Result<Option<OpenedStream>> {
        self.step(|state| {
            let connection = &stream.connection;
            let opened = match &stream.session {
                None => {
                    let outbox = state.outbox(&self.backend, connection)?;
                    let held = outbox.holder.replace(holder.to_owned());
                    let earlier = held.filter(|held| *held != holder);
                    outbox.before = outbox.before.take().or(earlier);
                    OpenedStream {
                        written: LastWritten {
                            cursor: outbox.written.clone(),
                            is_final: outbox.before.is_none(),
                        },
                        attachment: None,
                    }
                }
                Some(id) => {
                    let session = state.session(&self.backend, id)?;
                    let Some(session) = session.filter(|session| session.is_for(principal)) else {
                        return Ok(None);
                    };
                    let party = session.parties.join(connection);
                    let until = Instant::now() + STREAM_TTL;
                    let held = party.stream.replace((holder.to_owned(), until));
                    let lives = |(held, until): &(String, Instant)| {
                        held != holder && *until > Instant::now()
                    };
                    let earlier = held.filter(lives).map(|(held, _)| held);
                    // Who has not written anything yet says nothing about those before it.
                    party.before = party.before.take().or(earlier);
                    OpenedStream {
                        written: LastWritten {
                            cursor: party.written.clone(),
                            is_final: party.before.is_none(),
                        },
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
        })
        .await
    }

    async fn last_written(&self, stream: &StreamId, holder: &str) -> Result<Option<LastWritten>> {
        self.step(|state| match &stream.session {
            None => {
                let outbox = state.outbox(&self.backend, &stream.connection)?;
                let held = outbox.holder.as_deref() == Some(holder);
                Ok(held.then(|| LastWritten {
                    cursor: outbox.written.clone(),
                    is_final: outbox.before.is_none(),
                }))
            }
            Some(id) => {
                let session = state.session(&self.backend, id)?;
                let party = session.and_then(|session| session.parties.get(&stream.connection));
                let held = party.filter(|party| {
                    let by = party.stream.as_ref().map(|(by, _)| by.as_str());
                    by == Some(holder)
                });
                Ok(held.map(|party| LastWritten {
                    cursor: party.written.clone(),
                    is_final: party.before.is_none(),
                }))
            }
        })
        .await
    }

    async fn touch_streams(&self, touches: &[StreamTouch]) -> Result<Vec<String>> {
        self.step(|state| {
            let until = Some(Instant::now() + STREAM_TTL);
            let mut lost = Vec::new();
            for touch in touches {
                if !self.touch(state, touch, until)? {
                    lost.push(touch.holder.clone());
                }
            }
            Ok(lost)
        })
        .await
    }

    async fn close_stream(&self, touch: &StreamTouch) -> Result<()> {
        self.step(|state| self.touch(state, touch, None).map(drop))
            .await
    }
}

#[async_trait]
impl<S: StorageBackend> WorkerStore for EmbeddedStore<S> {
    async fn client_description(&self, connection: &ConnectionId) -> Result<Option<Bytes>> {
        self.step(|state| {
            let outbox = state.outbox(&self.backend, connection)?;
            Ok(outbox.client.clone().map(Bytes::from))
        })
        .await
    }

    async fn register(&self, agent: &AgentCard, worker: &WorkerId, lasts: Duration) -> Result<()> {
        self.state()?.agents.register(agent, worker, lasts);
        Ok(())
    }

    async fn claim(&self, session: &SessionId, claimant: &Claimant) -> Result<Option<Claim>> {
        self.step(|state| self.claimed(state, session, claimant))
            .await
    }

    async fn due(&self, _partition: Partition, agent: &str, limit: usize) -> Result<DueSessions> {
        Ok(DueSessions {
            at: unix_millis(),
            sessions: self.state()?.due(agent, limit),
            reconnected: false,
        })
    }

    async fn renew(
        &self,
        claims: &[(SessionId, ClaimToken)],
        lease: Duration,
    ) -> Result<Vec<SessionId>> {
        self.step(|state| {
            let mut lost = Vec::new();
            for (id, token) in claims {
                let Some((session, changed)) = state.renew(id, token, lease) else {
                    lost.push(id.clone());
                    continue;
                };
                if changed {
                    self.save(&[StoreChange::Session(id, session)])?;
                }
                if state.no_longer_waits(id) {
                    // A command came while the lease was over: others were told, the holder was
                    // not.
                    self.wake(state, id)?;
                }
            }
            Ok(lost)
        })
        .await
    }

    async fn inbox(&self, session: &SessionId, known: &[CommandId]) -> Result<Vec<QueuedCommand>> {
        self.step(|state| {
            let session = state.session(&self.backend, session)?;
            let inbox = session.into_iter().flat_map(|session| &session.inbox);
            let is_new = |queued: &&QueuedCommand| !known.contains(&queued.id);
            Ok(inbox.filter(is_new).cloned().collect())
        })
        .await
    }

    async fn waiting_commands(&self, session: &SessionId) -> Result<Vec<CommandId>> {
        self.step(|state| {
            let session = state.session(&self.backend, session)?;
            let inbox = session.into_iter().flat_map(|session| &session.inbox);
            Ok(inbox.map(|queued| queued.id).collect())
        })
        .await
    }

    async fn append(&self, append: &AppendRequest) -> Result<AppendOutcome> {
        self.step(|state| {
            let id = &append.session;
            let Some(session) = state.session(&self.backend, id)? else {
                return Ok(AppendOutcome::Fenced);
            };
            let place = session.place(id);
            let done = session.inbox.iter().map(|queued| queued.id);
            let done: Vec<u64> = done
                .filter(|id| append.acks.contains(id))
                .map(|id| id.number)
                .collect();
            let (outcome, written) = session.append(append);
            let Some(written) = written else {
                return Ok(outcome);
            };
            let log = LogId::Session(id.clone());
            let mut changes: Vec<StoreChange<'_>> = Vec::with_capacity(4);
            changes.extend(
                written
                    .frame
                    .iter()
                    .map(|frame| StoreChange::Frame(&log, frame)),
            );
            changes.extend(done.iter().map(|number| StoreChange::Done(id, *number)));
            // Not if that was long ago, by one who repeats it.
            let released =
                written.settles && matches!(outcome, AppendOutcome::Done { released: true, .. });
            // When nobody sees it any more, it doesn't matter when it was last used.
            let before = match &place {
                Some(_) if released => session.use_now(),
                _ => None,
            };
            if before.is_some() {
                let used = StoreChange::Used(ExpiryKind::Session, &log, before, Some(session.used));
                changes.push(used);
            }
            let moved = session.place(id);
            if moved != place {
                changes.push(StoreChange::Listed(session, place, moved));
            }
            if written.beside_the_log || before.is_some() {
                changes.push(StoreChange::Session(id, session));
            }
            if written.settles {
                changes.extend(session.stored(id));
            }
            self.save(&changes)?;
            if released {
                state.remove_lease(id);
            }
            if let Some(frame) = written.frame {
                self.announce_frame(log, frame);
            }
            Ok(outcome)
        })
        .await
    }

    async fn release(&self, session: &SessionId, token: &ClaimToken) -> Result<()> {
        self.step(|state| {
            let Some(held) = state.session(&self.backend, session)? else {
                return Ok(());
            };
            let lease = held.lease.as_ref();
            if lease.is_some_and(|lease| lease.token == *token) {
                held.give_up();
                let waits = !held.inbox.is_empty();
                let mut changes = vec![StoreChange::Session(session, held)];
                changes.extend(held.stored(session));
                self.save(&changes)?;
                state.remove_lease(session);
                if waits {
                    self.wake(state, session)?;
                }
            }
            Ok(())
        })
        .await
    }

    async fn tidy(&self, _partition: Partition, when: &TidyPolicy) -> Result<TidyOutcome> {
        let tidied = expiry::tidy(self, when);
        self.commit().await?;
        tidied
    }
}

#[async_trait]
impl<S: StorageBackend> CredentialStore for EmbeddedStore<S> {
    async fn revoke(&self, revocation: &Revocation) -> Result<bool> {
        self.step(|state| self.revoke_subject(state, revocation))
            .await
    }

    async fn revocations(&self) -> Result<Vec<Revocation>> {
        self.step(|state| self.all_revocations(state)).await
    }

    async fn spend(&self, name: &str, lasts: Duration) -> Result<bool> {
        self.step(|state| self.spend_name(state, name, lasts)).await
    }
}
