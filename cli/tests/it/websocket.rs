//! WebSockets that come back after a cut.

use serde_json::{Value, json};

use crate::support::http::{new_session, prompt};
use crate::support::sse::counted;
use crate::support::websocket::{Socket, initialize};
use crate::support::{Cluster, Served};

#[tokio::test]
async fn a_socket_that_asked_can_come_back_at_the_other_gateway() {
    let cluster = Cluster::start().await;
    let mut socket = Socket::open(&cluster.gateway_url(0), true).await;
    socket.send(initialize()).await;
    let opened = socket.next().await;
    let token = opened["message"]["result"]["_meta"]["baton/connection"]["token"].clone();
    socket.send(new_session(json!(1))).await;
    let session = socket.next().await["message"]["result"]["sessionId"]
        .as_str()
        .expect("an id")
        .to_owned();
    socket
        .send(prompt(json!(2), &session, "/count 60 delay=5"))
        .await;
    let mut chunks = Vec::new();
    let mut cursor = Value::Null;
    for round in 0.. {
        let frame = socket.next().await;
        cursor = if frame["cursor"].is_null() {
            cursor
        } else {
            frame["cursor"].clone()
        };
        let message = &frame["message"];
        if message["id"] == 2 {
            break;
        }
        chunks.push(
            message["params"]["update"]["content"]["text"]
                .as_str()
                .expect("a chunk")
                .to_owned(),
        );
        if round % 9 == 8 {
            drop(socket);
            socket = Socket::open(&cluster.gateway_url(round % 2), true).await;
            socket
                .send(json!({ "resume": { "connection": token, "cursor": cursor } }))
                .await;
        }
    }
    assert_eq!(chunks, counted(60, 1));
}

/// A store may have lost what a client saw last. The client is told on the socket that it has, and goes on there: one
/// that had to come back would be made to wait again.
#[tokio::test]
async fn a_socket_that_saw_what_is_lost_is_reset_and_goes_on() {
    let baton = Served::start().await;
    let mut socket = Socket::open(&baton.url(), true).await;
    socket.send(initialize()).await;
    let opened = socket.next().await;
    let token = opened["message"]["result"]["_meta"]["baton/connection"]["token"].clone();
    socket.send(new_session(json!(1))).await;
    let session = socket.next().await["message"]["result"]["sessionId"].clone();
    let session = session.as_str().expect("an id");
    socket.send(prompt(json!(2), session, "/count 3")).await;
    let cursor = loop {
        let frame = socket.next().await;
        if frame["message"]["id"] == 2 {
            break frame["cursor"].as_str().expect("a cursor").to_owned();
        }
    };
    drop(socket);
    // As of a log that went on for a little.
    let (place, nonce) = cursor.rsplit_once('.').expect("a nonce");
    let (before, seq) = place.rsplit_once(':').expect("a number");
    let seq: u64 = seq.parse().expect("a number");
    let lost = format!("{before}:{}.{nonce}", seq + 4);
    let mut socket = Socket::open(&baton.url(), true).await;
    let resume = json!({ "connection": token, "cursor": lost });
    socket.send(json!({ "resume": resume })).await;
    let reset = socket.next().await;
    assert!(reset["reset"].is_string(), "{reset}");
    assert_eq!(reset["cursor"], cursor);
    socket.send(prompt(json!(3), session, "/count 1")).await;
    loop {
        let frame = socket.next().await;
        if frame["message"]["id"] == 3 {
            break;
        }
    }
}

#[tokio::test]
async fn what_cannot_be_understood_is_answered_and_the_socket_stays() {
    let baton = Served::start().await;
    let mut socket = Socket::open(&baton.url(), false).await;
    socket.send(initialize()).await;
    assert_eq!(socket.next().await["id"], 0);
    socket.send_text("{").await.expect("open");
    assert_eq!(socket.next().await["error"]["code"], -32700);
    socket.send(json!([])).await;
    assert_eq!(socket.next().await["error"]["code"], -32600);
    socket.send(new_session(json!(1))).await;
    assert_eq!(socket.next().await["id"], 1);
}

#[tokio::test]
async fn the_first_message_must_be_initialize() {
    let baton = Served::start().await;
    let mut socket = Socket::open(&baton.url(), false).await;
    socket.send(new_session(json!(1))).await;
    assert_eq!(socket.closed().await, 1002);
}
