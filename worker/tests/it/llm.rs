//! The native agent, whose worker is killed after every event of a turn.

mod model;
mod servers;
mod waiting;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use baton_session::command::{ClientCapabilities, Command, CommandKind};
use baton_session::conformance::scene::Scene;
use baton_session::event::Event;
use baton_session::id::random_text;
use baton_session::store::{MemoryStore, Store, WorkerId};
use baton_worker::agent::Agent;
use baton_worker::agent::llm::LlmAgent;
use baton_worker::agent::llm::config::{LlmConfig, ModelConfig};
use baton_worker::agent::llm::mcp_server::McpLaunch;
use baton_worker::agent::llm::model::ModelProtocol;
use baton_worker::agent::llm::provider::ProviderConfig;
use baton_worker::agent::stdio::LaunchConfig;
use baton_worker::mcp::McpPolicy;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::model::{Model, edit_and_run};
use crate::support::{frames, until};

const PERMISSION: &str = "session/request_permission";

/// MCP servers are started by this instead of Baton's guard.
fn launch(guard: PathBuf) -> McpLaunch {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let launch = LaunchConfig {
        command: Vec::new(),
        guard,
        environment: vec![("PATH".into(), path)],
        limits: Default::default(),
        user: None,
        homes: None,
        sandbox: None,
        stderr_to_client: false,
    };
    McpLaunch::new(launch, None)
}

fn agent(model: &Model) -> Arc<dyn Agent> {
    guarded(model, PathBuf::from("/bin/false"))
}

fn guarded(model: &Model, guard: PathBuf) -> Arc<dyn Agent> {
    let endpoint = ProviderConfig::new(ModelProtocol::Chat, model.url());
    let models = vec![ModelConfig::named("m", 100_000)];
    let config = LlmConfig {
        max_steps: 10,
        max_tool_output: 1024,
        ..LlmConfig::new(endpoint, models, Arc::new(launch(guard)))
    };
    Arc::new(LlmAgent::new(config).expect("a good configuration"))
}

/// A worker in a runtime of its own. Dropped, nothing of it goes on, as if it had been killed.
struct MortalWorker(Option<Runtime>);

impl Drop for MortalWorker {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

fn worker(store: &Arc<dyn Store>, agent: Arc<dyn Agent>) -> MortalWorker {
    worker_with(store, agent, McpPolicy::default())
}

/// A worker whose sessions are free soon after it was killed.
fn worker_with(store: &Arc<dyn Store>, agent: Arc<dyn Agent>, mcp: McpPolicy) -> MortalWorker {
    let config = baton_worker::RunnerConfig {
        id: WorkerId(random_text(12).into()),
        slots: 8,
        lease: Duration::from_millis(300),
        name: None,
        session_ttl: Duration::from_secs(3600),
        on_release: None,
        grace: Duration::ZERO,
        mcp,
        agent_policy: baton_worker::AgentPolicy::open(),
        workspace_root: None,
        metrics: Default::default(),
        registered: Default::default(),
        audit: Default::default(),
    };
    let run = baton_worker::run(store.clone(), agent, config, CancellationToken::new());
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.spawn(async move { run.await.expect("the worker runs") });
    MortalWorker(Some(runtime))
}

async fn enqueue(scene: &Scene, kind: CommandKind, message: Value) {
    let id = message["id"].to_string();
    let request = (kind != CommandKind::Answer).then_some(id.as_str());
    let asked = scene.request(Command {
        message: message.to_string().into(),
        client: ClientCapabilities::from_letters("rwt"),
        ..scene.command(kind, request)
    });
    scene.store.enqueue(&asked).await.expect("the store works");
}

/// The session's events, in their order.
async fn events(scene: &Scene) -> Vec<Event> {
    let frames = frames(scene).await;
    let events = frames.iter().flat_map(|frame| frame.events.clone());
    events.collect()
}

fn message(event: &Event) -> Value {
    let message = match event {
        Event::Update { message, .. }
        | Event::Request { message, .. }
        | Event::Response { message, .. } => message,
        _ => return Value::Null,
    };
    serde_json::from_slice(message).expect("JSON")
}

/// A client that answers every question once.
fn client(store: &Arc<dyn Store>, scene: &Scene) -> JoinHandle<()> {
    let scene = Scene {
        store: store.clone(),
        id: scene.id.clone(),
        creator: scene.creator.clone(),
        principal: scene.principal.clone(),
        agent: scene.agent.clone(),
    };
    tokio::spawn(async move {
        let mut answered = HashSet::new();
        loop {
            for event in events(&scene).await {
                let asked = message(&event);
                let is_question = matches!(event, Event::Request { .. });
                if is_question && answered.insert(asked["id"].to_string()) {
                    let result = result(asked["method"].as_str().unwrap_or_default());
                    let body = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result });
                    enqueue(&scene, CommandKind::Answer, body).await;
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
}

fn result(method: &str) -> Value {
    match method {
        PERMISSION => json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } }),
        "fs/read_text_file" => json!({ "content": "one two" }),
        "terminal/create" => json!({ "terminalId": "t" }),
        "terminal/wait_for_exit" => json!({ "exitCode": 0 }),
        "terminal/output" => json!({ "output": "printed", "truncated": false }),
        _ => json!({}),
    }
}

/// A turn whose worker is killed as soon as the log has so many events; its log.
async fn killed_at(model: &Model, head: u64) -> Vec<Event> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let scene = Scene {
        agent: "llm".into(),
        ..Scene::planned(&store)
    };
    scene.create().await;
    let client = client(&store, &scene);
    let mode = json!({ "sessionId": scene.id, "modeId": "ask" });
    let mode = json!({ "jsonrpc": "2.0", "id": 1, "method": "session/set_mode", "params": mode });
    enqueue(&scene, CommandKind::SetMode, mode).await;
    prompt(&scene).await;
    let first = worker(&store, agent(model));
    until("the log is so long", async || {
        scene.head().await >= head || is_over(&scene).await
    })
    .await;
    drop(first);
    let _second = worker(&store, agent(model));
    until("the turn ends", async || is_over(&scene).await).await;
    client.abort();
    events(&scene).await
}

