//! Long turns as tasks.

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{door, passes, typescript};
use crate::llm::staged;
use crate::support::mcp::{McpPeer, McpStream};
use crate::support::model_server::{ModelScript, ScriptStep};
use crate::support::process::Process;
use crate::support::sse::counted;
use crate::support::{Cluster, until};

#[tokio::test]
async fn the_official_client_of_tasks_gets_its_results() {
    let cluster = Cluster::start().await;
    let dir = TempDir::new().expect("a temporary directory");
    let mut client = typescript("tasks.mjs");
    client.arg(door(&cluster.url()));
    passes(Process::start(dir.path(), "client", &mut client)).await;
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
async fn who_listens_is_told_of_tasks_and_of_no_others() {
    let cluster = Cluster::start().await;
    let peer = McpPeer::sessionless(&cluster.gateway_url(0), None, tasks());
    let elsewhere = McpPeer::sessionless(&cluster.gateway_url(1), None, tasks());
    let task = start_task(&peer, "/permission").await;
    let wanted = json!({ "notifications": { "taskIds": [task, "nobody's"] } });
    let message = elsewhere.message(&json!("mine"), "subscriptions/listen", wanted);
    let mut stream = McpStream::of(elsewhere.post(&[], &message).await);
    let told = stream.until("input_required").await;
    let asked = &told.last().expect("a task")["params"]["inputRequests"];
    let asked = asked.as_object().expect("questions");
    let id = asked.keys().next().expect("one");
    let chosen = json!({ "action": "accept", "content": { "choice": "allow_once" } });
    let params = json!({ "taskId": task, "inputResponses": { id: chosen } });
    peer.request(9, "tasks/update", params).await;
    let told = stream.until("\"completed\"").await;
    for message in &told {
        let meta = &message["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/subscriptionId"], "mine");
    }
    let first = &told[0];
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    let agreed = &first["params"]["notifications"]["taskIds"];
    assert_eq!(*agreed, json!([task]));
    let deaf = McpPeer::sessionless(&cluster.gateway_url(1), None, json!({}));
    let wanted = json!({ "notifications": { "taskIds": [task] } });
    let refused = deaf.request(1, "subscriptions/listen", wanted).await;
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
}

#[tokio::test]
async fn a_task_of_a_model_goes_on_when_its_worker_is_killed() {
    let (model, mut staged) = staged().await;
    let whole: String = (1..=60).map(|number| format!("word-{number} ")).collect();
    let mut broken = ModelScript::text(&whole);
    broken.steps.insert(20, ScriptStep::Stall);
    model.then(broken).then(ModelScript::text(&whole));
    let peer = McpPeer::sessionless(&staged.url(), None, tasks());
    let task = start_task(&peer, "Count").await;
    let listed = peer.fields(2, "list_sessions", json!({})).await;
    let session = listed["sessions"][0]["session"].as_str().expect("an id");
    until("words come", async || {
        let found = peer
            .fields(3, "status", json!({ "session": session }))
            .await;
        let text = found["text"].as_str().expect("a text");
        text.ends_with("word-20 ").then_some(())
    })
    .await;
    let holder = staged.holder(session);
    staged.workers[holder].kill();
    let done = task_is(&peer, &task, &["completed", "failed"]).await;
    let text = &done["result"]["structuredContent"]["text"];
    assert_eq!(*text, json!(whole), "{done}");
}
