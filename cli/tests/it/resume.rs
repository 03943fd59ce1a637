//! A cut stream goes on where it was, on any replica; where it can't, the client is told.

use serde_json::json;

use crate::support::http::{load, new_session, prompt};
use crate::support::sse::counted;
use crate::support::{Client, Cluster, Event, Served};

#[tokio::test]
async fn a_session_stream_goes_on_at_the_other_gateway() {
    let cluster = Cluster::start().await;
    let first = Client::initialize(&cluster.gateway_url(0)).await;
    let second = first.at(&cluster.gateway_url(1));
    let session = first.new_session().await;
    let mut stream = first.session_stream(&session, None).await;
    first
        .post(prompt(json!(1), &session, "/count 100 delay=5"))
        .await;
    let mut chunks = Vec::new();
    // Cut again and again, at ever other places, from one gateway to the other.
    for round in 0..6 {
        for _ in 0..7 + round {
            chunks.extend(stream.next().await.expect("the stream goes on").chunk());
        }
        let cursor = stream.last_id.clone();
        drop(stream);
        let client = if round % 2 == 0 { &second } else { &first };
        stream = client.session_stream(&session, Some(&cursor)).await;
    }
    chunks.extend(stream.turn(&json!(1)).await);
    assert_eq!(chunks, counted(100, 1));
}

#[tokio::test]
async fn a_connection_stream_goes_on_at_the_other_gateway() {
    let cluster = Cluster::start().await;
    let first = Client::initialize(&cluster.gateway_url(0)).await;
    let second = first.at(&cluster.gateway_url(1));
    let mut stream = first.connection_stream(None).await;
    first.post(new_session(json!("a"))).await;
    let answer = stream.response(&json!("a")).await;
    let session = answer["result"]["sessionId"]
        .as_str()
        .expect("an id")
        .to_owned();
    // No session stream: the turn comes on the connection's.
    first
        .post(prompt(json!(1), &session, "/count 60 delay=5"))
        .await;
    let mut chunks = Vec::new();
    for round in 0..4 {
        for _ in 0..7 {
            chunks.extend(stream.next().await.expect("the stream goes on").chunk());
        }
        let cursor = stream.last_id.clone();
        drop(stream);
        let client = if round % 2 == 0 { &second } else { &first };
        stream = client.connection_stream(Some(&cursor)).await;
    }
    chunks.extend(stream.turn(&json!(1)).await);
    assert_eq!(chunks, counted(60, 1));
}

#[tokio::test]
async fn a_load_that_was_cut_goes_on_and_is_answered_once() {
    let cluster = Cluster::start().await;
    let author = Client::initialize(&cluster.gateway_url(0)).await;
    let session = author.new_session().await;
    assert_eq!(
        author
            .one_shot(prompt(json!(1), &session, "/count 300"))
            .await
            .turn(&json!(1))
            .await,
        counted(300, 1)
    );
    let reader = Client::initialize(&cluster.gateway_url(0)).await;
    let mut stream = reader.session_stream(&session, None).await;
    reader.post(load(json!(7), &session)).await;
    let mut chunks = Vec::new();
    while chunks.len() < 100 {
        chunks.extend(stream.next().await.expect("the stream goes on").chunk());
    }
    let cursor = stream.last_id.clone();
    drop(stream);
    let elsewhere = reader.at(&cluster.gateway_url(1));
    let mut stream = elsewhere.session_stream(&session, Some(&cursor)).await;
    let (events, answer) = stream.until_response(&json!(7)).await;
    chunks.extend(events.iter().filter_map(Event::chunk));
    assert_eq!(chunks, counted(300, 1));
    assert_eq!(answer["result"]["modes"]["currentModeId"], "code");
    // After the answer the stream is live, and the answer does not come again.
    let cursor = stream.last_id.clone();
    drop(stream);
    let mut stream = reader.session_stream(&session, Some(&cursor)).await;
    reader.post(prompt(json!(8), &session, "/count 3")).await;
    assert_eq!(stream.turn(&json!(8)).await, counted(3, 2));
}

