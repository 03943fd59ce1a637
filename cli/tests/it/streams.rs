//! How streams are opened, shared and left.

use reqwest::StatusCode;
use serde_json::json;

use crate::support::http::{load, new_session, prompt};
use crate::support::sse::counted;
use crate::support::{Client, Cluster, Event, Served};

#[tokio::test]
async fn a_client_that_detached_is_welcome_back() {
    let baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let mut stream = client.connection_stream(None).await;
    client.post(new_session(json!(1))).await;
    let answer = stream.response(&json!(1)).await;
    let session = answer["result"]["sessionId"]
        .as_str()
        .expect("an id")
        .to_owned();
    client
        .post(prompt(json!(2), &session, "/count 30 delay=10"))
        .await;
    let mut chunks = Vec::new();
    while chunks.len() < 5 {
        chunks.extend(stream.next().await.expect("the stream goes on").chunk());
    }
    assert_eq!(client.delete().await, StatusCode::ACCEPTED);
    while let Some(event) = stream.next().await {
        chunks.extend(event.chunk());
    }
    assert_eq!(client.delete().await, StatusCode::NOT_FOUND, "it is over");
    // The turn went on without it, and whoever comes back finds all of it.
    let seen = chunks.len();
    let client = Client::initialize(&baton.url()).await;
    let mut stream = client.connection_stream(None).await;
    client.post(load(json!(3), &session)).await;
    let mut told = Vec::new();
    while told.len() < 30 {
        told.extend(stream.next().await.expect("the stream goes on").chunk());
    }
    assert_eq!(told, counted(30, 1));
    assert_eq!(chunks, told[..seen]);
}

#[tokio::test]
async fn streams_of_sessions_that_were_not_opened_are_limited() {
    let baton = Served::start().await;
    let owner = Client::initialize(&baton.url()).await;
    let client = Client::initialize(&baton.url()).await;
    let session = owner.new_session().await;
    // One that can be loaded later, and some that do not exist.
    let mut streams = vec![client.session_stream(&session, None).await];
    for number in 1..16 {
        let unknown = format!("000-{number:022}");
        streams.push(client.session_stream(&unknown, None).await);
    }
    let refused = client
        .get(&[("acp-session-id", "000-9999999999999999999999")])
        .await;
    assert_eq!(refused.status(), StatusCode::NOT_FOUND);
    // Loading one makes room for another.
    client.post(load(json!(1), &session)).await;
    assert!(streams[0].response(&json!(1)).await.get("result").is_some());
    client
        .session_stream("000-9999999999999999999999", None)
        .await;
}

#[tokio::test]
async fn a_question_that_is_asked_again_survives_a_cut() {
    let cluster = Cluster::start().await;
    let author = Client::initialize(&cluster.gateway_url(0)).await;
    let session = author.new_session().await;
    let mut stream = author.session_stream(&session, None).await;
    author.post(prompt(json!(1), &session, "/permission")).await;
    let question = loop {
        let message = stream.next().await.expect("the stream goes on").message();
        if message["method"] == "session/request_permission" {
            break message;
        }
    };
    // Another client takes over and is cut off right after the answer to its load.
    let heir = Client::initialize(&cluster.gateway_url(0)).await;
    let mut stream = heir.session_stream(&session, None).await;
    heir.post(load(json!(7), &session)).await;
    let (_, answer) = stream.until_response(&json!(7)).await;
    assert_eq!(answer["result"]["modes"]["currentModeId"], "code");
    let cursor = stream.last_id.clone();
    drop(stream);
    let heir = heir.at(&cluster.gateway_url(1));
    let mut stream = heir.session_stream(&session, Some(&cursor)).await;
    let again = stream.next().await.expect("the question").message();
    assert_eq!(again, question, "the same question under the same id");
    let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } });
    heir.post(json!({ "jsonrpc": "2.0", "id": again["id"], "result": outcome }))
        .await;
    let said = stream.next().await.expect("the turn goes on");
    assert_eq!(said.message()["params"]["update"]["status"], "completed");
    let said = stream.next().await.expect("the turn goes on");
    assert_eq!(said.chunk().as_deref(), Some("permission allow_once "));
}

#[tokio::test]
async fn an_observer_sees_the_turns_of_others_but_not_their_answers() {
    let cluster = Cluster::start().await;
    let author = Client::initialize(&cluster.gateway_url(0)).await;
    let session = author.new_session().await;
    let observer = Client::initialize(&cluster.gateway_url(1)).await;
    let mut stream = observer.session_stream(&session, None).await;
    observer.post(load(json!(1), &session)).await;
    stream.response(&json!(1)).await;
    author
        .one_shot(prompt(json!(5), &session, "/count 3"))
        .await
        .turn(&json!(5))
        .await;
    observer.post(prompt(json!(2), &session, "/count 2")).await;
    let (events, _) = stream.until_response(&json!(2)).await;
    let kinds: Vec<_> = events.iter().map(kind).collect();
    let mut expected = vec!["user_message_chunk"];
    expected.extend(["agent_message_chunk"; 5]);
    assert_eq!(
        kinds, expected,
        "the author's words and the agent's, then the agent's own; no answer of others"
    );
}

fn kind(event: &Event) -> String {
    let message = event.message();
    message["params"]["update"]["sessionUpdate"]
        .as_str()
        .unwrap_or("not an update")
        .to_owned()
}

#[tokio::test]
async fn http2_without_tls_works_on_the_same_port() {
    let baton = Served::start().await;
    let http2 = reqwest::Client::builder()
        .http2_prior_knowledge()
        .build()
        .expect("a client");
    let client = Client::initialize(&baton.url()).await.over(http2);
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    client
        .post(prompt(json!(1), &session, "/count 20 delay=2"))
        .await;
    assert_eq!(stream.turn(&json!(1)).await, counted(20, 1));
}
