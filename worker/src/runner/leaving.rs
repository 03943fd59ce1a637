//! A worker that stops hands its sessions over.

use std::sync::Arc;
use std::time::Duration;

use baton_session::id::{Partition, SessionId};
use baton_session::store::{ClaimToken, Claimant, SignalListener, Topic};
use futures_util::future::join_all;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::Runner;

/// How long agents may take to the end of the step they are in.
const STEP: Duration = Duration::from_secs(2);
/// How long handing over may take: the store may be away.
const HAND_OVER: Duration = Duration::from_secs(10);

impl Runner {
    /// From here on nobody is told to bring sessions here.
    pub(super) async fn leave(&self, listener: &dyn SignalListener) {
        let partitions = (0..self.store.partitions()).map(Partition);
        let topics = partitions.map(|at| Topic::Handed(at, self.config.id.clone()));
        let topics: Vec<_> = topics.collect();
        let left = join_all(topics.iter().map(|topic| listener.unsubscribe(topic)));
        // A store that is away tells nobody anything.
        let _ = timeout(STEP, left).await;
    }

    /// Everything that can be moved moves at once; the rest has until the end of the grace.
    pub(super) async fn hand_over_all(&self) {
        let ends = Instant::now() + self.config.grace.max(STEP);
        if timeout(STEP, self.tasks.wait()).await.is_err() {
            if timeout(HAND_OVER, self.release_stuck()).await.is_err() {
                tracing::warn!(
                    sessions = self.leases.len(),
                    "could not hand all sessions over; their leases will run out"
                );
                return;
            }
            let bound = self
                .leases
                .granted()
                .iter()
                .any(|(_, held)| held.is_bound());
            if bound && timeout_at(ends, self.tasks.wait()).await.is_err() {
                tracing::warn!("the grace period is over: interrupting turns that cannot be moved");
                self.cut.cancel();
                let _ = timeout(HAND_OVER, self.tasks.wait()).await;
            }
        }
        if self.leases.is_empty() {
            tracing::info!("the worker has handed all sessions over");
        }
    }

    /// For agents that do not finish their step: other workers resume from the log, and later
    /// output is refused.
    async fn release_stuck(&self) {
        let held: Vec<_> = self
            .leases
            .granted()
            .into_iter()
            .filter(|(_, held)| !held.is_bound())
            .map(|(id, held)| (id, held.token.clone()))
            .collect();
        for (session, token) in held {
            tracing::warn!(session.id = %session, "handed over in the middle of a step");
            while let Err(error) = self.store.release(&session, &token).await {
                tracing::warn!(session.id = %session, %error, "could not hand over");
                sleep(Duration::from_millis(200)).await;
            }
        }
    }
}

/// Of a worker that stops. Only it was told that the session waits: others are told when it gives
/// the session up.
pub(super) async fn pass_on(runner: Arc<Runner>, session: SessionId) {
    let claimant = Claimant {
        worker: runner.config.id.clone(),
        agent: runner.agent_name.clone(),
        token: ClaimToken::random(),
        lease: runner.config.lease,
        takes_over: None,
    };
    let passed_on = match runner.store.claim(&session, &claimant).await {
        Ok(None) => Ok(()),
        Ok(Some(_)) => runner.store.release(&session, &claimant.token).await,
        Err(error) => Err(error),
    };
    if let Err(error) = passed_on {
        tracing::warn!(session.id = %session, %error, "could not pass a session on");
    }
}