#[tokio::test]
async fn a_stream_that_was_cut_before_the_load_goes_on_with_it() {
    let baton = Served::start().await;
    let author = Client::initialize(&baton.url()).await;
    let session = author.new_session().await;
    let reader = Client::initialize(&baton.url()).await;
    let mut stream = reader.session_stream(&session, None).await;
    let start = stream.block().await.expect("a starting cursor");
    // The session goes on before the reader joins it.
    let mut body = author
        .one_shot(prompt(json!(1), &session, "/count 5"))
        .await;
    assert_eq!(body.turn(&json!(1)).await, counted(5, 1));
    reader.post(load(json!(7), &session)).await;
    // Cut before anything of it arrived.
    drop(stream);
    let mut stream = reader.session_stream(&session, Some(&start.id)).await;
    let (events, answer) = stream.until_response(&json!(7)).await;
    assert!(answer["result"].is_object(), "{answer}");
    assert!(events.iter().all(|event| event.event.is_empty()));
    let chunks: Vec<_> = events.iter().filter_map(Event::chunk).collect();
    assert_eq!(chunks, counted(5, 1));
}

#[tokio::test]
async fn without_a_cursor_a_stream_goes_on_after_what_was_written() {
    let baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    client.post(prompt(json!(1), &session, "/count 5")).await;
    assert_eq!(stream.turn(&json!(1)).await, counted(5, 1));
    drop(stream);
    // The gateway notices the cut and records it; until then the new stream simply takes over.
    let mut stream = crate::support::within("the end of the stream is recorded", async {
        loop {
            let metrics = reqwest::get(baton.url().replace("/acp", "/metrics"))
                .await
                .expect("metrics")
                .text()
                .await;
            if metrics
                .expect("metrics")
                .contains("baton_gateway_streams 0\n")
            {
                break client.session_stream(&session, None).await;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
    client.post(prompt(json!(2), &session, "/count 3")).await;
    assert_eq!(stream.turn(&json!(2)).await, counted(3, 2));
}

#[tokio::test]
async fn whoever_takes_a_stream_over_without_a_cursor_hears_nothing_twice() {
    let cluster = Cluster::start().await;
    let first = Client::initialize(&cluster.gateway_url(0)).await;
    let second = first.at(&cluster.gateway_url(1));
    let mut stream = first.connection_stream(None).await;
    first.post(new_session(json!("a"))).await;
    let answer = stream.response(&json!("a")).await;
    let session = answer["result"]["sessionId"].as_str().expect("an id");
    first.post(prompt(json!(1), session, "/count 5")).await;
    assert_eq!(stream.turn(&json!(1)).await, counted(5, 1));
    // At once: nobody has recorded yet how far the first one was written.
    let mut stream = second.connection_stream(None).await;
    second.post(prompt(json!(2), session, "/count 3")).await;
    assert_eq!(stream.turn(&json!(2)).await, counted(3, 2));
    let mut stream = second.session_stream(session, None).await;
    second.post(prompt(json!(3), session, "/count 4")).await;
    assert_eq!(stream.turn(&json!(3)).await, counted(4, 3));
    let mut stream = first.session_stream(session, None).await;
    first.post(prompt(json!(4), session, "/count 2")).await;
    assert_eq!(stream.turn(&json!(4)).await, counted(2, 4));
}

#[tokio::test]
async fn zero_means_from_where_the_connection_joined() {
    let baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    client.post(prompt(json!(1), &session, "/count 5")).await;
    assert_eq!(stream.turn(&json!(1)).await, counted(5, 1));
    let mut again = client.session_stream(&session, Some("0")).await;
    assert_eq!(again.turn(&json!(1)).await, counted(5, 1));
    assert_eq!(stream.next().await, None, "the newer stream takes over");
}

#[tokio::test]
async fn a_cursor_that_cannot_be_honoured_is_an_explicit_reset() {
    let baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    client.post(prompt(json!(1), &session, "/count 5")).await;
    stream.turn(&json!(1)).await;
    let good = stream.last_id.clone();
    let foreign = format!("{}.deadbeef", good.split('.').next().expect("seq.nonce"));
    for cursor in ["999999.00000000", "rubbish"] {
        let mut stream = client.session_stream(&session, Some(cursor)).await;
        let event = stream.next().await.expect("an event");
        assert_eq!(event.event, "reset", "{cursor}");
        assert_eq!(event.id, good, "the reset says where the stream goes on");
    }
    // Whoever may have seen words that are lost is told the last turns again: an answer may be among them.
    let mut stream = client.session_stream(&session, Some(&foreign)).await;
    let event = stream.next().await.expect("an event");
    assert_eq!(event.event, "reset", "{foreign}");
    assert_eq!(stream.turn(&json!(1)).await, counted(5, 1));
    let mut stream = client.connection_stream(Some("77~1:5.00000000")).await;
    assert_eq!(stream.next().await.expect("an event").event, "reset");
}
