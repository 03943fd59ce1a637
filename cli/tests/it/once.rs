//! Whatever is sent twice happens once.

use serde_json::json;

use crate::support::http::{JSON, ONE_SHOT, new_session, prompt};
use crate::support::sse::counted;
use crate::support::{Client, Cluster, Served};

#[tokio::test]
async fn a_prompt_posted_twice_is_one_turn() {
    let cluster = Cluster::start().await;
    let client = Client::initialize(&cluster.gateway_url(0)).await;
    let other = client.at(&cluster.gateway_url(1));
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    let message = prompt(json!(1), &session, "/count 20 delay=5");
    client.post(message.clone()).await;
    other.post(message.clone()).await;
    assert_eq!(stream.turn(&json!(1)).await, counted(20, 1));
    // Also after it has ended; the next prompt is the second one.
    client.post(message).await;
    client.post(prompt(json!(2), &session, "/count 2")).await;
    assert_eq!(stream.turn(&json!(2)).await, counted(2, 2));
}

#[tokio::test]
async fn a_one_shot_prompt_that_is_repeated_joins_its_turn() {
    let baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let session = client.new_session().await;
    let message = prompt(json!(1), &session, "/count 20 delay=5");
    let mut first = client.one_shot(message.clone()).await;
    let mut seen = Vec::new();
    while seen.len() < 5 {
        seen.extend(first.next().await.expect("the stream goes on").chunk());
    }
    let cursor = first.last_id.clone();
    drop(first);
    assert_eq!(
        client.one_shot(message.clone()).await.turn(&json!(1)).await,
        counted(20, 1)
    );
    // With a cursor it goes on from there.
    let headers = [JSON, ONE_SHOT, ("last-event-id", cursor.as_str())];
    let mut rest = client.stream(client.send(&headers, message.to_string()).await);
    seen.extend(rest.turn(&json!(1)).await);
    assert_eq!(seen, counted(20, 1));
}

#[tokio::test]
async fn a_session_is_created_once() {
    let cluster = Cluster::start().await;
    let client = Client::initialize(&cluster.url()).await;
    let mut stream = client.connection_stream(None).await;
    client.post(new_session(json!(1))).await;
    client.post(new_session(json!(1))).await;
    client.post(new_session(json!(2))).await;
    let mut answers =
        [stream.next().await, stream.next().await].map(|event| event.expect("an answer").message());
    answers.sort_by_key(|answer| answer["id"].as_u64());
    assert_eq!(
        [&answers[0]["id"], &answers[1]["id"]],
        [&json!(1), &json!(2)]
    );
    assert_ne!(
        answers[0]["result"]["sessionId"],
        answers[1]["result"]["sessionId"]
    );
}

#[tokio::test]
async fn an_id_that_is_used_for_something_else_is_refused() {
    let baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let session = client.new_session().await;
    client
        .one_shot(prompt(json!(1), &session, "one"))
        .await
        .turn(&json!(1))
        .await;
    let mut stream = client.one_shot(prompt(json!(1), &session, "two")).await;
    assert_eq!(stream.response(&json!(1)).await["error"]["code"], 4002);
}

#[tokio::test]
async fn an_event_travels_on_one_stream_only() {
    let baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let mut connection = client.connection_stream(None).await;
    client.post(new_session(json!("n"))).await;
    let answer = connection.response(&json!("n")).await;
    let session = answer["result"]["sessionId"]
        .as_str()
        .expect("an id")
        .to_owned();
    // First without, then with a stream of its own, then in a body, then on its own stream again.
    client.post(prompt(json!(1), &session, "/count 3")).await;
    assert_eq!(connection.turn(&json!(1)).await, counted(3, 1));
    let mut own = client.session_stream(&session, None).await;
    client.post(prompt(json!(2), &session, "/count 4")).await;
    assert_eq!(own.turn(&json!(2)).await, counted(4, 2));
    assert_eq!(
        client
            .one_shot(prompt(json!(3), &session, "/count 5"))
            .await
            .turn(&json!(3))
            .await,
        counted(5, 3)
    );
    client.post(prompt(json!(4), &session, "/count 6")).await;
    assert_eq!(own.turn(&json!(4)).await, counted(6, 4));
    // Nothing of turns 2 to 4 came this way.
    client.post(new_session(json!("last"))).await;
    let (between, _) = connection.until_response(&json!("last")).await;
    assert_eq!(between, []);
}

#[tokio::test]
async fn a_one_shot_request_cannot_be_joined_from_a_stream_and_says_so() {
    let baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let session = client.new_session().await;
    let mut stream = client.connection_stream(None).await;
    let message = prompt(json!(1), &session, "/count 3");
    client.one_shot(message.clone()).await.turn(&json!(1)).await;
    client.post(message).await;
    let answer = stream.response(&json!(1)).await;
    assert_eq!(answer["error"]["code"], 4002, "{answer}");
}
