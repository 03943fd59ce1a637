//! Baton as an MCP server: the official clients, unmodified, through two gateways behind round
//! robin, and what they come through when processes are killed.

use std::path::Path;
use std::process::Command;

use futures_util::StreamExt as _;
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::clients::plays;
use crate::llm::staged;
use crate::support::mcp::{McpPeer, last, messages};
use crate::support::model_server::ModelScript;
use crate::support::process::Process;
use crate::support::sse::counted;
use crate::support::{Cluster, Served, until, within};

fn script(folder: &str, program: &str, file: &str) -> Command {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/clients")
        .join(folder);
    let mut command = match program {
        "node" => Command::new("node"),
        _ => Command::new(folder.join(".venv/bin/python")),
    };
    command.arg(folder.join(file));
    command
}

fn typescript(file: &str) -> Command {
    script("mcp-typescript", "node", file)
}

fn python() -> Command {
    script("mcp-python", "python", "scenario.py")
}

fn door(url: &str) -> String {
    url.replace("/acp", "/mcp")
}

macro_rules! scenarios {
    ($($name:ident: $client:expr, $kind:literal on $shape:ident;)*) => {
        $(#[tokio::test]
        async fn $name() {
            let baton = $shape::start().await;
            plays($client, $kind, &door(&baton.url())).await;
        })*
    };
}

scenarios! {
    typescript_1_in_one_process: typescript("scenario.mjs"), "sdk" on Served;
    typescript_1_with_replicas: typescript("scenario.mjs"), "sdk" on Cluster;
    typescript_2_with_sessions_and_replicas: typescript("scenario.mjs"), "legacy" on Cluster;
    typescript_2_without_sessions_in_one_process: typescript("scenario.mjs"), "sessionless" on Served;
    typescript_2_without_sessions_with_replicas: typescript("scenario.mjs"), "auto" on Cluster;
    python_with_sessions_and_replicas: python(), "mcp-legacy" on Cluster;
    python_without_sessions_with_replicas: python(), "mcp-auto" on Cluster;
    fastmcp_with_replicas: python(), "fastmcp" on Cluster;
}

#[tokio::test]
async fn the_official_client_of_tasks_gets_its_results() {
    let cluster = Cluster::start().await;
    let dir = TempDir::new().expect("a temporary directory");
    let mut client = typescript("tasks.mjs");
    client.arg(door(&cluster.url()));
    passes(Process::start(dir.path(), "client", &mut client)).await;
}

async fn passes(mut client: Process) {
    let status = client.exit_status().await;
    let output = client.output();
    assert!(
        status.success() && output.ends_with("scenario passed\n"),
        "{output}"
    );
}

/// Both gateways are killed in one call, one after the other.
async fn survives(kind: &str) {
    let mut cluster = Cluster::start().await;
    let dir = TempDir::new().expect("a temporary directory");
    let mut client = typescript("survive.mjs");
    client.args([kind, &door(&cluster.url()), "60"]);
    let client = Process::start(dir.path(), "client", &mut client);
    until("words come", async || {
        client.output().contains("calling").then_some(())
    })
    .await;
    for number in 0..2 {
        cluster.gateways[number].kill();
        cluster.revive_gateway(number).await;
    }
    passes(client).await;
}

#[tokio::test]
async fn a_killed_gateway_costs_a_client_of_the_1_line_nothing() {
    survives("sdk").await;
}

#[tokio::test]
async fn a_killed_gateway_costs_a_client_of_the_2_line_nothing() {
    survives("legacy").await;
}

/// What the guide says in this language.
fn example(language: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/mcp-server.md");
    let page = std::fs::read_to_string(page).expect("it is there");
    let (_, from) = page
        .split_once(&format!("```{language}\n"))
        .expect("an example");
    let (text, _) = from.split_once("```").expect("its end");
    text.to_owned()
}

#[tokio::test]
async fn the_examples_of_the_guide_run() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
    let mut node = Command::new("node");
    node.args(["--input-type=module", "--eval"])
        .current_dir(clients.join("mcp-typescript"));
    let mut python = Command::new(clients.join("mcp-python/.venv/bin/python"));
    python.arg("-c");
    for (language, mut command) in [("js", node), ("python", python)] {
        let here = "http://127.0.0.1:8080/mcp";
        command.arg(example(language).replace(here, &door(&baton.url())));
        let dir = TempDir::new().expect("a temporary directory");
        let mut client = Process::start(dir.path(), language, &mut command);
        assert!(client.exit_status().await.success(), "{}", client.output());
        let said = client.output();
        assert!(said.contains(&counted(3, 1).concat()), "{said}");
    }
}

fn tasks() -> Value {
    json!({ "extensions": { "io.modelcontextprotocol/tasks": {} }, "elicitation": {} })
}

