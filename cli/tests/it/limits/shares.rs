//! Sessions and turns, which hold for all gateways together.

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::{Limited, counted, is_refused, refused_in_body, refused_on_stream};
use crate::support::auth::ALICE;
use crate::support::http::{bearing, cancel, new_session, prompt};
use crate::support::{Client, Cluster, Stream, sse};

fn about(id: &str, method: &str, session: &str) -> Value {
    let params = json!({ "sessionId": session, "cwd": "/tmp" });
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// A turn that does not end by itself, and has begun.
async fn works(client: &Client, session: &str) -> Stream {
    let asked = prompt(json!("works"), session, "/count 1\n/sleep 600000");
    let mut turn = client.one_shot(asked).await;
    while turn.next().await.expect("it begins").chunk().is_none() {}
    turn
}

async fn is_cancelled(turn: &mut Stream, id: &str) {
    let answer = turn.response(&json!(id)).await;
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
}

// What a gateway knows is good for a second. So in these two, the one that refuses has not asked before,
// or is at the limit, where it asks again.

#[tokio::test]
async fn turns_that_another_gateway_let_in_count() {
    let cluster = Cluster::start_with(&["--limit-turns", "1"]).await;
    let here = Client::initialize(&cluster.gateway_url(0)).await;
    let there = here.at(&cluster.gateway_url(1));
    let mut stream = there.connection_stream(None).await;
    let (one, two) = (here.new_session().await, here.new_session().await);
    let mut turn = works(&here, &one).await;

    let refused = prompt(json!("r"), &two, "/count 1");
    refused_on_stream(&there, &mut stream, refused, "turns").await;
    // What waits in a session that works is no turn more.
    let waiting = prompt(json!("waits"), &one, "/count 1");
    let mut waits = there.one_shot(waiting).await;
    there.post(cancel(&one)).await;
    is_cancelled(&mut turn, "works").await;
    is_cancelled(&mut waits, "waits").await;
    let next = prompt(json!("next"), &two, "/count 1");
    let mut next = there.one_shot(next).await;
    assert_eq!(next.turn(&json!("next")).await, sse::counted(1, 1));
}

#[tokio::test]
async fn sessions_that_another_gateway_let_in_count() {
    let cluster = Cluster::start_with(&["--limit-sessions", "2"]).await;
    let here = Client::initialize(&cluster.gateway_url(0)).await;
    let there = here.at(&cluster.gateway_url(1));
    let (one, two) = (here.new_session().await, here.new_session().await);
    let refused = async |client: &Client, id: &str| {
        let fork = about(&format!("fork {id}"), "session/fork", &one);
        for message in [new_session(json!(id)), fork] {
            let answer = refused_in_body(client, message, "sessions").await;
            assert_eq!(answer["error"]["data"]["retryable"], false, "{answer}");
        }
    };
    refused(&there, "first").await;
    let mut deleted = there.one_shot(about("d", "session/delete", &two)).await;
    let answer = deleted.response(&json!("d")).await;
    assert!(answer.get("result").is_some(), "{answer}");
    here.new_session().await;
    refused(&there, "second").await;
}

#[tokio::test]
async fn one_callers_turns_are_not_anothers() {
    let baton = Limited::start(json!({ "turns": 2 })).await;
    let alice = baton.alice().await;
    let mut turns = Vec::new();
    let mut sessions = Vec::new();
    for _ in 0..3 {
        sessions.push(alice.new_session().await);
    }
    for session in &sessions[..2] {
        turns.push(works(&alice, session).await);
    }
    for id in 1..=3 {
        let more = prompt(json!(id), &sessions[2], "/count 1");
        let answer = refused_in_body(&alice, more, "turns").await;
        is_refused(&answer, "turns");
    }
    assert!(counted(&baton.url(), "turns").await);
    baton.bob_is_served().await;
    alice.post(cancel(&sessions[0])).await;
    is_cancelled(&mut turns[0], "works").await;
    let mut last = alice
        .one_shot(prompt(json!(4), &sessions[2], "/count 1"))
        .await;
    last.turn(&json!(4)).await;
}

#[tokio::test]
async fn one_turn_after_another_is_never_two() {
    let baton = Limited::start(json!({ "turns": 1 })).await;
    let alice = baton.alice().await;
    let session = alice.new_session().await;
    let other = alice.new_session().await;
    for id in 0..20 {
        let session = if id % 2 == 0 { &session } else { &other };
        let mut turn = alice.one_shot(prompt(json!(id), session, "/count 1")).await;
        turn.turn(&json!(id)).await;
    }
}

#[tokio::test]
async fn a_prompt_that_was_taken_is_joined_at_the_limit() {
    let baton = Limited::start(json!({ "turns": 1 })).await;
    let alice = baton.alice().await;
    let session = alice.new_session().await;
    let other = alice.new_session().await;
    let asked = prompt(json!(1), &session, "/count 2");
    alice.one_shot(asked.clone()).await.turn(&json!(1)).await;
    let _turn = works(&alice, &other).await;
    let mut again = alice.one_shot(asked).await;
    assert_eq!(again.turn(&json!(1)).await, sse::counted(2, 1));
}

#[tokio::test]
async fn what_comes_from_elsewhere_is_a_session_as_well() {
    let baton = Limited::start(json!({ "sessions": 1 })).await;
    let alice = baton.alice().await;
    let session = alice.new_session().await;
    let v1 = baton.url().replace("/acp", "/v1/sessions/");
    let http = bearing(ALICE);
    let exported = http.get(format!("{v1}{session}/export")).send().await;
    let archive = exported.expect("the gateway answers").text().await;
    let archive = archive.expect("an archive");
    let import = async || {
        let sent = http.post(format!("{v1}import")).body(archive.clone());
        let sent = sent.header("content-type", "application/x-ndjson");
        sent.send().await.expect("the gateway answers")
    };
    let refused = import().await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(super::retry_after(&refused), None);
    let mut deleted = alice.one_shot(about("d", "session/delete", &session)).await;
    deleted.response(&json!("d")).await;
    assert_eq!(import().await.status(), StatusCode::CREATED);
    refused_in_body(&alice, new_session(json!("n")), "sessions").await;
    baton.bob_is_served().await;
}
