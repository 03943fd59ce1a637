//! Agents and the workers that run them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::scene::{EVERYTHING_UNUSED, LONG, OVER, Scene};
use crate::id::Partition;
use crate::store::{AdoptRequest, AgentCard, Store, TidyPolicy, WorkerId};

async fn listed(scene: &Scene) -> Option<(AgentCard, usize)> {
    let agents = scene.store.agents().await.unwrap();
    agents
        .into_iter()
        .find(|(card, _)| card.name == scene.agent)
}

async fn is_deserted(scene: &Scene) -> bool {
    let names = scene.store.deserted().await.unwrap();
    names.contains(&scene.agent)
}

fn card(scene: &Scene, version: &str) -> AgentCard {
    let initialize = json!({ "protocolVersion": 1, "note": "one\ntwo" });
    AgentCard {
        name: scene.agent.clone(),
        version: version.to_owned(),
        initialize,
    }
}

async fn register(scene: &Scene, version: &str, worker: &WorkerId, lasts: Duration) {
    let card = card(scene, version);
    let registered = scene.store.register(&card, worker, lasts).await;
    registered.unwrap();
}

fn workers<const N: usize>(scene: &Scene) -> [WorkerId; N] {
    [(); N].map(|()| scene.claimant(LONG).worker)
}

async fn tidy(scene: &Scene, when: &TidyPolicy) {
    for partition in (0..scene.store.partitions()).map(Partition) {
        scene.store.tidy(partition, when).await.unwrap();
    }
}

pub async fn a_registered_agent_is_listed_with_its_workers(store: &Arc<dyn Store>) {
    let scene = Scene::planned(store);
    assert_eq!(listed(&scene).await, None);
    let [one, two, gone] = workers(&scene);
    register(&scene, "1", &gone, OVER).await;
    for worker in [&one, &two, &one] {
        register(&scene, "1", worker, LONG).await;
    }
    assert_eq!(listed(&scene).await, Some((card(&scene, "1"), 2)));
}

pub async fn the_card_is_that_of_the_worker_that_came_last(store: &Arc<dyn Store>) {
    let scene = Scene::planned(store);
    let [old, new] = workers(&scene);
    register(&scene, "1", &old, LONG).await;
    register(&scene, "2", &new, LONG).await;
    // However often the others say that they live, also after they were silent.
    for lasts in [LONG, OVER, LONG] {
        register(&scene, "1", &old, lasts).await;
        let shown = listed(&scene).await.map(|(card, _)| card.version);
        assert_eq!(shown.as_deref(), Some("2"));
    }
    register(&scene, "3", &new, LONG).await;
    assert_eq!(listed(&scene).await, Some((card(&scene, "3"), 2)));
}

pub async fn a_card_goes_back_when_the_worker_that_came_last_is_gone(store: &Arc<dyn Store>) {
    let scene = Scene::planned(store);
    let [old, new] = workers(&scene);
    register(&scene, "1", &old, LONG).await;
    register(&scene, "2", &new, OVER).await;
    assert_eq!(listed(&scene).await, Some((card(&scene, "2"), 1)));
    register(&scene, "1", &old, LONG).await;
    assert_eq!(listed(&scene).await, Some((card(&scene, "1"), 1)));
}

pub async fn agents_are_listed_by_name(store: &Arc<dyn Store>) {
    for _ in 0..9 {
        let scene = Scene::planned(store);
        let [worker] = workers(&scene);
        register(&scene, "1", &worker, LONG).await;
    }
    let agents = store.agents().await.unwrap();
    assert!(agents.len() >= 9);
    assert!(agents.is_sorted_by_key(|(card, _)| card.name.clone()));
}

pub async fn an_agent_without_workers_is_deserted(store: &Arc<dyn Store>) {
    let scene = Scene::planned(store);
    assert!(!is_deserted(&scene).await, "nobody has heard of it");
    let [one, two] = workers(&scene);
    register(&scene, "1", &one, OVER).await;
    assert!(is_deserted(&scene).await);
    assert_eq!(listed(&scene).await, Some((card(&scene, "1"), 0)));
    register(&scene, "1", &two, LONG).await;
    assert!(!is_deserted(&scene).await);
}

pub async fn sessions_that_want_a_worker_are_counted(store: &Arc<dyn Store>) {
    let scene = Scene::created(store).await;
    let waiting = async || store.waiting(&scene.agent).await.unwrap();
    assert_eq!(waiting().await, 1);
    assert_eq!(store.waiting("nobody-knows-it").await.unwrap(), 0);
    let held = scene.claim().await;
    assert_eq!(waiting().await, 0);
    store.release(&scene.id, &held.token).await.unwrap();
    assert_eq!(waiting().await, 1);
    // A lease that ran out, and a command that comes then: one session all the same.
    let claimed = store.claim(&scene.id, &scene.claimant(OVER)).await.unwrap();
    assert!(claimed.is_some());
    assert_eq!(waiting().await, 1);
    store.enqueue(&scene.prompt("1")).await.unwrap();
    assert_eq!(waiting().await, 1);
}

pub async fn an_agent_that_sessions_came_of_is_deserted(store: &Arc<dyn Store>) {
    let moved = Scene::created(store).await;
    let here = Scene::planned(store);
    let mut record = store.record(&moved.id, &moved.principal).await.unwrap();
    let record = record.as_mut().expect("it is there");
    record.agent = here.agent.clone();
    let adoption = AdoptRequest {
        id: here.id.clone(),
        principal: here.principal.clone(),
        record: record.clone(),
        shares: None,
    };
    let claimant = here.claimant(LONG);
    assert!(store.adopt(&adoption, &claimant).await.unwrap());
    assert!(store.publish(&here.id, &claimant.token).await.unwrap());
    store.enqueue(&here.prompt("1")).await.unwrap();
    assert!(is_deserted(&here).await);
    assert_eq!(listed(&here).await, None, "nobody has said what it can do");
    let [worker] = workers(&here);
    register(&here, "1", &worker, LONG).await;
    assert!(!is_deserted(&here).await);
}

pub async fn an_agent_that_nobody_runs_is_forgotten_after_a_while(store: &Arc<dyn Store>) {
    let [alive, gone] = [(); 2].map(|()| Scene::planned(store));
    let [one, two] = workers(&alive);
    register(&alive, "1", &one, LONG).await;
    register(&gone, "1", &two, OVER).await;
    let later = TidyPolicy {
        unused: LONG,
        ..EVERYTHING_UNUSED
    };
    tidy(&gone, &later).await;
    assert!(listed(&gone).await.is_some(), "its workers may come back");
    tidy(&gone, &EVERYTHING_UNUSED).await;
    assert_eq!(listed(&gone).await, None);
    assert!(!is_deserted(&gone).await);
    assert_eq!(listed(&alive).await, Some((card(&alive, "1"), 1)));
    register(&gone, "2", &two, LONG).await;
    assert_eq!(listed(&gone).await, Some((card(&gone, "2"), 1)));
}