/// Asks until the task has one of these states.
async fn task_is(peer: &McpPeer, task: &str, states: &[&str]) -> Value {
    until("the task goes on", async || {
        let found = peer
            .request(7, "tasks/get", json!({ "taskId": task }))
            .await;
        let found = found["result"].clone();
        assert_eq!(found["resultType"], "complete", "{found}");
        let state = found["status"].as_str().expect("a state").to_owned();
        states.contains(&state.as_str()).then_some(found)
    })
    .await
}

async fn start_task(peer: &McpPeer, prompt: &str) -> String {
    let task = peer.call(1, "start", json!({ "prompt": prompt })).await;
    assert_eq!(task["resultType"], "task", "{task}");
    assert_eq!(task["status"], "working");
    assert!(task["ttlMs"].is_number() && task["createdAt"].is_string());
    task["taskId"].as_str().expect("a name").to_owned()
}

#[tokio::test]
async fn a_task_outlives_its_worker() {
    let mut cluster = Cluster::start().await;
    let peer = McpPeer::sessionless(&cluster.url(), None, tasks());
    let task = start_task(&peer, "/count 30 delay=100").await;
    task_is(&peer, &task, &["working"]).await;
    // One of them has the session.
    for number in 0..2 {
        cluster.workers[number].kill();
        cluster.workers[number] = cluster.worker(number);
    }
    let done = task_is(&peer, &task, &["completed", "failed"]).await;
    let text = done["result"]["structuredContent"]["text"].as_str();
    assert_eq!(text, Some(counted(30, 1).concat().as_str()), "{done}");
    // It is there as long as its session.
    let again = task_is(&peer, &task, &["completed"]).await;
    assert_eq!(again["result"], done["result"]);
}

#[tokio::test]
async fn a_task_asks_is_answered_and_is_cancelled() {
    let cluster = Cluster::start().await;
    let peer = McpPeer::sessionless(&cluster.url(), None, tasks());
    let task = start_task(&peer, "/permission").await;
    let asks = task_is(&peer, &task, &["input_required"]).await;
    let questions = asks["inputRequests"].as_object().expect("questions");
    let (id, question) = questions.iter().next().expect("one");
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["mode"], "form");
    let chosen = json!({ "action": "accept", "content": { "choice": "reject_once" } });
    let responses = json!({ "nobody asked": chosen, id: chosen });
    let params = json!({ "taskId": task, "inputResponses": responses });
    let updated = peer.request(3, "tasks/update", params).await;
    assert_eq!(updated["result"]["resultType"], "complete", "{updated}");
    let done = task_is(&peer, &task, &["completed"]).await;
    let text = &done["result"]["structuredContent"]["text"];
    assert_eq!(text, "permission reject_once ");

    let task = start_task(&peer, "/sleep 600000").await;
    let params = json!({ "taskId": task });
    let sent = peer.request(4, "tasks/cancel", params.clone()).await;
    assert_eq!(sent["result"]["resultType"], "complete", "{sent}");
    task_is(&peer, &task, &["cancelled"]).await;
    // A client that does not say that it knows tasks has none.
    let other = McpPeer::sessionless(&cluster.url(), None, json!({}));
    let refused = other.request(5, "tasks/get", params).await;
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
    let whole = other
        .call(6, "start", json!({ "prompt": "/count 1" }))
        .await;
    assert_eq!(whole["resultType"], "complete", "{whole}");
}

#[tokio::test]
async fn a_call_that_is_repeated_joins() {
    let cluster = Cluster::start().await;
    let peers =
        [0, 1].map(|number| McpPeer::sessionless(&cluster.gateway_url(number), None, json!({})));
    let params = json!({ "name": "start", "arguments": { "prompt": "/count 10 delay=20" } });
    let message = peers[0].message(&json!("one"), "tools/call", params);
    let key = [("idempotency-key", "the same call")];
    let (first, second) = tokio::join!(
        async { last(peers[0].post(&key, &message).await).await },
        async { last(peers[1].post(&key, &message).await).await },
    );
    assert_eq!(first, second);
    let fields = &first["result"]["structuredContent"];
    assert_eq!(fields["text"], counted(10, 1).concat());
    let third = last(peers[0].post(&key, &message).await).await;
    assert_eq!(third, first, "also when it is over");
    let listed = peers[0].fields(2, "list_sessions", json!({})).await;
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(1));
    // Another call under the same key is a mistake.
    let mut other = message.clone();
    other["params"]["arguments"]["prompt"] = json!("/count 2");
    let refused = last(peers[0].post(&key, &other).await).await;
    assert_eq!(refused["result"]["isError"], true, "{refused}");
}

/// The first words of a stream, which is then dropped.
async fn first_words(response: Response) -> String {
    assert_eq!(response.status(), StatusCode::OK);
    let mut bytes = response.bytes_stream();
    let mut text = String::new();
    within("words", async {
        while !text.contains("chunk 2") {
            let piece = bytes.next().await.expect("more").expect("a body");
            text.push_str(&String::from_utf8_lossy(&piece));
        }
    })
    .await;
    text
}

