//! Identifiers that an agent or tool binds to its session.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::http::prompt;
use crate::support::{Client, Cluster, until};

async fn says(client: &Client, id: &str, session: &str, text: &str) -> String {
    let id = json!(id);
    let mut stream = client.one_shot(prompt(id.clone(), session, text)).await;
    stream.turn(&id).await.concat()
}

async fn bound_to(client: &Client, id: &str, session: &str) -> Value {
    let said = says(client, id, session, "/bound").await;
    serde_json::from_str(&said).expect("the agent says it as JSON")
}

async fn call(client: &Client, id: &str, method: &str, params: Value) -> Value {
    let id = json!(id);
    let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    client.one_shot(message).await.response(&id).await
}

#[tokio::test]
async fn what_is_bound_comes_with_every_later_prompt_and_with_forks_that_ask_for_it() {
    let mut cluster = Cluster::start().await;
    let client = Client::initialize(&cluster.url()).await;
    let session = client.new_session().await;
    let bind = "/bind sandbox vm-17\n/bind port 80";
    says(&client, "1", &session, bind).await;
    cluster.restart_worker(0).await;
    cluster.restart_worker(1).await;
    let bound = json!({ "port": "80", "sandbox": "vm-17" });
    assert_eq!(bound_to(&client, "2", &session).await, bound);
    let fork = json!({ "sessionId": session, "cwd": "/tmp" });
    let plain = call(&client, "3", "session/fork", fork.clone()).await;
    let child = plain["result"]["sessionId"].as_str().unwrap();
    assert_eq!(bound_to(&client, "4", child).await, json!({}));
    let mut fork = fork;
    fork["_meta"] = json!({ "baton/fork": { "inheritBindings": true } });
    let heir = call(&client, "5", "session/fork", fork).await;
    let child = heir["result"]["sessionId"].as_str().unwrap();
    assert_eq!(bound_to(&client, "6", child).await, bound);
}

#[tokio::test]
async fn what_was_bound_is_released_when_its_session_ends() {
    let mut cluster = Cluster::start().await;
    let dir = TempDir::new().unwrap();
    let told = dir.path().join("told");
    let hook = format!("cat >> {0}; echo >> {0}", told.display());
    cluster.workers.clear();
    let worker = cluster.worker_with(2, |command| {
        command.env("BATON_ON_RELEASE", &hook);
    });
    cluster.workers.push(worker);
    let client = Client::initialize(&cluster.url()).await;
    let (closed, deleted) = (client.new_session().await, client.new_session().await);
    says(&client, "1", &closed, "/bind sandbox vm-1").await;
    says(&client, "2", &deleted, "/bind sandbox vm-2").await;
    for (id, method, session) in [
        ("3", "session/close", &closed),
        ("4", "session/delete", &deleted),
    ] {
        let answer = call(&client, id, method, json!({ "sessionId": session })).await;
        let over = json!({ "_meta": { "baton/session": null } });
        assert_eq!(answer["result"], over);
    }
    let lines = until("both releases are told", async || {
        let told = fs::read_to_string(&told).ok()?;
        (told.lines().count() == 2).then_some(told)
    })
    .await;
    let mut told: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    told.sort_by_key(|release| release["reason"].to_string());
    let release = |session: &str, reason: &str, bound: &str| json!({ "sessionId": session, "reason": reason, "bound": { "sandbox": bound } });
    let expected = [
        release(&closed, "closed", "vm-1"),
        release(&deleted, "deleted", "vm-2"),
    ];
    assert_eq!(told, expected);
    // Loaded again, it has nothing bound.
    let load = json!({ "sessionId": closed, "cwd": "/tmp", "mcpServers": [] });
    call(&client, "5", "session/load", load).await;
    assert_eq!(bound_to(&client, "6", &closed).await, json!({}));
}
