//! Streams that know a session which is deleted.

use serde_json::{Value, json};

use crate::support::http::{new_session, prompt};
use crate::support::sse::counted;
use crate::support::{Client, Served};

fn request(id: &str, method: &str, session: &str) -> Value {
    let params = json!({ "sessionId": session, "cwd": "/tmp" });
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

#[tokio::test]
async fn a_connection_comes_back_as_if_nothing_had_happened() {
    let baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let mut stream = client.connection_stream(None).await;
    let mut sessions = Vec::new();
    for id in ["a", "b"] {
        client.post(new_session(json!(id))).await;
        let answer = stream.response(&json!(id)).await;
        sessions.push(answer["result"]["sessionId"].as_str().unwrap().to_owned());
    }
    client
        .post(prompt(json!(1), &sessions[0], "/count 3"))
        .await;
    assert_eq!(stream.turn(&json!(1)).await, counted(3, 1));
    // A fork keeps the log of what is deleted.
    client
        .post(request("c", "session/fork", &sessions[0]))
        .await;
    stream.response(&json!("c")).await;
    client
        .post(request("d", "session/delete", &sessions[0]))
        .await;
    stream.response(&json!("d")).await;
    let cursor = stream.last_id.clone();
    drop(stream);
    let mut stream = client.connection_stream(Some(&cursor)).await;
    let first = stream.block().await.expect("the stream begins");
    assert_eq!(
        (first.event.as_str(), first.data.as_str()),
        ("", ""),
        "no reset"
    );
    client
        .post(prompt(json!(2), &sessions[1], "/count 2"))
        .await;
    let (before, answer) = stream.until_response(&json!(2)).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    let said: Vec<String> = before.iter().filter_map(|event| event.chunk()).collect();
    assert_eq!(said, counted(2, 1), "and nothing of the deleted one");
}

#[tokio::test]
async fn a_load_under_way_is_answered() {
    let baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let session = client.new_session().await;
    let mut turn = client
        .one_shot(prompt(json!(1), &session, "/count 5000 size=500"))
        .await;
    turn.turn(&json!(1)).await;
    // Its answer comes after the history, which is not read before the session is gone.
    let load = json!({ "jsonrpc": "2.0", "id": 2, "method": "session/load", "params": { "sessionId": session, "cwd": "/tmp", "mcpServers": [] } });
    let mut stream = client.one_shot(load).await;
    let delete = request("d", "session/delete", &session);
    client.one_shot(delete).await.response(&json!("d")).await;
    let (history, answer) = stream.until_response(&json!(2)).await;
    assert!(answer["result"].is_object(), "{answer}");
    assert_eq!(
        history.iter().filter_map(|event| event.chunk()).count(),
        5000
    );
}
