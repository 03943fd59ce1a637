//! Claims that are granted late.

use std::sync::atomic::AtomicU32;

use async_trait::async_trait;
use baton_session::command::{CommandId, QueuedCommand};
use baton_session::conformance::scene::Scene;
use baton_session::id::ConnectionId;
use baton_session::store::{
    AgentCard, AppendOutcome, AppendRequest, DueSessions, MemoryStore, Result, TidyOutcome,
    TidyPolicy, WorkerId,
};
use bytes::Bytes;

use super::*;

const LEASE: Duration = Duration::from_secs(9);

/// A store that grants a claim at once and says so later.
struct SlowStore {
    store: Arc<dyn Store>,
    takes: Duration,
    /// Somebody else has the session by then.
    taken_over: bool,
    renewals: AtomicU32,
}

#[async_trait]
impl WorkerStore for SlowStore {
    async fn claim(&self, session: &SessionId, claimant: &Claimant) -> Result<Option<Claim>> {
        let claimed = self.store.claim(session, claimant).await;
        sleep(self.takes).await;
        claimed
    }

    async fn renew(
        &self,
        claims: &[(SessionId, ClaimToken)],
        lease: Duration,
    ) -> Result<Vec<SessionId>> {
        self.renewals.fetch_add(1, Ordering::Relaxed);
        assert_eq!(lease, LEASE);
        if self.taken_over {
            let sessions = claims.iter().map(|(session, _)| session.clone());
            return Ok(sessions.collect());
        }
        self.store.renew(claims, lease).await
    }

    async fn register(&self, agent: &AgentCard, worker: &WorkerId, lasts: Duration) -> Result<()> {
        self.store.register(agent, worker, lasts).await
    }

    async fn client_description(&self, connection: &ConnectionId) -> Result<Option<Bytes>> {
        self.store.client_description(connection).await
    }

    async fn due(&self, partition: Partition, agent: &str, limit: usize) -> Result<DueSessions> {
        self.store.due(partition, agent, limit).await
    }

    async fn inbox(&self, session: &SessionId, known: &[CommandId]) -> Result<Vec<QueuedCommand>> {
        self.store.inbox(session, known).await
    }

    async fn waiting_commands(&self, session: &SessionId) -> Result<Vec<CommandId>> {
        self.store.waiting_commands(session).await
    }

    async fn append(&self, append: &AppendRequest) -> Result<AppendOutcome> {
        self.store.append(append).await
    }

    async fn release(&self, session: &SessionId, token: &ClaimToken) -> Result<()> {
        self.store.release(session, token).await
    }

    async fn tidy(&self, partition: Partition, when: &TidyPolicy) -> Result<TidyOutcome> {
        self.store.tidy(partition, when).await
    }
}

/// Whether the claim is given to the worker, and how often its lease was renewed before.
async fn claimed(takes: Duration, taken_over: bool) -> (bool, u32) {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let scene = Scene::created(&store).await;
    let slow = SlowStore {
        store,
        takes,
        taken_over,
        renewals: AtomicU32::default(),
    };
    let claimed = claim(&slow, &scene.id, &scene.claimant(LEASE)).await;
    let claimed = claimed.expect("the store works");
    (claimed.is_some(), slow.renewals.load(Ordering::Relaxed))
}

#[tokio::test(start_paused = true)]
async fn a_slow_claim_is_renewed() {
    assert_eq!(claimed(LEASE / 3, false).await, (true, 0));
    assert_eq!(claimed(LEASE / 2, false).await, (true, 1));
    assert_eq!(claimed(LEASE * 2, false).await, (true, 1));
}

#[tokio::test(start_paused = true)]
async fn a_slow_claim_that_somebody_else_has_meanwhile_is_none() {
    assert_eq!(claimed(LEASE * 2, true).await, (false, 1));
}
