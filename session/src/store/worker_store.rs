//! The worker's side of a store: sessions, and housekeeping.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::{
    AgentCard, AppendOutcome, AppendRequest, Claim, ClaimToken, Claimant, DueSessions, Result,
    TidyOutcome, TidyPolicy, WorkerId,
};
use crate::command::{CommandId, QueuedCommand};
use crate::id::{ConnectionId, Partition, SessionId};

/// Sessions from the worker's side, and housekeeping.
#[async_trait]
pub trait WorkerStore: Send + Sync + 'static {
    /// A worker says what it runs and that it lives, for as long as this `lasts`; to be repeated
    /// every [`HEARTBEAT`](super::HEARTBEAT).
    async fn register(&self, agent: &AgentCard, worker: &WorkerId, lasts: Duration) -> Result<()>;

    /// The client's description of itself; `None` if there is none, or it cannot be read here.
    async fn client_description(&self, connection: &ConnectionId) -> Result<Option<Bytes>>;

    /// Takes the session if nobody holds it and it has work, or if its lease ran out and the
    /// claimant may take it over.
    async fn claim(&self, session: &SessionId, claimant: &Claimant) -> Result<Option<Claim>>;

    /// Sessions of the partition that wait for a worker of this agent or whose lease ran out,
    /// oldest first as far as the store can tell, at most `limit`. To be claimed one by one: others
    /// may be faster.
    async fn due(&self, partition: Partition, agent: &str, limit: usize) -> Result<DueSessions>;

    /// How many more sessions a worker has room for. Told with every look at what is due; a session
    /// that wants a worker is signalled to the one with most room alone, see [`Topic::Handed`].
    /// Where all workers are in this process nobody is chosen.
    ///
    /// [`Topic::Handed`]: super::Topic::Handed
    fn offer_room(&self, agent: &str, worker: &WorkerId, sessions: u64) {
        let _ = (agent, worker, sessions);
    }

    /// Extends leases; returns the sessions that are no longer the caller's.
    async fn renew(
        &self,
        claims: &[(SessionId, ClaimToken)],
        lease: Duration,
    ) -> Result<Vec<SessionId>>;

    /// Commands that wait, in order, but for those that the caller knows.
    async fn inbox(&self, session: &SessionId, known: &[CommandId]) -> Result<Vec<QueuedCommand>>;

    /// The names of all commands that wait, in order.
    async fn waiting_commands(&self, session: &SessionId) -> Result<Vec<CommandId>>;

    /// The one way to write a session's log.
    async fn append(&self, append: &AppendRequest) -> Result<AppendOutcome>;

    /// Gives the session up, so that another worker can go on at once.
    async fn release(&self, session: &SessionId, token: &ClaimToken) -> Result<()>;

    /// Compacts idle sessions and removes expired ones. A few sessions at a time: to be repeated.
    async fn tidy(&self, partition: Partition, when: &TidyPolicy) -> Result<TidyOutcome>;
}
