//! What a balancer has to carry: streams without delay, over HTTP/1.1 and HTTP/2, WebSockets, and
//! the name by which it was called.

use reqwest::{StatusCode, Version};
use serde_json::{Value, json};

use super::{allowed, question};
use crate::support::http::{JSON, ONE_SHOT, new_session, prompt};
use crate::support::websocket::{Socket, initialize};
use crate::support::{Client, Cluster};

const ASKS: &str = "/count 1\n/permission\nthanks";

/// A turn that waits for an answer to what it has said: kept back, that would never come.
pub async fn events_come_at_once(cluster: &Cluster) {
    let plain = Client::initialize(&cluster.url()).await;
    conversation(&plain, Version::HTTP_11).await;
    let http = reqwest::Client::builder().http2_prior_knowledge();
    let http = http.build().expect("a client");
    let h2 = plain.at(&cluster.balancer().h2_url()).over(http);
    conversation(&h2, Version::HTTP_2).await;
}

async fn conversation(client: &Client, version: Version) {
    let session = client.new_session().await;
    let one_shot = format!("{version:?}, one-shot");
    let body = prompt(json!(one_shot), &session, ASKS).to_string();
    let response = client.send(&[JSON, ONE_SHOT], body).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.version(), version);
    let mut stream = client.stream(response);
    let asked = question(&mut stream).await;
    client.post(allowed(&asked)).await;
    stream.response(&json!(one_shot)).await;

    let posted = format!("{version:?}, 202");
    let mut stream = client.session_stream(&session, None).await;
    client.post(prompt(json!(posted), &session, ASKS)).await;
    let asked = question(&mut stream).await;
    client.post(allowed(&asked)).await;
    stream.response(&json!(posted)).await;
}

pub async fn an_agent_has_its_path(cluster: &Cluster) {
    let url = format!("{}/scripted", cluster.url());
    let client = Client::initialize(&url).await;
    conversation(&client, Version::HTTP_11).await;
    let mut socket = Socket::open(&url, false).await;
    socket.send(initialize()).await;
    assert!(socket.next().await["result"].is_object());
}

pub async fn a_socket_works(cluster: &Cluster) {
    let mut socket = Socket::open(&cluster.url(), false).await;
    socket.send(initialize()).await;
    socket.next().await;
    socket.send(new_session(json!("new"))).await;
    let answer = answer_to(&mut socket, "new").await;
    let session = answer["result"]["sessionId"].as_str().expect("an id");
    socket.send(prompt(json!("turn"), session, ASKS)).await;
    let answer = answer_to(&mut socket, "turn").await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
}

/// Questions on the way are answered.
async fn answer_to(socket: &mut Socket, id: &str) -> Value {
    loop {
        let message = socket.next().await;
        if message["method"] == "session/request_permission" {
            socket.send(allowed(&message)).await;
        } else if message["id"] == id {
            return message;
        }
    }
}

pub async fn names_are_passed_on_and_metrics_are_not(cluster: &Cluster) {
    let http = reqwest::Client::new();
    let request = http.get(cluster.url()).header("host", "elsewhere.example");
    let response = request.send().await.expect("an answer");
    assert_eq!(response.status(), StatusCode::FORBIDDEN);
    let hidden = http.get(cluster.url().replace("/acp", "/metrics"));
    let response = hidden.send().await.expect("an answer");
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
}
