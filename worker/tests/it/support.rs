//! A session of the scripted agent, and a worker that ends with the test.

use std::sync::Arc;
use std::time::Duration;

use baton_session::command::{Command, CommandKind};
use baton_session::conformance::scene::Scene;
use baton_session::event::{Event, Frame};
use baton_session::id::random_text;
use baton_session::store::{EnqueueOutcome, MemoryStore, SessionReplica, Store, WorkerId};
use baton_worker::ReleaseHook;
use baton_worker::agent::Agent;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(30);

pub struct Worker {
    pub stop: CancellationToken,
    pub task: JoinHandle<()>,
}

impl Worker {
    pub fn start(store: &Arc<dyn Store>, agent: Arc<dyn Agent>) -> Self {
        Self::start_with(store, agent, None)
    }

    pub fn start_with(
        store: &Arc<dyn Store>,
        agent: Arc<dyn Agent>,
        on_release: Option<ReleaseHook>,
    ) -> Self {
        Self::start_in(store, agent, on_release, 8)
    }

    pub fn start_in(
        store: &Arc<dyn Store>,
        agent: Arc<dyn Agent>,
        on_release: Option<ReleaseHook>,
        slots: usize,
    ) -> Self {
        let config = baton_worker::RunnerConfig {
            id: WorkerId(random_text(12).into()),
            slots,
            lease: Duration::from_secs(3600),
            name: None,
            session_ttl: Duration::from_secs(3600),
            on_release,
            grace: std::time::Duration::ZERO,
            mcp: Default::default(),
            agent_policy: baton_worker::AgentPolicy::open(),
            workspace_root: None,
            metrics: Default::default(),
            registered: Default::default(),
            audit: Default::default(),
        };
        let stop = CancellationToken::new();
        let run = baton_worker::run(store.clone(), agent, config, stop.clone());
        let task = tokio::spawn(async move { run.await.expect("the worker runs") });
        Self { stop, task }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A session with a prompt that waits.
pub async fn prompted(memory: &MemoryStore, agent: &dyn Agent, text: &str) -> Scene {
    let store: Arc<dyn Store> = Arc::new(memory.clone());
    let scene = Scene {
        agent: agent.card().name,
        ..Scene::planned(&store)
    };
    scene.create().await;
    prompt(&scene, 1, text).await;
    scene
}

/// One more prompt, or the same once more.
pub async fn prompt(scene: &Scene, id: u64, text: &str) -> EnqueueOutcome {
    let params = serde_json::json!({ "prompt": [{ "type": "text", "text": text }] });
    let message = serde_json::json!({ "jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params });
    let prompt = scene.request(Command {
        message: message.to_string().into(),
        ..scene.command(CommandKind::Prompt, Some(&id.to_string()))
    });
    let enqueued = scene.store.enqueue(&prompt).await;
    enqueued.expect("the store works")
}

pub fn replica(memory: &MemoryStore, scene: &Scene) -> SessionReplica {
    let replica = memory.replica(&scene.id).expect("the store works");
    replica.expect("the session exists")
}

/// Repeats until it is so.
pub async fn until<F: Future<Output = bool>>(what: &str, attempt: impl Fn() -> F) {
    let waiting = async {
        while !attempt().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    waited.unwrap_or_else(|_| panic!("gave up waiting: {what}"));
}

pub async fn frames(scene: &Scene) -> Vec<Arc<Frame>> {
    let mut frames: Vec<Arc<Frame>> = Vec::new();
    loop {
        let next = frames.last().map_or(1, |last| last.last() + 1);
        let page = scene.store.read(&scene.log(), next, 1000).await;
        let page = page.expect("the store works");
        if page.is_empty() {
            return frames;
        }
        frames.extend(page);
    }
}

pub fn is_answered(frames: &[Arc<Frame>]) -> bool {
    let mut events = frames.iter().flat_map(|frame| &frame.events);
    events.any(|event| matches!(event, Event::Response { turn: true, .. }))
}

/// The texts of the agent's chunks.
pub fn chunks(frames: &[Arc<Frame>]) -> Vec<String> {
    let events = frames.iter().flat_map(|frame| &frame.events);
    let texts = events.filter_map(|event| match event {
        Event::Update { message, .. } => {
            let message: serde_json::Value = serde_json::from_slice(message).expect("JSON");
            let text = &message["params"]["update"]["content"]["text"];
            text.as_str().map(str::to_owned)
        }
        _ => None,
    });
    texts.collect()
}

pub fn counted(chunks: u64) -> Vec<String> {
    (1..=chunks)
        .map(|chunk| format!("chunk {chunk} of {chunks}, prompt 1 "))
        .collect()
}
