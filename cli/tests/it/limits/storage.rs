//! F6: what is kept of one caller is bounded, and what goes is given back.

use std::sync::atomic::{AtomicU64, Ordering};

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::{Limited, counted, list, refused_in_body};
use crate::support::auth::{ALICE, BOB};
use crate::support::cluster::redis_cli;
use crate::support::http::{bearing, load, new_session, prompt};
use crate::support::{Client, Cluster, until};

const MOST: u64 = 100_000;
/// Words of twice as much.
const LONG: &str = "/count 1000 size=200";

fn about(id: &str, method: &str, session: &str) -> Value {
    let params = json!({ "sessionId": session, "cwd": "/tmp" });
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// A turn that leaves more than may be kept, and comes to its end all the same.
async fn says_too_much(client: &Client, session: &str) {
    let mut turn = client.one_shot(prompt(json!("long"), session, LONG)).await;
    let answer = turn.response(&json!("long")).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
}

async fn is_answered(client: &Client, message: Value) {
    let id = message["id"].clone();
    let answer = client.one_shot(message).await.response(&id).await;
    assert!(answer.get("result").is_some(), "{answer}");
}

/// The answer to another `session/new`.
async fn opened(client: &Client) -> Value {
    static TRIES: AtomicU64 = AtomicU64::new(0);
    let id = json!(format!("try-{}", TRIES.fetch_add(1, Ordering::Relaxed)));
    let mut stream = client.one_shot(new_session(id.clone())).await;
    stream.response(&id).await
}

async fn import(url: &str, key: &str, archive: String) -> (StatusCode, Value) {
    let url = url.replace("/acp", "/v1/sessions/import");
    let sent = bearing(key).post(url).body(archive);
    let sent = sent.header("content-type", "application/x-ndjson");
    let response = sent.send().await.expect("the gateway answers");
    let status = response.status();
    let body = response.text().await.expect("a body");
    (status, serde_json::from_str(&body).expect("JSON"))
}

async fn export(url: &str, key: &str, session: &str) -> String {
    let url = url.replace("/acp", &format!("/v1/sessions/{session}/export"));
    let exported = bearing(key).get(url).send().await;
    let exported = exported.expect("the gateway answers").text().await;
    exported.expect("an archive")
}

#[tokio::test]
async fn f6_who_keeps_too_much_has_to_remove_something_first() {
    let baton = Limited::start(json!({ "storage": MOST })).await;
    let alice = baton.alice().await;
    let session = alice.new_session().await;
    let archive = export(&baton.url(), ALICE, &session).await;
    says_too_much(&alice, &session).await;
    // What a gateway knows is good for a second.
    until("it is noticed", async || {
        opened(&alice).await.get("error").map(drop)
    })
    .await;

    let refused = [
        new_session(json!("new")),
        prompt(json!("more"), &session, "/count 1"),
        about("fork", "session/fork", &session),
    ];
    for message in refused {
        let answer = refused_in_body(&alice, message, "storage").await;
        let error = &answer["error"];
        let text = error["message"].as_str().expect("a text");
        assert!(text.contains("session/delete"), "{text}");
        assert!(error["data"]["used"].as_u64() > Some(MOST), "{answer}");
        assert_eq!(error["data"]["most"], MOST, "{answer}");
        assert_eq!(error["data"]["retryable"], false, "{answer}");
    }
    let (status, body) = import(&baton.url(), ALICE, archive).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(body["error"]["data"]["limit"], "storage", "{body}");
    assert!(counted(&baton.url(), "storage").await);
    baton.bob_is_served().await;

    // What was taken before is not refused when it is sent again, and what reads or ends things is not at all.
    says_too_much(&alice, &session).await;
    is_answered(&alice, load(json!("load"), &session)).await;
    is_answered(&alice, list("list")).await;
    is_answered(&alice, about("close", "session/close", &session)).await;
    is_answered(&alice, about("delete", "session/delete", &session)).await;
}

#[tokio::test]
async fn f6_an_archive_is_taken_in_no_further_than_there_is_room() {
    let baton = Limited::start(json!({ "storage": MOST })).await;
    let bob = Client::with_key(&baton.url(), BOB).await;
    let session = bob.new_session().await;
    says_too_much(&bob, &session).await;
    let archive = export(&baton.url(), BOB, &session).await;
    let (status, body) = import(&baton.url(), ALICE, archive).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{body}");
    assert_eq!(body["error"]["data"]["limit"], "storage", "{body}");
    let alice = baton.alice().await;
    let mut answers = alice.one_shot(list("list")).await;
    let listed = answers.response(&json!("list")).await;
    assert_eq!(listed["result"]["sessions"], json!([]), "{listed}");
}

#[tokio::test]
async fn f6_what_was_removed_makes_room_on_every_gateway() {
    let limit = MOST.to_string();
    let cluster = Cluster::start_with(&["--limit-storage", &limit]).await;
    let here = Client::initialize(&cluster.gateway_url(0)).await;
    let there = here.at(&cluster.gateway_url(1));
    let session = here.new_session().await;
    says_too_much(&here, &session).await;
    refused_in_body(&there, new_session(json!("early")), "storage").await;
    is_answered(&there, about("delete", "session/delete", &session)).await;
    // It counts until it is gone, a minute later. Here, that is over.
    let port = cluster.redis.port;
    let gone = redis_cli(port, &["--scan", "--pattern", "*:gone"]);
    redis_cli(port, &["zadd", gone.trim(), "1", &session]);
    until("there is room", async || {
        opened(&there).await.get("result").map(drop)
    })
    .await;
}