#[tokio::test]
async fn a_client_that_is_gone_finds_its_turn() {
    let cluster = Cluster::start().await;
    let peer = McpPeer::open(&cluster.url(), None, json!({})).await;
    let params = json!({
        "name": "start",
        "arguments": { "prompt": "/count 20 delay=50" },
        "_meta": { "progressToken": "words" },
    });
    let message = peer.message(&json!(1), "tools/call", params);
    let text = first_words(peer.post(&[], &message).await).await;
    for message in messages(text.trim_end_matches(|c| c != '\n')) {
        assert_eq!(message["method"], "notifications/progress", "{message}");
        assert_eq!(message["params"]["progressToken"], "words");
    }
    // Another connection of its principal.
    let later = McpPeer::open(&cluster.url(), None, json!({})).await;
    let listed = later.fields(1, "list_sessions", json!({})).await;
    let session = &listed["sessions"][0]["session"];
    let wait = json!({ "session": session, "waitSeconds": 50 });
    let found = later.fields(2, "status", wait).await;
    assert_eq!(found["status"], "completed");
    assert_eq!(found["text"], counted(20, 1).concat());
}

#[tokio::test]
async fn a_client_without_forms_answers_by_a_tool() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let peer = McpPeer::open(&baton.url(), None, json!({})).await;
    let prompt = json!({ "prompt": "/permission" });
    let asked = peer.fields(1, "start", prompt).await;
    assert_eq!(asked["status"], "input_required", "{asked}");
    let question = &asked["questions"][0];
    assert_eq!(question["options"][0]["id"], "allow_once");
    let id = question["id"].as_str().expect("an id");
    let wrong = json!({ "answers": { id: "anything" } });
    assert_eq!(peer.call(2, "continue", wrong).await["isError"], true);
    let answers = json!({ "answers": { id: "allow_once" } });
    let done = peer.fields(3, "continue", answers).await;
    assert_eq!(done["text"], "permission allow_once ", "{done}");
}

#[tokio::test]
async fn a_scope_says_which_session_is_meant() {
    let cluster = Cluster::start().await;
    let url = cluster.url();
    // Of its own, and gone with the answer.
    let once = McpPeer::open(&format!("{url}?scope=request"), None, json!({})).await;
    let done = once
        .fields(1, "start", json!({ "prompt": "/count 1" }))
        .await;
    assert_eq!(done["text"], counted(1, 1).concat());
    until("it is gone", async || {
        let listed = once.fields(2, "list_sessions", json!({})).await;
        (listed["sessions"] == json!([])).then_some(())
    })
    .await;
    let none = once.call(3, "continue", json!({ "prompt": "x" })).await;
    assert_eq!(none["isError"], true);
    // The same for all connections.
    let shared = format!("{url}?scope=shared");
    let mut sessions = Vec::new();
    for prompt in 1..=2 {
        let peer = McpPeer::open(&shared, None, json!({})).await;
        let done = peer
            .fields(1, "start", json!({ "prompt": "/count 2" }))
            .await;
        assert_eq!(done["text"], counted(2, prompt).concat());
        sessions.push(done["session"].clone());
    }
    assert_eq!(sessions[0], sessions[1]);
    // Each its own.
    let peer = McpPeer::open(&url, None, json!({})).await;
    let nothing = peer.call(1, "continue", json!({ "prompt": "x" })).await;
    assert_eq!(nothing["isError"], true, "{nothing}");
    let first = peer
        .fields(2, "start", json!({ "prompt": "/count 1" }))
        .await;
    let second = peer
        .fields(3, "start", json!({ "prompt": "/count 1" }))
        .await;
    assert_ne!(first["session"], second["session"]);
    let next = peer
        .fields(4, "continue", json!({ "prompt": "/count 1" }))
        .await;
    assert_eq!(
        next["session"], second["session"],
        "the last that it has started"
    );
    let wrong = McpPeer::sessionless(&format!("{url}?scope=mine"), None, json!({}));
    let message = wrong.message(&json!(1), "tools/list", json!({}));
    let refused = wrong.post(&[], &message).await;
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn an_agent_has_a_path_and_the_model_its_words() {
    let (model, staged) = staged().await;
    let url = staged.cluster.url();
    model.then(ModelScript::text("Here I am."));
    let path = url.replace("/acp", "/mcp/llm");
    let peer = McpPeer::sessionless(&path, None, json!({}));
    let done = peer.fields(1, "start", json!({ "prompt": "Hello" })).await;
    assert_eq!(done["text"], "Here I am.", "{done}");
    let agents = peer.fields(2, "list_agents", json!({})).await;
    assert_eq!(agents["agents"][0]["name"], "llm", "{agents}");
    let missing = McpPeer::sessionless(&url.replace("/acp", "/mcp/painter"), None, json!({}));
    let refused = missing.call(3, "start", json!({ "prompt": "Hello" })).await;
    assert_eq!(refused["isError"], true, "{refused}");
}
