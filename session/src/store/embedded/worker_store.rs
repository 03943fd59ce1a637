//! The steps of workers, on the state in memory.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::backend::{ExpiryKind, StorageBackend, StoreChange};
use super::{EmbeddedStore, expiry};
use crate::clock::unix_millis;
use crate::command::{CommandId, QueuedCommand};
use crate::id::{ConnectionId, LogId, Partition, SessionId};
use crate::store::{
    AgentCard, AppendOutcome, AppendRequest, Claim, ClaimToken, Claimant, DueSessions, Result,
    TidyOutcome, TidyPolicy, WorkerId, WorkerStore,
};

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
