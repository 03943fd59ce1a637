//! The store inside the process, in memory or in files, and the readable form of what the Redis
//! scripts do. One lock, no waiting inside it: a step changes the state and saves what it changed
//! on the backend; when that is written, it is announced, and only then does anybody know.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::{mpsc, watch};

use self::backend::{StorageBackend, StoreChange};
use self::group_commit::CommitQueue;
use self::memory::MemoryBackend;
use self::signals::SignalHub;
use self::state::StoreState;
use crate::event::Frame;
use crate::id::{LogId, Nonce, SessionId};
use crate::revocation::Revocation;
use crate::store::{
    Claim, Claimant, CredentialStore, Error, LogStore, Result, Signal, SignalListener, Topic,
};

mod account;
mod agents;
mod backend;
mod expiry;
#[cfg(any(test, feature = "conformance"))]
mod failover;
mod file;
mod gateway_store;
mod group_commit;
mod lifecycle;
mod lineage;
mod list;
mod memory;
mod outbox;
mod posting;
mod reports;
mod requests;
mod revocation;
mod session;
mod signals;
mod single_use;
mod state;
mod stream_touch;
mod worker_store;

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
