//! F6: what waits on a connection's stream is bounded, and leaves the store once it was read.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::auth::ALICE;
use crate::support::cluster::redis_cli;
use crate::support::http::{JSON, new_session};
use crate::support::{Client, Cluster, Served, until};

/// With directories as long as they may be, a list of so many sessions has about 100 KiB.
const SESSIONS: usize = 25;
/// Twice of what half an outbox can take.
const LISTS: usize = 80;

async fn open_sessions(alice: &Client) -> String {
    let cwd = format!("/{}", "d".repeat(4000));
    let mut last = Value::Null;
    for number in 0..SESSIONS {
        let id = json!(format!("open-{number}"));
        let mut message = new_session(id.clone());
        message["params"]["cwd"] = json!(cwd);
        last = alice.one_shot(message).await.response(&id).await;
    }
    last["result"]["sessionId"]
        .as_str()
        .expect("an id")
        .to_owned()
}

fn list(id: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "session/list", "params": {} })
}

fn delete(id: &str, session: &str) -> Value {
    let params = json!({ "sessionId": session });
    json!({ "jsonrpc": "2.0", "id": id, "method": "session/delete", "params": params })
}

async fn sent(client: &Client, message: Value) -> (StatusCode, Value) {
    let response = client.send(&[JSON], message.to_string()).await;
    let status = response.status();
    let body = response.text().await.expect("a body");
    (status, serde_json::from_str(&body).unwrap_or_default())
}

async fn listed(client: &Client, id: &str) -> usize {
    let answer = client.one_shot(list(id)).await.response(&json!(id)).await;
    let sessions = answer["result"]["sessions"].as_array();
    sessions.expect("a list").len()
}

/// How many lists are taken for a client that reads nothing. What comes then is refused.
async fn fill(alice: &Client) -> usize {
    for number in 0..LISTS {
        let (status, body) = sent(alice, list(&format!("list-{number}"))).await;
        if status == StatusCode::ACCEPTED {
            continue;
        }
        assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{body}");
        assert_eq!(body["error"]["data"]["limit"], "outbox", "{body}");
        let text = body["error"]["message"].as_str().expect("a text");
        assert!(text.contains("read that with GET"), "{text}");
        return number;
    }
    panic!("{LISTS} lists were taken");
}

#[tokio::test]
async fn f6_who_reads_nothing_gets_no_further_answers() {
    let served = Served::start_with(&["--ephemeral"]).await;
    let alice = Client::initialize(&served.url()).await;
    let last = open_sessions(&alice).await;
    let taken = fill(&alice).await;
    // Refused before anything is done.
    let (status, body) = sent(&alice, delete("gone", &last)).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{body}");
    // What is answered in its own body is, and so is another connection.
    assert_eq!(listed(&alice, "still").await, SESSIONS);
    let again = Client::initialize(&served.url()).await;
    again.post(list("other")).await;

    // Whoever reads gets all that was taken, and may ask again.
    let mut stream = alice.connection_stream(None).await;
    for number in 0..taken {
        let answer = stream.response(&json!(format!("list-{number}"))).await;
        assert!(answer["result"]["sessions"].is_array());
    }
    until("there is room again", async || {
        let (status, _) = sent(&alice, delete("gone", &last)).await;
        (status == StatusCode::ACCEPTED).then_some(())
    })
    .await;
    stream.response(&json!("gone")).await;
    assert_eq!(listed(&alice, "now").await, SESSIONS - 1);
}

#[tokio::test]
async fn f6_what_was_read_makes_room_in_redis() {
    let cluster = Cluster::start_with_keys().await;
    let alice = Client::with_key(&cluster.gateway_url(0), ALICE).await;
    open_sessions(&alice).await;
    let mut stream = alice.connection_stream(None).await;
    // As much as an outbox may weigh, twice: nobody who reads is turned away.
    for number in 0..2 * LISTS {
        let id = format!("list-{number}");
        until("it is taken", async || {
            let (status, _) = sent(&alice, list(&id)).await;
            (status == StatusCode::ACCEPTED).then_some(())
        })
        .await;
        stream.response(&json!(id)).await;
    }
    let port = cluster.redis.port;
    let outboxes = redis_cli(port, &["--scan", "--pattern", "*:x:*"]);
    let [outbox] = outboxes.lines().collect::<Vec<_>>()[..] else {
        panic!("one connection has an outbox: {outboxes}");
    };
    let memory = redis_cli(port, &["memory", "usage", outbox, "samples", "0"]);
    let memory: usize = memory.trim().parse().expect("a number");
    assert!(memory < 10 << 20, "{memory} bytes are kept");
}
