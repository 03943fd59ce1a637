//! Every process is restarted in turn while clients work: no request fails, and no client that
//! resumes misses anything, gets anything twice or in another order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;

use crate::support::balancer::Kind;
use crate::support::http::{JSON, ONE_SHOT, new_session, prompt};
use crate::support::sse::{Event, counted};
use crate::support::websocket::{Socket, initialize};
use crate::support::{Client, Cluster, within};

const CHUNKS: u64 = 30;
const PROMPT: &str = "/count 30 delay=10";

/// How many turns a client has had when it is told to stop.
type Work = JoinHandle<u64>;

fn is_answer(message: &Value, id: &Value) -> bool {
    message["id"] == *id && message.get("method").is_none()
}

fn check(turn: u64, said: &[String], answer: &Value) {
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!(said, counted(CHUNKS, turn));
}

/// Reads a stream over all its cuts.
fn follow(client: Client, session: Option<String>, out: mpsc::UnboundedSender<Event>) {
    tokio::spawn(async move {
        let mut cursor: Option<String> = None;
        while !out.is_closed() {
            let from = cursor.as_deref();
            let mut stream = match &session {
                Some(session) => client.session_stream(session, from).await,
                None => client.connection_stream(from).await,
            };
            loop {
                let event = tokio::select! {
                    event = stream.next() => event,
                    _ = out.closed() => return,
                };
                let Some(event) = event else { break };
                assert_ne!(event.event, "reset", "{event:?}");
                let _ = out.send(event);
            }
            cursor = Some(stream.last_id.clone());
        }
    });
}

/// Prompts by POST, answers on the session's stream, or on the connection's while there is no other.
async fn with_streams(url: String, stop: Arc<AtomicBool>) -> u64 {
    let client = Client::initialize(&url).await;
    let session = client.new_session().await;
    let (out, mut events) = mpsc::unbounded_channel();
    follow(client.at(&url), Some(session.clone()), out.clone());
    follow(client.at(&url), None, out);
    for turn in 1.. {
        let id = json!(turn);
        client.post(prompt(id.clone(), &session, PROMPT)).await;
        let mut said = Vec::new();
        let answer = loop {
            let event = within("an event", events.recv())
                .await
                .expect("readers go on");
            said.extend(event.chunk());
            let message = event.message();
            if is_answer(&message, &id) {
                break message;
            }
        };
        check(turn, &said, &answer);
        if stop.load(Ordering::Relaxed) {
            return turn;
        }
    }
    unreachable!("there are enough numbers")
}

/// One body per prompt; one that was cut is asked for again.
async fn one_shot(url: String, stop: Arc<AtomicBool>) -> u64 {
    let client = Client::initialize(&url).await;
    let session = client.new_session().await;
    for turn in 1.. {
        let id = json!(turn);
        let body = prompt(id.clone(), &session, PROMPT).to_string();
        let (mut said, mut cursor) = (Vec::new(), String::new());
        let answer = 'request: loop {
            let mut headers = vec![JSON, ONE_SHOT];
            if !cursor.is_empty() {
                headers.push(("last-event-id", &cursor));
            }
            let response = client.send(&headers, body.clone()).await;
            assert_eq!(response.status(), StatusCode::OK);
            let mut stream = client.stream(response);
            while let Some(event) = stream.next().await {
                assert_ne!(event.event, "reset", "{event:?}");
                said.extend(event.chunk());
                if is_answer(&event.message(), &id) {
                    break 'request event.message();
                }
            }
            cursor = stream.last_id.clone();
        };
        check(turn, &said, &answer);
        if stop.load(Ordering::Relaxed) {
            return turn;
        }
    }
    unreachable!("there are enough numbers")
}

/// A socket that resumes, and then sends again what was not answered.
async fn socket(url: String, stop: Arc<AtomicBool>) -> u64 {
    let mut socket = Socket::open(&url, true).await;
    socket.send(initialize()).await;
    let opened = socket.next().await;
    let token = opened["message"]["result"]["_meta"]["baton/connection"]["token"].clone();
    socket.send(new_session(json!("new"))).await;
    let answer = socket.next().await;
    let session = answer["message"]["result"]["sessionId"].clone();
    let session = session.as_str().expect("an id");
    let mut cursor = answer["cursor"].clone();
    for turn in 1.. {
        let id = json!(turn);
        let request = prompt(id.clone(), session, PROMPT);
        let mut said = Vec::new();
        let _ = socket.try_send(&request).await;
        let answer = loop {
            let frame = match socket.frame().await {
                Some(Ok(Message::Text(text))) => text,
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                Some(Ok(Message::Close(_)) | Err(_)) | None => {
                    socket = Socket::open(&url, true).await;
                    let resume = json!({ "connection": token, "cursor": cursor });
                    let _ = socket.try_send(&json!({ "resume": resume })).await;
                    let _ = socket.try_send(&request).await;
                    continue;
                }
                other => panic!("{other:?}"),
            };
            let frame: Value = serde_json::from_str(&frame).expect("JSON");
            assert!(frame.get("reset").is_none(), "{frame}");
            cursor = frame["cursor"].clone();
            let message = frame["message"].clone();
            let text = message["params"]["update"]["content"]["text"].as_str();
            said.extend(text.map(str::to_owned));
            if is_answer(&message, &id) {
                break message;
            }
        };
        check(turn, &said, &answer);
        if stop.load(Ordering::Relaxed) {
            return turn;
        }
    }
    unreachable!("there are enough numbers")
}

async fn a_rolling_restart_fails_no_request_and_loses_nothing(balancer: Kind) {
    let arguments = ["--grace-ms", "6000"];
    let mut cluster = Cluster::start_behind_with(balancer, &arguments).await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut clients: Vec<Work> = Vec::new();
    for _ in 0..3 {
        clients.push(tokio::spawn(with_streams(cluster.url(), stop.clone())));
        clients.push(tokio::spawn(one_shot(cluster.url(), stop.clone())));
        clients.push(tokio::spawn(socket(cluster.url(), stop.clone())));
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    for number in 0..2 {
        let log = cluster.restart_gateway(number).await;
        println!("{log}");
        cluster.restart_worker(number).await;
    }
    stop.store(true, Ordering::Relaxed);
    let mut turns = Vec::new();
    for client in clients {
        turns.push(
            within("a client ends", client)
                .await
                .expect("no client fails"),
        );
    }
    println!("turns of each client: {turns:?}");
}

macro_rules! behind {
    ($($name:ident: $kind:ident;)*) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            a_rolling_restart_fails_no_request_and_loses_nothing(Kind::$kind).await;
        })*
    };
}

behind! {
    behind_round_robin_nobody_notices: RoundRobin;
    behind_nginx_nobody_notices: Nginx;
    behind_haproxy_nobody_notices: Haproxy;
    behind_envoy_nobody_notices: Envoy;
}
