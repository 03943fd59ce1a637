//! Agents that do what they should not. Each harms its own session at most, and the client is told.

use serde_json::{Value, json};

use super::{Visit, served};
use crate::support::http::load;

const AGENT_FAILED: i64 = 5006;

/// The misdeed, told by an error that says so; then everything goes on, here and in another session.
async fn is_contained(misdeed: &str, arguments: &[&str], why: &str) {
    let baton = served("", arguments).await;
    let mut bystander = Visit::begin(&baton.url()).await;
    bystander.says("say hello").await;
    let mut visit = Visit::begin(&baton.url()).await;
    let id = bystander.ask("count 200 5").await;
    let (_, answer) = visit.turn(misdeed).await;
    assert_eq!(answer["error"]["code"], AGENT_FAILED, "{answer}");
    let message = answer["error"]["message"].as_str().expect("a message");
    assert!(message.contains(why), "{message}");
    assert_eq!(visit.says("say again").await, "again");
    let (said, answer) = bystander.end_of(&id).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert!(said.ends_with(" 200 "), "{said}");
}

#[tokio::test]
async fn one_that_prints_garbage() {
    is_contained(
        "garbage 100\ndeaf",
        &[],
        "100 lines in a row that are no JSON-RPC",
    )
    .await;
}

#[tokio::test]
async fn one_that_prints_a_little_garbage_is_let_off() {
    let baton = served("", &[]).await;
    let mut visit = Visit::begin(&baton.url()).await;
    assert_eq!(visit.says("garbage 99\nsay sorry").await, "sorry");
}

#[tokio::test]
async fn one_that_prints_a_hundred_megabytes_in_a_line() {
    is_contained(
        "long 100\ndeaf",
        &["--agent-line", "8"],
        "a line of more than 8388608 bytes",
    )
    .await;
}

#[tokio::test]
async fn one_that_exits() {
    is_contained("exit 0", &[], "exited with status 0").await;
}

#[tokio::test]
async fn one_that_answers_what_it_was_not_asked() {
    let baton = served("", &[]).await;
    let mut visit = Visit::begin(&baton.url()).await;
    assert_eq!(visit.says("unknown\nsay well").await, "well");
    let log = baton.process.output();
    assert!(
        log.contains("the agent answered an unknown request"),
        "{log}"
    );
}

#[tokio::test]
async fn one_that_speaks_for_another_session() {
    for scope in ["session", "shared"] {
        let baton = served("", &["--agent-scope", scope]).await;
        let mut victim = Visit::begin(&baton.url()).await;
        victim.says("say hello").await;
        let mut visit = Visit::begin(&baton.url()).await;
        let said = visit.says(&format!("foreign {}", victim.session)).await;
        let refusal: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"));
        assert_eq!(refusal["code"], -32602, "{said}");
        // Nothing reached the other one: the next it hears is its own.
        assert_eq!(victim.says("say mine").await, "mine");
    }
}

#[tokio::test]
async fn one_that_does_not_open_a_session() {
    let baton = served("", &["--agent-start-timeout", "5s"]).await;
    let mut visit = Visit::begin(&baton.url()).await;
    visit.says("say hello").await;
    let params = json!({ "cwd": "/silence", "mcpServers": [] });
    let new = json!({ "jsonrpc": "2.0", "id": "n", "method": "session/new", "params": params });
    let answer = visit.client.one_shot(new).await.response(&json!("n")).await;
    assert_eq!(answer["error"]["code"], AGENT_FAILED, "{answer}");
    let message = answer["error"]["message"].as_str().expect("a message");
    assert!(message.contains("did not answer session/new"), "{message}");
    assert_eq!(visit.says("say still").await, "still");
}

#[tokio::test]
async fn one_that_shows_more_than_is_kept() {
    let baton = served("", &[]).await;
    let mut visit = Visit::begin(&baton.url()).await;
    assert_eq!(visit.says("options 10\nsay one").await, "one");
    for _ in 0..2 {
        // Who listens hears it all the same.
        assert_eq!(visit.says("options 600000\nsay two").await, "two");
    }
    let load = load(json!("l"), &visit.session);
    let answer = visit
        .client
        .one_shot(load)
        .await
        .response(&json!("l"))
        .await;
    let shown = &answer["result"]["configOptions"][0]["options"][0]["description"];
    assert_eq!(shown, "xxxxxxxxxx");
    // Once, however often it tries.
    let log = baton.process.output();
    let lines = log
        .lines()
        .filter(|line| line.contains("the agent's modes and options are too long"));
    assert_eq!(lines.count(), 1, "{log}");
    assert_eq!(visit.says("options 20\nsay three").await, "three");
}
