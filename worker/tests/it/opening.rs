//! Agents that cannot open a session, or are not done with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use baton_session::command::CommandKind;
use baton_session::conformance::scene::{OVER, Scene};
use baton_session::event::Event;
use baton_session::store::{AgentCard, AppendRequest, MemoryStore, Store};
use baton_worker::ReleaseHook;
use baton_worker::agent::{Agent, Conversation, Failure, SessionOpening};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Worker, frames, until};

enum Trouble {
    Refuses,
    /// Records the outcome.
    TakesForever(Arc<AtomicU32>),
}

struct Troubled(String, Trouble);

const BEGUN: u32 = 1;
const DROPPED: u32 = 2;

struct Noted(Arc<AtomicU32>);

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.store(DROPPED, Ordering::SeqCst);
    }
}

#[async_trait]
impl Agent for Troubled {
    fn card(&self) -> AgentCard {
        AgentCard {
            name: self.0.clone(),
            version: "1".into(),
            initialize: json!({}),
        }
    }

    async fn open(&self, _: &SessionOpening) -> Result<Arc<dyn Conversation>, Failure> {
        match &self.1 {
            Trouble::Refuses => Err(Failure::internal("not today")),
            Trouble::TakesForever(stage) => {
                stage.store(BEGUN, Ordering::SeqCst);
                let _noted = Noted(stage.clone());
                std::future::pending().await
            }
        }
    }
}

/// A deleted session that a sandbox is bound to, and on which so many workers were lost.
async fn deleted(store: &Arc<dyn Store>, stalls: u32) -> Scene {
    let scene = Scene::created(store).await;
    let claim = scene.claim().await;
    let bound = AppendRequest {
        bound: Some("{\"sandbox\":\"vm-1\"}".into()),
        acks: scene.named(&[1]).await,
        release: true,
        ..scene.append(&claim.token, 1, Vec::new())
    };
    scene.write(&bound).await;
    assert!(scene.delete().await);
    for _ in 0..stalls {
        scene.try_claim(&scene.claimant(OVER)).await.expect("work");
    }
    scene
}

async fn is_released(stalls: u32) {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let scene = deleted(&store, stalls).await;
    let dir = TempDir::new().unwrap();
    let told = dir.path().join("told");
    let hook = format!("cat >> {0}; echo >> {0}", told.display());
    let agent = Arc::new(Troubled(scene.agent.clone(), Trouble::Refuses));
    let _worker = Worker::start_with(&store, agent, Some(ReleaseHook(hook)));
    until("the session is through", async || {
        store.inbox(&scene.id, &[]).await.unwrap().is_empty()
    })
    .await;
    let told = std::fs::read_to_string(told).expect("the hook was called");
    let told: Value = serde_json::from_str(&told).expect("once");
    let expected = json!({
        "sessionId": scene.id, "reason": "deleted", "bound": { "sandbox": "vm-1" }
    });
    assert_eq!(told, expected);
}

#[tokio::test]
async fn what_is_bound_is_released_also_if_the_agent_refuses_the_session() {
    is_released(0).await;
}

#[tokio::test]
async fn what_is_bound_is_released_also_if_workers_died_over_it() {
    is_released(4).await;
}

#[tokio::test]
async fn a_session_that_cannot_be_opened_can_be_closed() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let scene = Scene::created(&store).await;
    for (kind, id) in [(CommandKind::Prompt, "7"), (CommandKind::Close, "8")] {
        let asked = scene.request(scene.command(kind, Some(id)));
        store.enqueue(&asked).await.expect("the store works");
    }
    let agent = Arc::new(Troubled(scene.agent.clone(), Trouble::Refuses));
    let _worker = Worker::start(&store, agent);
    until("the session is through", async || {
        store.inbox(&scene.id, &[]).await.unwrap().is_empty()
    })
    .await;
    let frames = frames(&scene).await;
    let events = frames.iter().flat_map(|frame| &frame.events);
    let answers = events.filter_map(|event| match event {
        Event::Response { to, message, .. } => {
            let message: Value = serde_json::from_slice(message).unwrap();
            Some((to.request.to_string(), message.get("error").is_some()))
        }
        _ => None,
    });
    let answers: Vec<(String, bool)> = answers.collect();
    assert!(answers.contains(&("7".into(), true)), "{answers:?}");
    assert!(answers.contains(&("8".into(), false)), "{answers:?}");
}

#[tokio::test]
async fn an_agent_that_still_opens_does_not_hold_up_a_worker_that_stops() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let scene = Scene::created(&store).await;
    let stage = Arc::new(AtomicU32::new(0));
    let trouble = Trouble::TakesForever(stage.clone());
    let agent = Arc::new(Troubled(scene.agent.clone(), trouble));
    let worker = Worker::start(&store, agent);
    let is_at = async |wanted| stage.load(Ordering::SeqCst) == wanted;
    until("it begins", || is_at(BEGUN)).await;
    worker.stop.cancel();
    until("it is let go", || is_at(DROPPED)).await;
    until("the worker leaves", async || worker.task.is_finished()).await;
    scene.claim().await;
}
