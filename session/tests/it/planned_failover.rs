//! `--durability replicated` while an operator changes primaries.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use baton_session::conformance::scene::Scene;
use baton_session::store::{EnqueueOutcome, Store};

use crate::durability::rounds;
use crate::sentinel::Group;
use crate::support::{again, bounded, replicated, until};

/// The old primary goes on until it is told, with the replica that was not promoted: its word alone must
/// not count.
#[tokio::test]
async fn what_was_acknowledged_survives_a_planned_failover() -> anyhow::Result<()> {
    let group = Group::with_two_replicas().await?;
    let store = replicated(&group.url()).await?;
    bounded(async {
        let stop = Arc::new(AtomicBool::new(false));
        let mut clients = Vec::new();
        for _ in 0..16 {
            clients.push(tokio::spawn(prompt_through(store.clone(), stop.clone())));
        }
        until("prompts are accepted", async || {
            (rounds(&group.primary).await? > 20).then_some(())
        })
        .await?;
        group.fail_over().await?;
        let survivor = group.promoted().await?.store().await?;
        stop.store(true, Ordering::SeqCst);
        let mut lost = Vec::new();
        for client in clients {
            let (scene, acknowledged) = client.await?;
            let waiting = survivor.inbox(&scene.id, &[]).await?;
            let found: BTreeSet<String> = waiting
                .iter()
                .filter_map(|queued| Some(queued.command.request.as_ref()?.to_string()))
                .collect();
            lost.extend(acknowledged.difference(&found).cloned());
        }
        assert!(
            lost.is_empty(),
            "{} acknowledged prompts are lost",
            lost.len()
        );
        Ok(())
    })
    .await
}

/// Sends prompts until told to stop, whatever becomes of the servers; returns those that were accepted.
async fn prompt_through(store: Arc<dyn Store>, stop: Arc<AtomicBool>) -> (Scene, BTreeSet<String>) {
    let scene = Scene::created(&store).await;
    let mut acknowledged = BTreeSet::new();
    for request in 1u64.. {
        let request = request.to_string();
        let prompt = scene.prompt(&request);
        match again(|| store.enqueue(&prompt)).await {
            EnqueueOutcome::Accepted { .. } | EnqueueOutcome::Joined { .. } => {
                acknowledged.insert(request);
            }
            EnqueueOutcome::Full => break,
            other => panic!("{other:?}"),
        }
        if stop.load(Ordering::SeqCst) {
            break;
        }
        // So that the inbox has room for as long as it takes.
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    (scene, acknowledged)
}
