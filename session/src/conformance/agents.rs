//! Agents and the workers that run them.

use std::sync::Arc;

use serde_json::json;

use super::scene::Scene;
use crate::store::{AgentCard, Store};

async fn listed(scene: &Scene) -> Option<(AgentCard, usize)> {
    let agents = scene.store.agents().await.unwrap();
    agents
        .into_iter()
        .find(|(card, _)| card.name == scene.agent)
}

fn card(scene: &Scene, version: &str) -> AgentCard {
    let initialize = json!({ "protocolVersion": 1, "note": "one\ntwo" });
    AgentCard {
        name: scene.agent.clone(),
        version: version.to_owned(),
        initialize,
    }
}

pub async fn a_registered_agent_is_listed_with_its_workers(store: &Arc<dyn Store>) {
    let scene = Scene::planned(store);
    assert_eq!(listed(&scene).await, None);
    let card = card(&scene, "1");
    let (one, two) = (
        scene.claimant(super::scene::LONG),
        scene.claimant(super::scene::LONG),
    );
    for worker in [&one.worker, &two.worker, &one.worker] {
        store.register(&card, worker).await.unwrap();
    }
    assert_eq!(listed(&scene).await, Some((card, 2)));
}

pub async fn a_card_is_replaced_by_the_latest(store: &Arc<dyn Store>) {
    let scene = Scene::planned(store);
    let worker = scene.claimant(super::scene::LONG).worker;
    store.register(&card(&scene, "1"), &worker).await.unwrap();
    store.register(&card(&scene, "2"), &worker).await.unwrap();
    assert_eq!(listed(&scene).await, Some((card(&scene, "2"), 1)));
}
