//! Requests and bytes in a time.

use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::{
    Limited, counted, is_refused, list, refused_in_body, refused_on_stream, refused_with_429,
};
use crate::support::auth::ALICE;
use crate::support::http::{JSON, bearing, cancel, prompt};
use crate::support::websocket::{Socket, initialize};
use crate::support::{Client, Served, Stream, sse, within};

#[tokio::test]
async fn a_request_over_the_rate_is_refused_on_its_stream_and_the_client_goes_on() {
    let baton = Limited::start(json!({ "requests": "3/1h" })).await;
    let alice = baton.alice().await;
    let mut stream = alice.connection_stream(None).await;
    let session = alice.new_session().await;
    alice.post(list("third")).await;
    let listed = stream.response(&json!("third")).await;
    assert_eq!(listed["result"]["sessions"][0]["sessionId"], session);

    refused_on_stream(&alice, &mut stream, list("4"), "requests").await;
    let fifth = prompt(json!("5"), &session, "/count 1");
    refused_on_stream(&alice, &mut stream, fifth, "requests").await;
    let answer = refused_in_body(&alice, list("6"), "requests").await;
    is_refused(&answer, "requests");
    // Nothing of what was refused has happened, and neither the stream nor the connection has ended.
    let mut own = alice.session_stream(&session, Some("0")).await;
    assert_eq!(alice.delete().await, StatusCode::ACCEPTED);
    stream.ends().await;
    own.block().await.expect("where it starts");

    assert!(counted(&baton.url(), "requests").await);
    baton.bob_is_served().await;
}

#[tokio::test]
async fn initialize_is_a_request_like_any_other() {
    let baton = Limited::start(json!({ "requests": "1/1h" })).await;
    baton.alice().await;
    let response = bearing(ALICE)
        .post(baton.url())
        .header(JSON.0, JSON.1)
        .body(initialize().to_string())
        .send();
    let response = response.await.expect("the gateway answers");
    assert_eq!(response.status(), StatusCode::OK);
    assert!(super::retry_after(&response) > Some(0));
    let text = response.text().await.expect("a body");
    let answer: Value = serde_json::from_str(&text).expect("JSON");
    is_refused(&answer, "requests");
    baton.bob_is_served().await;
}

#[tokio::test]
async fn what_was_taken_before_is_joined_over_the_rate() {
    let baton = Limited::start(json!({ "requests": "3/1h" })).await;
    let alice = baton.alice().await;
    let session = alice.new_session().await;
    let asked = prompt(json!(1), &session, "/count 3");
    let mut first = alice.one_shot(asked.clone()).await;
    let said = first.turn(&json!(1)).await;
    assert_eq!(said, sse::counted(3, 1));
    // Told that it was refused, its client would have it done twice.
    let mut again = alice.one_shot(asked).await;
    assert_eq!(again.turn(&json!(1)).await, said);
    let another = prompt(json!(2), &session, "/count 3");
    refused_in_body(&alice, another, "requests").await;
}

async fn question(stream: &mut Stream) -> Value {
    loop {
        let message = stream.next().await.expect("the stream goes on").message();
        if message["method"] == "session/request_permission" {
            return message;
        }
    }
}

#[tokio::test]
async fn answers_and_cancels_get_through_over_the_rate() {
    let baton = Limited::start(json!({ "requests": "3/1h", "bytes": "1/1h" })).await;
    let alice = baton.alice().await;
    // The first message takes all that there is.
    refused_in_body(&alice, list("1"), "bytes").await;

    let baton = Limited::start(json!({ "requests": "4/1h" })).await;
    let alice = baton.alice().await;
    let session = alice.new_session().await;
    let asking = prompt(json!(1), &session, "/permission\n/sleep 600000");
    let mut turn = alice.one_shot(asking).await;
    let asked = question(&mut turn).await;
    alice.one_shot(list("4")).await.response(&json!("4")).await;
    refused_in_body(&alice, list("5"), "requests").await;
    let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } });
    alice
        .post(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": outcome }))
        .await;
    loop {
        let said = turn.next().await.expect("the turn goes on").chunk();
        if said.is_some_and(|said| said.contains("allow_once")) {
            break;
        }
    }
    alice.post(cancel(&session)).await;
    let over = turn.response(&json!(1)).await;
    assert_eq!(over["result"]["stopReason"], "cancelled");
}

