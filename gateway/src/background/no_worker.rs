//! When no worker is alive, commands don't wait for ever: they are withdrawn and answered with an
//! error that says so. A gateway does it the way a worker would, with a claim and an append, so a
//! worker that comes back at the same moment and this never both answer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use baton_protocol::{ErrorCode, compose};
use baton_session::clock::unix_millis;
use baton_session::command::{CommandKind, QueuedCommand};
use baton_session::event::{Event, ResponseRecipient};
use baton_session::id::{Nonce, Partition, random_text};
use baton_session::store::{
    self, AnsweredRequest, AppendRequest, Claim, ClaimToken, Claimant, HEARTBEAT, Store, WorkerId,
};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Long enough for one append; if this gateway dies meanwhile, another looks again.
const LEASE: Duration = Duration::from_secs(5);
/// Sessions of a partition that are looked at each time.
const AT_ONCE: usize = 256;
const REASON: &str = "no worker is running for this agent, so the request was withdrawn: nothing \
    was done, and sending it again is safe";

/// Answers what no worker takes.
pub struct NoWorkerTask {
    pub store: Arc<dyn Store>,
    /// How long commands wait while no worker is alive.
    pub withdraw_after: Duration,
    pub stop: CancellationToken,
}

/// Looks until the process stops.
pub async fn run(task: NoWorkerTask) {
    let mut deserted = HashMap::new();
    let mut ticker = interval(CHECK_INTERVAL);
    ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticker.tick() => {}
            _ = task.stop.cancelled() => return,
        }
        if let Err(error) = check_agents(&task, &mut deserted).await {
            // After an outage workers need a moment to say that they live.
            deserted.clear();
            tracing::debug!(%error, "could not look for commands that nobody will take");
        }
    }
}

/// `deserted` notes since when an agent has been without workers.
async fn check_agents(
    task: &NoWorkerTask,
    deserted: &mut HashMap<String, Instant>,
) -> store::Result<()> {
    let without_workers = task.store.deserted().await?;
    deserted.retain(|agent, _| without_workers.contains(agent));
    for agent in without_workers {
        let since = *deserted.entry(agent.clone()).or_insert_with(Instant::now);
        if since.elapsed() > HEARTBEAT * 2 {
            for partition in (0..task.store.partitions()).map(Partition) {
                withdraw(task, partition, &agent).await?;
            }
        }
    }
    Ok(())
}

async fn withdraw(task: &NoWorkerTask, partition: Partition, agent: &str) -> store::Result<()> {
    let due = task.store.due(partition, agent, AT_ONCE).await?;
    for session in &due.sessions {
        let claimant = Claimant {
            worker: WorkerId(random_text(12).into()),
            agent: agent.to_owned(),
            token: ClaimToken::random(),
            lease: LEASE,
            takes_over: Some(due.at),
        };
        let Some(claim) = task.store.claim(session, &claimant).await? else {
            continue;
        };
        // A turn that has begun is not given up: it goes on when a worker is back.
        if claim.running.is_none() {
            answer(task, &claim).await?;
        }
        task.store.release(&claim.session, &claim.token).await?;
    }
    Ok(())
}

async fn answer(task: &NoWorkerTask, claim: &Claim) -> store::Result<()> {
    let limit = unix_millis().saturating_sub(task.withdraw_after.as_millis() as u64);
    let stale: Vec<&QueuedCommand> = claim
        .inbox
        .iter()
        .filter(|queued| queued.command.taken_at <= limit)
        // Nobody waits for it, and only a worker can release what is bound to the session.
        .filter(|queued| queued.command.kind != CommandKind::Delete)
        .collect();
    if stale.is_empty() {
        return Ok(());
    }
    let append = AppendRequest {
        session: claim.session.clone(),
        token: claim.token.clone(),
        nonce: Nonce::random(),
        first: claim.head + 1,
        events: stale.iter().filter_map(|queued| refusal(queued)).collect(),
        acks: stale.iter().map(|queued| queued.id).collect(),
        requests: stale
            .iter()
            .filter_map(|queued| AnsweredRequest::of(queued))
            .collect(),
        state: None,
        view: None,
        pending: None,
        title: None,
        usage: None,
        bound: None,
        release: false,
        confirmed: false,
    };
    task.store.append(&append).await?;
    tracing::warn!(session.id = %claim.session, commands = stale.len(), "no worker is alive: \
        withdrew what waited");
    Ok(())
}

/// `None` for what expects no answer.
fn refusal(queued: &QueuedCommand) -> Option<Event> {
    let request = queued.command.request.clone()?;
    let message = compose::error(&request, ErrorCode::NoWorker, REASON);
    let to = ResponseRecipient {
        connection: queued.command.connection.clone(),
        request,
        via: queued.via,
        trace: queued.command.trace.clone(),
        at: None,
    };
    Some(Event::Response {
        to,
        turn: false,
        message,
    })
}

#[cfg(test)]
mod tests {
    use baton_session::conformance::scene::Scene;
    use baton_session::store::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn what_is_bound_to_a_deleted_session_is_left_for_a_worker() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let task = NoWorkerTask {
            store: store.clone(),
            withdraw_after: Duration::from_secs(30),
            stop: CancellationToken::new(),
        };
        let scene = Scene::created(&store).await;
        let token = scene.claim().await.token;
        let bound = AppendRequest {
            bound: Some("{\"sandbox\":\"vm-1\"}".into()),
            acks: scene.named(&[1]).await,
            ..scene.append(&token, 1, Vec::new())
        };
        scene.write(&bound).await;
        store.enqueue(&scene.prompt("1")).await.unwrap();
        store.release(&scene.id, &token).await.unwrap();
        assert!(scene.delete().await);
        let waiting = async || {
            let inbox = store.inbox(&scene.id, &[]).await.unwrap();
            let kinds = inbox.iter().map(|queued| queued.command.kind);
            kinds.collect::<Vec<_>>()
        };
        assert_eq!(waiting().await, [CommandKind::Prompt, CommandKind::Delete]);
        for _ in 0..2 {
            withdraw(&task, scene.id.partition(), &scene.agent)
                .await
                .unwrap();
            assert_eq!(waiting().await, [CommandKind::Delete]);
        }
        assert_eq!(scene.head().await, 1, "the prompt is answered, once");
        assert!(!scene.claim().await.bound.is_empty());
    }
}
