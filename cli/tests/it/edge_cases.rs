//! Orders of events that are rare and must still come out right.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::http::{JSON, ONE_SHOT, load, prompt};
use crate::support::sse::counted;
use crate::support::{Client, Cluster, Event, Served};

fn set_mode(id: Value, session: &str, mode: &str) -> Value {
    let params = json!({ "sessionId": session, "modeId": mode });
    json!({ "jsonrpc": "2.0", "id": id, "method": "session/set_mode", "params": params })
}

fn resume(id: Value, session: &str) -> Value {
    let params = json!({ "sessionId": session, "cwd": "/tmp" });
    json!({ "jsonrpc": "2.0", "id": id, "method": "session/resume", "params": params })
}

/// A session with one finished turn of `chunks` chunks, made by somebody else.
async fn told(url: &str, chunks: u64) -> String {
    let author = Client::initialize(url).await;
    let session = author.new_session().await;
    let text = format!("/count {chunks}");
    let mut turn = author.one_shot(prompt(json!(1), &session, &text)).await;
    assert_eq!(turn.turn(&json!(1)).await, counted(chunks, 1));
    session
}

#[tokio::test]
async fn every_load_is_answered_with_the_whole_history() {
    let cluster = Cluster::start().await;
    let session = told(&cluster.url(), 2000).await;
    let client = Client::initialize(&cluster.url()).await;
    let mut stream = client.session_stream(&session, None).await;
    for id in [3, 4, 5] {
        client.post(load(json!(id), &session)).await;
    }
    client.post(resume(json!(6), &session)).await;
    for id in [3, 4, 5] {
        let (events, answer) = stream.until_response(&json!(id)).await;
        assert!(answer.get("result").is_some(), "{answer}");
        let chunks: Vec<_> = events.iter().filter_map(Event::chunk).collect();
        assert_eq!(chunks, counted(2000, 1), "load {id}");
    }
    assert_eq!(stream.until_response(&json!(6)).await.0, []);
}

#[tokio::test]
async fn a_one_shot_load_is_not_disturbed_by_another() {
    let baton = Served::start().await;
    let session = told(&baton.url(), 5000).await;
    let client = Client::initialize(&baton.url()).await;
    let mut stream = client.session_stream(&session, None).await;
    let mut body = client.one_shot(load(json!(1), &session)).await;
    body.next().await.expect("the history begins");
    client.post(load(json!(2), &session)).await;
    let (events, _) = stream.until_response(&json!(2)).await;
    assert_eq!(events.iter().filter_map(Event::chunk).count(), 5000);
    let (events, _) = body.until_response(&json!(1)).await;
    assert_eq!(events.iter().filter_map(Event::chunk).count(), 5000);
    assert_eq!(body.next().await, None, "the body ends with the answer");
}

#[tokio::test]
async fn a_load_does_not_swallow_earlier_answers() {
    let baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let session = client.new_session().await;
    // Answered while no stream was open; then the client loads, then it looks.
    client.post(prompt(json!(2), &session, "/count 3")).await;
    client.post(prompt(json!(3), &session, "/count 2")).await;
    client
        .one_shot(prompt(json!(4), &session, "done"))
        .await
        .turn(&json!(4))
        .await;
    client.post(load(json!(5), &session)).await;
    let mut stream = client.connection_stream(None).await;
    assert_eq!(stream.turn(&json!(2)).await, counted(3, 1));
    assert_eq!(stream.turn(&json!(3)).await, counted(2, 2));
    let (events, _) = stream.until_response(&json!(5)).await;
    let replayed: Vec<_> = events.iter().filter_map(Event::chunk).collect();
    assert_eq!(
        replayed,
        [counted(3, 1), counted(2, 2), vec!["done ".into()]].concat()
    );
}

#[tokio::test]
async fn a_prompt_is_recognised_after_many_answers() {
    let baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let session = client.new_session().await;
    let message = prompt(json!(1), &session, "/count 20 delay=10");
    let mut body = client.one_shot(message.clone()).await;
    for number in 0..60 {
        let id = format!("{session}:1.{number}");
        client
            .post(json!({ "jsonrpc": "2.0", "id": id, "result": {} }))
            .await;
    }
    assert_eq!(body.turn(&json!(1)).await, counted(20, 1));
    assert_eq!(
        client.one_shot(message).await.turn(&json!(1)).await,
        counted(20, 1)
    );
    assert_eq!(
        client
            .one_shot(prompt(json!(2), &session, "/count 1"))
            .await
            .turn(&json!(2))
            .await,
        counted(1, 2)
    );
}

#[tokio::test]
async fn an_answer_that_cannot_be_understood_ends_the_wait() {
    let baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let session = client.new_session().await;
    let mut body = client
        .one_shot(prompt(json!(1), &session, "/permission"))
        .await;
    let question = loop {
        let message = body.next().await.expect("the turn goes on").message();
        if message["method"] == "session/request_permission" {
            break message;
        }
    };
    client
        .post(json!({ "jsonrpc": "2.0", "id": question["id"], "error": { "code": -32000 } }))
        .await;
    let answer = body.response(&json!(1)).await;
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
}