#[tokio::test]
async fn a_large_message_is_taken_and_those_after_it_wait() {
    let baton = Limited::start(json!({ "bytes": "2000/1h" })).await;
    let alice = baton.alice().await;
    let session = alice.new_session().await;
    let mut stream = alice.session_stream(&session, None).await;
    let large = format!("/count 2\n/title {}", "x".repeat(10_000));
    alice.post(prompt(json!(1), &session, &large)).await;
    assert_eq!(stream.turn(&json!(1)).await, sse::counted(2, 1));
    let answer = refused_in_body(&alice, list("2"), "bytes").await;
    is_refused(&answer, "bytes");
    alice.post(cancel(&session)).await;
    assert!(counted(&baton.url(), "bytes").await);
    baton.bob_is_served().await;
}

/// The status line that comes before anything of the body was sent.
async fn announce(url: &str, key: &str) -> String {
    let address = url.trim_start_matches("http://").trim_end_matches("/acp");
    let socket = TcpStream::connect(address).await;
    let mut socket = BufReader::new(socket.expect("the gateway listens"));
    let head = format!(
        "POST /acp HTTP/1.1\r\nHost: {address}\r\nContent-Type: \
         application/json\r\nAuthorization: Bearer {key}\r\nContent-Length: 1000\r\n\r\n"
    );
    let sent = socket.write_all(head.as_bytes()).await;
    sent.expect("the gateway reads");
    let mut line = String::new();
    let answered = within("a status line", socket.read_line(&mut line)).await;
    answered.expect("the gateway answers");
    line
}

#[tokio::test]
async fn who_floods_is_not_even_read() {
    let baton = Limited::start(json!({ "requests": "1/1h" })).await;
    let alice = baton.alice().await;
    // Refused ones count here, and so does what is never refused otherwise.
    for _ in 0..9 {
        alice.post(cancel("none")).await;
    }
    let cancelled = alice.send(&[JSON], cancel("none").to_string()).await;
    refused_with_429(cancelled, "requests").await;
    refused_with_429(alice.get(&[]).await, "requests").await;
    assert_eq!(alice.delete().await, StatusCode::TOO_MANY_REQUESTS);
    let line = announce(&baton.url(), ALICE).await;
    assert!(line.starts_with("HTTP/1.1 429 "), "{line}");
    baton.bob_is_served().await;
}

#[tokio::test]
async fn a_socket_that_hurries_is_told_on_the_socket_and_stays_open() {
    let baton = Served::start_with(&["--ephemeral", "--limit-requests", "3/1h"]).await;
    let mut socket = Socket::open(&baton.url(), false).await;
    socket.send(initialize()).await;
    assert!(socket.next().await.get("result").is_some());
    let new = crate::support::http::new_session(json!("new"));
    socket.send(new).await;
    let created = socket.next().await;
    let session = created["result"]["sessionId"].as_str().expect("an id");
    let asking = prompt(json!(1), session, "/count 1\n/sleep 600000");
    socket.send(asking).await;
    while socket.next().await["method"] != "session/update" {}
    let next = async |socket: &mut Socket| loop {
        let message = socket.next().await;
        if message.get("method").is_none() {
            return message;
        }
    };
    for id in ["2", "3"] {
        socket.send(list(id)).await;
        let refused = next(&mut socket).await;
        assert_eq!(refused["id"], id);
        is_refused(&refused, "requests");
    }
    socket.send(cancel(session)).await;
    let over = next(&mut socket).await;
    assert_eq!(over["result"]["stopReason"], "cancelled");

    let mut late = Socket::open(&baton.url(), false).await;
    late.send(initialize()).await;
    is_refused(&late.next().await, "requests");
}

#[tokio::test]
async fn what_is_not_of_the_protocol_is_limited_with_a_status() {
    let baton = Limited::start(json!({ "requests": "2/1h", "sessions": 1 })).await;
    let alice = baton.alice().await;
    let session = alice.new_session().await;
    let export = baton.url().replace("/acp", "/v1/sessions/") + &session + "/export";
    let exported = bearing(ALICE).get(export).send().await;
    refused_with_429(exported.expect("the gateway answers"), "requests").await;
    let import = baton.url().replace("/acp", "/v1/sessions/import");
    let request = bearing(ALICE).post(import).body("{}");
    let request = request.header("content-type", "application/x-ndjson");
    let imported = request.send().await;
    refused_with_429(imported.expect("the gateway answers"), "requests").await;
    let bob = Client::with_key(&baton.url(), crate::support::auth::BOB).await;
    bob.new_session().await;
}
