//! The steps of workers, each a script.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::join_all;

use super::reply::ScriptReply;
use super::scripts::{ScriptCall, scripts};
use super::{RedisStore, format};
use crate::command::{CommandId, QueuedCommand};
use crate::id::{ConnectionId, Partition, SessionId};
use crate::store::{
    AgentCard, AppendOutcome, AppendRequest, Claim, ClaimToken, Claimant, DueSessions, Result,
    TAKEOVER_WINDOW, TidyOutcome, TidyPolicy, WorkerId, WorkerStore,
};

/// By the store's clock, in milliseconds; 0 for never.
fn may_take_over_until(claimant: &Claimant) -> u64 {
    let window = TAKEOVER_WINDOW.as_millis() as u64;
    let until = claimant
        .takes_over
        .map(|found| found.saturating_add(window));
    // Numbers in scripts are exact up to here.
    until.unwrap_or_default().min(1 << 53)
}

#[async_trait]
impl WorkerStore for RedisStore {
    async fn client_description(&self, connection: &ConnectionId) -> Result<Option<Bytes>> {
        self.description_of(connection).await
    }

    async fn register(&self, agent: &AgentCard, worker: &WorkerId, lasts: Duration) -> Result<()> {
        self.register_agent(agent, worker, lasts).await
    }

    async fn claim(&self, session: &SessionId, claimant: &Claimant) -> Result<Option<Claim>> {
        let k = &self.keys;
        let call = ScriptCall::new(&scripts().claim)
            .key(k.session(session))
            .key(k.inbox(session))
            .key(k.due(session.partition(), &claimant.agent))
            .arg(session.as_str())
            .arg(&claimant.agent)
            .arg(&*claimant.token.0)
            .arg(&*claimant.worker.0)
            .num(claimant.lease.as_millis() as u64)
            .num(may_take_over_until(claimant))
            .num(self.client.waits_for_replicas().into());
        let mut items = self.run_durably(call).await?.items()?;
        if items.is_empty() {
            return Ok(None);
        }
        if self.client.waits_for_replicas() {
            let call = ScriptCall::new(&scripts().confirm_claim)
                .key(k.session(session))
                .arg(&*claimant.token.0);
            // Without it, a holder that vanishes now does not count: a request that stops workers
            // is found out later.
            if let Err(error) = self.client.run_briefly(call).await {
                tracing::debug!(%error, session.id = %session, "could not confirm a claim");
            }
        }
        items.claim(session, claimant).map(Some)
    }

    async fn due(&self, partition: Partition, agent: &str, limit: usize) -> Result<DueSessions> {
        self.due_sessions(partition, agent, limit).await
    }

    fn offer_room(&self, agent: &str, worker: &WorkerId, sessions: u64) {
        self.offered_room.set(agent, worker, sessions);
    }

    async fn renew(
        &self,
        claims: &[(SessionId, ClaimToken)],
        lease: Duration,
    ) -> Result<Vec<SessionId>> {
        let mut partitions: HashMap<Partition, Vec<&(SessionId, ClaimToken)>> = HashMap::new();
        for claim in claims {
            partitions
                .entry(claim.0.partition())
                .or_default()
                .push(claim);
        }
        // One node that does not answer must not cost the leases on the others.
        let renewals = partitions
            .into_values()
            .map(|claims| self.renew_partition(claims, lease));
        let mut lost = Vec::new();
        let mut failed = Ok(());
        for renewed in join_all(renewals).await {
            match renewed {
                Ok(sessions) => lost.extend(sessions),
                Err(error) => failed = Err(error),
            }
        }
        if lost.is_empty() {
            failed.map(|()| lost)
        } else {
            Ok(lost)
        }
    }

    async fn inbox(&self, session: &SessionId, known: &[CommandId]) -> Result<Vec<QueuedCommand>> {
        let known: Vec<String> = known.iter().map(CommandId::to_string).collect();
        let mut call = ScriptCall::new(&scripts().inbox)
            .key(self.keys.session(session))
            .key(self.keys.inbox(session));
        for name in &known {
            call = call.arg(name);
        }
        let mut items = self.run(call).await?.items()?;
        let counts = items.counting()?;
        items.queued(&counts)
    }

    async fn waiting_commands(&self, session: &SessionId) -> Result<Vec<CommandId>> {
        let call = ScriptCall::new(&scripts().commands)
            .key(self.keys.session(session))
            .key(self.keys.inbox(session));
        let mut items = self.run(call).await?.items()?;
        let counts = items.counting()?;
        ScriptReply(items.next()?).items()?.commands(&counts)
    }

    async fn append(&self, append: &AppendRequest) -> Result<AppendOutcome> {
        self.append_events(append).await
    }

    async fn release(&self, session: &SessionId, token: &ClaimToken) -> Result<()> {
        let call = ScriptCall::new(&scripts().release)
            .key(self.keys.session(session))
            .key(self.keys.inbox(session))
            .arg(session.as_str())
            .arg(&*token.0);
        self.run(call).await.map(drop)
    }

    async fn tidy(&self, partition: Partition, when: &TidyPolicy) -> Result<TidyOutcome> {
        // They belong to no partition.
        if partition.0 == 0 {
            // Others may have started since, or Redis may have lost it.
            format::check(&self.client, self.keys.format()).await?;
            self.retire_agents(when.unused).await?;
        }
        self.tidy_partition(partition, when).await
    }
}