async fn prompt(scene: &Scene) {
    let blocks = json!([{ "type": "text", "text": "Go" }]);
    let prompt = json!({ "sessionId": scene.id, "prompt": blocks });
    let prompt = json!({ "jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": prompt });
    enqueue(scene, CommandKind::Prompt, prompt).await;
}

async fn is_over(scene: &Scene) -> bool {
    let events = events(scene).await;
    let mut events = events.iter();
    events.any(|event| matches!(event, Event::Response { turn: true, .. }))
}

fn updates<'a>(log: &'a [Event], kind: &'a str) -> impl Iterator<Item = Value> + 'a {
    let updates = log.iter().filter(|it| matches!(it, Event::Update { .. }));
    let updates = updates.map(|event| message(event)["params"]["update"].clone());
    updates.filter(move |update| update["sessionUpdate"] == kind)
}

/// The answer to the prompt. Commands are announced when the session rests, perhaps after it.
fn answer(log: &[Event]) -> Value {
    let mut events = log.iter();
    let answer = events.find(|event| matches!(event, Event::Response { turn: true, .. }));
    message(answer.expect("the turn has ended"))
}

fn check(log: &[Event], killed_at: u64) {
    let said = updates(log, "agent_message_chunk");
    let said: String = said
        .filter_map(|update| update["content"]["text"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(said, model::SAID, "killed at {killed_at}");
    let asked = |method: &str| {
        let questions = log.iter().filter(|it| matches!(it, Event::Request { .. }));
        questions
            .filter(|it| message(it)["method"] == method)
            .count()
    };
    let expected = [
        (PERMISSION, 2),
        ("fs/read_text_file", 2),
        ("fs/write_text_file", 1),
        ("terminal/create", 1),
        ("terminal/wait_for_exit", 1),
        ("terminal/output", 1),
        ("terminal/release", 1),
    ];
    for (method, count) in expected {
        assert_eq!(asked(method), count, "{method}, killed at {killed_at}");
    }
    let count = |kind: &str| updates(log, kind).count();
    assert_eq!(count("tool_call"), 2, "killed at {killed_at}");
    assert_eq!(count("usage_update"), 3, "killed at {killed_at}");
    assert_eq!(count("session_info_update"), 1, "killed at {killed_at}");
    let ended = updates(log, "tool_call_update").filter(|it| it["status"] == "completed");
    assert_eq!(ended.count(), 2, "killed at {killed_at}");
    let last = answer(log);
    assert_eq!(
        last["result"]["stopReason"], "end_turn",
        "killed at {killed_at}: {last}"
    );
}

#[tokio::test]
async fn a_turn_goes_on_after_every_event_that_may_be_its_workers_last() {
    let model = Model::start(edit_and_run).await;
    let whole = killed_at(&model, u64::MAX).await;
    check(&whole, u64::MAX);
    let all = (1..whole.len() as u64).map(async |head| {
        let model = Model::start(edit_and_run).await;
        (head, killed_at(&model, head).await)
    });
    for (head, log) in join_all(all).await {
        check(&log, head);
    }
}
