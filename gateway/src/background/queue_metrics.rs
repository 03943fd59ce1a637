//! How many sessions wait for which agent, and how many workers it has: for those who decide how
//! many there should be. Every gateway tells, since there may be no worker that could.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use baton_session::store::{self, Store};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::metrics::GatewayMetrics;

const PERIOD: Duration = Duration::from_secs(5);

/// Counts what waits for workers.
pub struct QueueMetricsTask {
    pub store: Arc<dyn Store>,
    pub metrics: Arc<GatewayMetrics>,
    pub stop: CancellationToken,
}

/// Counts until the process stops.
pub async fn run(task: QueueMetricsTask) {
    let mut reported = BTreeSet::new();
    let mut ticker = interval(PERIOD);
    ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticker.tick() => {}
            _ = task.stop.cancelled() => return,
        }
        // The last counts stay while the store is unavailable: nobody should scale by that.
        if let Err(error) = count(&task, &mut reported).await {
            tracing::debug!(%error, "could not count what waits for workers");
        }
    }
}

/// Only agents that workers have registered are told about: clients can bring sessions of any
/// other.
async fn count(task: &QueueMetricsTask, reported: &mut BTreeSet<String>) -> store::Result<()> {
    let mut found = BTreeSet::new();
    for (card, workers) in task.store.agents().await? {
        let waiting = task.store.waiting(&card.name).await?;
        task.metrics.agent(&card.name, workers, waiting);
        reported.insert(card.name.clone());
        found.insert(card.name);
    }
    for gone in reported.difference(&found) {
        task.metrics.no_agent(gone);
    }
    *reported = found;
    Ok(())
}

#[cfg(test)]
mod tests {
    use baton_session::conformance::scene::Scene;
    use baton_session::metrics::{Registry, page};
    use baton_session::store::{AgentCard, MemoryStore, TidyPolicy, WorkerId};
    use serde_json::Value;

    use super::*;

    #[tokio::test]
    async fn agents_are_told_about_as_long_as_they_are_known() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let metrics = Arc::new(GatewayMetrics::default());
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let task = QueueMetricsTask {
            store: store.clone(),
            metrics,
            stop: CancellationToken::new(),
        };
        let mut reported = BTreeSet::new();
        let page = || page(&registry);
        // Sessions alone tell nothing.
        let scene = Scene::created(&store).await;
        count(&task, &mut reported).await.unwrap();
        assert!(!page().contains(&scene.agent));
        let card = AgentCard {
            name: scene.agent.clone(),
            version: "1".into(),
            initialize: Value::Null,
        };
        let worker = WorkerId("one".into());
        let lasts = Duration::from_millis(1);
        store.register(&card, &worker, lasts).await.unwrap();
        count(&task, &mut reported).await.unwrap();
        let queue = format!("gateway_queue{{agent=\"{}\"}} 1\n", scene.agent);
        assert!(page().contains(&queue), "{}", page());
        let claim = scene.claim().await;
        count(&task, &mut reported).await.unwrap();
        let empty = format!("gateway_queue{{agent=\"{}\"}} 0\n", scene.agent);
        assert!(page().contains(&empty), "{}", page());
        store.release(&scene.id, &claim.token).await.unwrap();
        // Until nobody has run it for long.
        let (rested, unused) = (Duration::from_secs(60), Duration::ZERO);
        let when = TidyPolicy { rested, unused };
        for _ in 0..10_000 {
            store.tidy(scene.id.partition(), &when).await.unwrap();
            count(&task, &mut reported).await.unwrap();
            if !page().contains(&scene.agent) {
                return;
            }
        }
        panic!("still there: {}", page());
    }
}
