//! How many sessions wait for which agent, and how many workers it has: for those who decide how
//! many there should be. Every gateway tells, since there may be no worker that could.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use baton_session::store;
use tokio::time::{MissedTickBehavior, interval};

use crate::app::App;

const PERIOD: Duration = Duration::from_secs(5);

/// Counts until the process stops.
pub async fn run(app: Arc<App>) {
    let mut reported = BTreeSet::new();
    let mut ticker = interval(PERIOD);
    ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticker.tick() => {}
            _ = app.stop.cancelled() => return,
        }
        // The last counts stay while the store is unavailable: nobody should scale by that.
        if let Err(error) = count(&app, &mut reported).await {
            tracing::debug!(%error, "could not count what waits for workers");
        }
    }
}

/// Only agents that workers have registered are told about: clients can bring sessions of any
/// other.
async fn count(app: &App, reported: &mut BTreeSet<String>) -> store::Result<()> {
    let mut found = BTreeSet::new();
    for (card, workers) in app.store.agents().await? {
        let waiting = app.store.waiting(&card.name).await?;
        app.metrics.agent(&card.name, workers, waiting);
        reported.insert(card.name.clone());
        found.insert(card.name);
    }
    for gone in reported.difference(&found) {
        app.metrics.no_agent(gone);
    }
    *reported = found;
    Ok(())
}

#[cfg(test)]
mod tests {
    use baton_session::conformance::scene::Scene;
    use baton_session::metrics::{Registry, page};
    use baton_session::store::{AgentCard, MemoryStore, Store, TidyPolicy, WorkerId};
    use baton_session::token::{KeyRing, SigningKeys, generate};
    use jsonwebtoken::Algorithm;
    use serde_json::Value;

    use super::*;
    use crate::app::{GatewayConfig, StopSignals};
    use crate::auth::AuthMethod;

    #[tokio::test]
    async fn agents_are_told_about_as_long_as_they_are_known() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let keys = SigningKeys::fixed(KeyRing::parse(&generate(Algorithm::HS256)).unwrap());
        let config = GatewayConfig::default();
        let mut registry = Registry::default();
        config.metrics.register(&mut registry);
        let app = App::new(
            config,
            store.clone(),
            keys,
            AuthMethod::Open,
            StopSignals::default(),
        )
        .await;
        let (app, mut reported) = (app.unwrap(), BTreeSet::new());
        let page = || page(&registry);
        // Sessions alone tell nothing.
        let scene = Scene::created(&store).await;
        count(&app, &mut reported).await.unwrap();
        assert!(!page().contains(&scene.agent));
        let card = AgentCard {
            name: scene.agent.clone(),
            version: "1".into(),
            initialize: Value::Null,
        };
        let worker = WorkerId("one".into());
        let lasts = Duration::from_millis(1);
        store.register(&card, &worker, lasts).await.unwrap();
        count(&app, &mut reported).await.unwrap();
        let queue = format!("gateway_queue{{agent=\"{}\"}} 1\n", scene.agent);
        assert!(page().contains(&queue), "{}", page());
        let claim = scene.claim().await;
        count(&app, &mut reported).await.unwrap();
        let empty = format!("gateway_queue{{agent=\"{}\"}} 0\n", scene.agent);
        assert!(page().contains(&empty), "{}", page());
        store.release(&scene.id, &claim.token).await.unwrap();
        // Until nobody has run it for long.
        let (rested, unused) = (Duration::from_secs(60), Duration::ZERO);
        let when = TidyPolicy { rested, unused };
        for _ in 0..10_000 {
            store.tidy(scene.id.partition(), &when).await.unwrap();
            count(&app, &mut reported).await.unwrap();
            if !page().contains(&scene.agent) {
                return;
            }
        }
        panic!("still there: {}", page());
    }
}
