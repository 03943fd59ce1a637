//! A prompt that stops whoever works on it is given up after the third time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use baton_session::conformance::scene::Scene;
use baton_session::event::Event;
use baton_session::store::{AgentCard, MemoryStore, Store, WorkerId};
use baton_worker::agent::{
    Agent, AgentMessage, CallResult, Conversation, ConversationChanges, Failure, SessionOpening,
    Turn,
};
use bytes::Bytes;
use serde_json::{Value, json, value::RawValue};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Dies at every prompt, after saying as much as it was told to.
struct Deadly {
    name: String,
    tries: AtomicU32,
    says: u32,
}

struct Deathbed(Arc<Deadly>);

#[async_trait]
impl Conversation for Deathbed {
    async fn prompt(&self, turn: &Turn, _: &AgentMessage) -> Result<Box<RawValue>, Failure> {
        let tries = self.0.tries.fetch_add(1, Ordering::SeqCst) + 1;
        // One thing more each time, as long as it lasts.
        for said in 0..tries.min(self.0.says) {
            turn.update(json!({ "sessionUpdate": "x", "said": said }))
                .await;
        }
        sleep(Duration::from_millis(100)).await;
        panic!("on purpose, try {tries}");
    }

    async fn call(&self, message: &AgentMessage) -> Result<CallResult, Failure> {
        Err(Failure::method_not_found(message.method()))
    }

    fn view(&self) -> Bytes {
        Bytes::from_static(b"{}")
    }

    fn changes(&self) -> ConversationChanges {
        ConversationChanges::default()
    }
}

struct Shared(Arc<Deadly>);

#[async_trait]
impl Agent for Shared {
    fn card(&self) -> AgentCard {
        AgentCard {
            name: self.0.name.clone(),
            version: "1".into(),
            initialize: json!({}),
        }
    }

    async fn open(&self, _: &SessionOpening) -> Result<Arc<dyn Conversation>, Failure> {
        Ok(Arc::new(Deathbed(self.0.clone())))
    }
}

/// Runs a prompt to its answer; returns that and how often it was tried.
async fn run(says: u32) -> (Value, u32, Scene) {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let scene = Scene::created(&store).await;
    let agent = Arc::new(Deadly {
        name: scene.agent.clone(),
        tries: AtomicU32::new(0),
        says,
    });
    let mut prompt = scene.prompt("1");
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": { "sessionId": scene.id, "prompt": [] } });
    prompt.command.message = message.to_string().into();
    store.enqueue(&prompt).await.expect("it is accepted");
    let stop = CancellationToken::new();
    let config = baton_worker::RunnerConfig {
        id: WorkerId("worker".into()),
        slots: 4,
        lease: Duration::from_secs(1),
        name: None,
        session_ttl: Duration::from_secs(3600),
        on_release: None,
        grace: std::time::Duration::ZERO,
        mcp: Default::default(),
        agent_policy: Default::default(),
        workspace_root: None,
        metrics: Default::default(),
        registered: Default::default(),
        audit: Default::default(),
    };
    let shared = Arc::new(Shared(agent.clone()));
    let worker = tokio::spawn(baton_worker::run(
        store.clone(),
        shared,
        config,
        stop.clone(),
    ));
    let answer = timeout(Duration::from_secs(60), async {
        loop {
            let frames = store.read(&scene.log(), 1, 1000).await.expect("a log");
            let events = frames.iter().flat_map(|frame| &frame.events);
            let answers = events.filter_map(|event| match event {
                Event::Response {
                    turn: true,
                    message,
                    ..
                } => Some(message),
                _ => None,
            });
            if let Some(answer) = answers.last() {
                return serde_json::from_slice(answer).expect("JSON");
            }
            sleep(Duration::from_millis(20)).await;
        }
    });
    let answer = answer.await.expect("it is answered at last");
    stop.cancel();
    worker.await.expect("ends").expect("without an error");
    (answer, agent.tries.load(Ordering::SeqCst), scene)
}

#[tokio::test]
async fn the_third_silent_death_is_the_last() {
    let (answer, tries, scene) = run(0).await;
    assert_eq!(answer["error"]["code"], 5004, "{answer}");
    // The first wrote the turn's begin before it died; three more wrote nothing.
    assert!((3..=4).contains(&tries), "{tries}");
    let inbox = scene.store.inbox(&scene.id, &[]).await.expect("an inbox");
    assert!(inbox.is_empty(), "{inbox:?}");
}

#[tokio::test]
async fn a_turn_that_gets_on_is_tried_again() {
    let (answer, tries, _) = run(5).await;
    assert_eq!(answer["error"]["code"], 5004, "{answer}");
    assert!(tries >= 7, "{tries}");
}