#[tokio::test]
async fn a_cursor_of_somebody_elses_history_is_a_reset() {
    let baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    client.post(prompt(json!(1), &session, "/count 5")).await;
    stream.next().await.expect("a chunk");
    let cursor = stream.last_id.clone();
    let other = Client::initialize(&baton.url()).await;
    let mut stream = other.session_stream(&session, Some(&cursor)).await;
    assert_eq!(stream.next().await.expect("an event").event, "reset");
}

#[tokio::test]
async fn from_the_beginning_means_answers_too() {
    let baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    client.post(set_mode(json!(1), &session, "ask")).await;
    assert_eq!(stream.response(&json!(1)).await["result"], json!({}));
    let mut again = client.session_stream(&session, Some("0")).await;
    assert_eq!(again.response(&json!(1)).await["result"], json!({}));
}

#[tokio::test]
async fn loading_during_ones_own_one_shot_turn_delivers_nothing_twice() {
    let baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    let mut body = client
        .one_shot(prompt(json!(1), &session, "/count 40 delay=10"))
        .await;
    let mut chunks = Vec::new();
    while chunks.len() < 5 {
        chunks.extend(body.next().await.expect("the turn goes on").chunk());
    }
    client.post(load(json!(2), &session)).await;
    let (history, _) = stream.until_response(&json!(2)).await;
    assert!(history.iter().filter_map(Event::chunk).count() >= 5);
    chunks.extend(body.turn(&json!(1)).await);
    assert_eq!(chunks, counted(40, 1));
    // The rest of that turn came in the body alone; the next one comes on the stream.
    client.post(prompt(json!(3), &session, "/count 2")).await;
    assert_eq!(stream.turn(&json!(3)).await, counted(2, 2));
}

#[tokio::test]
async fn a_cancel_that_asks_for_an_answer_gets_one() {
    let baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let session = client.new_session().await;
    let mut body = client
        .one_shot(prompt(json!(1), &session, "/count 1000 delay=20"))
        .await;
    body.next().await.expect("the turn goes on");
    let cancel = json!({ "jsonrpc": "2.0", "id": 2, "method": "session/cancel", "params": { "sessionId": session } });
    let mut cancelled = client.one_shot(cancel).await;
    assert_eq!(
        body.response(&json!(1)).await["result"]["stopReason"],
        "cancelled"
    );
    assert_eq!(cancelled.response(&json!(2)).await["result"], json!({}));
}

#[tokio::test]
async fn prompts_wait_for_their_turn_and_a_cancel_concerns_all_before_it() {
    let cluster = Cluster::start().await;
    let client = Client::initialize(&cluster.url()).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    client
        .post(prompt(json!(1), &session, "/count 3 delay=20"))
        .await;
    client.post(prompt(json!(2), &session, "/count 2")).await;
    assert_eq!(stream.turn(&json!(1)).await, counted(3, 1));
    assert_eq!(stream.turn(&json!(2)).await, counted(2, 2));
    client
        .post(prompt(json!(3), &session, "/count 1000 delay=20"))
        .await;
    client.post(prompt(json!(4), &session, "/count 5")).await;
    client.post(json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } })).await;
    for id in [3, 4] {
        let answer = stream.response(&json!(id)).await;
        assert_eq!(answer["result"]["stopReason"], "cancelled");
    }
}

#[tokio::test]
async fn looking_at_a_stream_does_not_take_it_away() {
    let baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    let head = reqwest::Client::new()
        .head(baton.url())
        .header("acp-connection-id", &client.token);
    let answer = head
        .header("acp-session-id", &session)
        .send()
        .await
        .expect("an answer");
    assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED);
    client.post(prompt(json!(1), &session, "/count 3")).await;
    assert_eq!(stream.turn(&json!(1)).await, counted(3, 1));
}

#[tokio::test]
async fn a_page_from_elsewhere_is_refused() {
    let baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let session = client.new_session().await;
    let body = prompt(json!(1), &session, "hello").to_string();
    let foreign = client
        .send(&[JSON, ("origin", "https://evil.example")], body.clone())
        .await;
    assert_eq!(foreign.status(), StatusCode::FORBIDDEN);
    let local = client
        .send(&[JSON, ONE_SHOT, ("origin", "http://localhost:3000")], body)
        .await;
    assert_eq!(client.stream(local).turn(&json!(1)).await, ["hello "]);
    let socket = client
        .get(&[
            ("origin", "https://evil.example"),
            ("upgrade", "websocket"),
            ("connection", "upgrade"),
        ])
        .await;
    assert_eq!(socket.status(), StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_turn_that_never_pauses_can_be_cancelled() {
    let baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    client
        .post(prompt(json!(1), &session, "/count 1000000 size=200"))
        .await;
    stream.next().await.expect("the turn has begun");
    client.post(json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } })).await;
    let answer = stream.response(&json!(1)).await;
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
}
