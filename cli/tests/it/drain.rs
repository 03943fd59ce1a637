//! A gateway that is told to stop cuts nobody off: streams end between turns, requests are served.

use reqwest::StatusCode;
use serde_json::json;

use crate::support::http::{JSON, new_session, prompt};
use crate::support::sse::counted;
use crate::support::websocket::{Socket, initialize};
use crate::support::{Client, Cluster, Served, Stream};

async fn probe(url: &str, path: &str) -> (StatusCode, String) {
    let response = reqwest::get(url.replace("/acp", path))
        .await
        .expect("an answer");
    (response.status(), response.text().await.expect("a body"))
}

/// A turn whose first chunk has arrived.
async fn begun(client: &Client, session: &str, id: u64, text: &str) -> (Stream, Vec<String>) {
    let mut stream = client.session_stream(session, None).await;
    client.post(prompt(json!(id), session, text)).await;
    let first = stream.next().await.expect("the stream goes on").chunk();
    (stream, first.into_iter().collect())
}

#[tokio::test]
async fn streams_end_between_turns_and_requests_are_served_meanwhile() {
    let mut cluster = Cluster::start().await;
    let url = cluster.gateway_url(0);
    let idle = Client::initialize(&url).await;
    let idle_session = idle.new_session().await;
    let mut idle_stream = idle.session_stream(&idle_session, None).await;
    let mut idle_connection = idle.connection_stream(None).await;
    let busy = Client::initialize(&url).await;
    let busy_session = busy.new_session().await;
    let mut sibling = busy.session_stream(&busy.new_session().await, None).await;
    let (mut busy_stream, mut chunks) = begun(&busy, &busy_session, 1, "/count 100 delay=60").await;
    let one_shot = Client::initialize(&url).await;
    let session = one_shot.new_session().await;
    let mut body = one_shot
        .one_shot(prompt(json!(1), &session, "/count 100 delay=50"))
        .await;

    cluster.gateways[0].signal("TERM");
    // The other streams of a client whose turn runs stay, too.
    idle_stream.ends().await;
    assert!(idle_stream.retries.len() == 2, "at its begin and its end");
    idle_connection.ends().await;
    assert_eq!(
        probe(&url, "/readyz").await,
        (StatusCode::SERVICE_UNAVAILABLE, "draining\n".into())
    );
    assert_eq!(probe(&url, "/healthz").await.0, StatusCode::OK);
    let response = idle
        .send(
            &[JSON],
            prompt(json!(9), &idle_session, "/count 3").to_string(),
        )
        .await;
    assert_eq!(response.status(), StatusCode::ACCEPTED);
    assert_eq!(response.headers()["connection"], "close");

    chunks.extend(busy_stream.turn(&json!(1)).await);
    assert_eq!(chunks, counted(100, 1));
    busy_stream.ends().await;
    sibling.ends().await;
    assert_eq!(body.turn(&json!(1)).await, counted(100, 1));
    assert!(cluster.gateways[0].exit_status().await.success());
    let log = cluster.gateways[0].output();
    assert!(!log.contains("the grace is over"), "{log}");
    // What was accepted meanwhile was done, and waits: on the connection's stream, or on the session's
    // own if the end of that was not yet known when it was accepted.
    let elsewhere = idle.at(&cluster.gateway_url(1));
    let cursors = [&idle_connection.last_id, &idle_stream.last_id];
    let mut stream = elsewhere.connection_stream(Some(cursors[0])).await;
    let own = elsewhere.session_stream(&idle_session, Some(cursors[1]));
    let mut own = own.await;
    let answer = json!(9);
    let said = tokio::select! {
        said = stream.turn(&answer) => said,
        said = own.turn(&answer) => said,
    };
    assert_eq!(said, counted(3, 1));
}

#[tokio::test]
async fn a_socket_is_closed_after_the_answer() {
    let mut cluster = Cluster::start().await;
    let mut idle = Socket::open(&cluster.gateway_url(0), false).await;
    idle.send(initialize()).await;
    idle.next().await;
    let mut socket = Socket::open(&cluster.gateway_url(0), true).await;
    socket.send(initialize()).await;
    socket.next().await;
    socket.send(new_session(json!(1))).await;
    let session = socket.next().await["message"]["result"]["sessionId"].clone();
    let session = session.as_str().expect("an id");
    socket
        .send(prompt(json!(2), session, "/count 50 delay=50"))
        .await;
    socket.next().await;
    cluster.gateways[0].signal("TERM");
    assert_eq!(idle.closed().await, 1001);
    for _ in 1..50 {
        socket.next().await;
    }
    assert_eq!(socket.next().await["message"]["id"], 2);
    assert_eq!(socket.closed().await, 1001);
    assert!(cluster.gateways[0].exit_status().await.success());
}

#[tokio::test]
async fn a_socket_has_the_whole_grace_for_its_turn() {
    let mut cluster = Cluster::start_with(&["--grace-ms", "10000"]).await;
    let mut socket = Socket::open(&cluster.gateway_url(0), true).await;
    socket.send(initialize()).await;
    socket.next().await;
    socket.send(new_session(json!(1))).await;
    let session = socket.next().await["message"]["result"]["sessionId"].clone();
    let text = "/count 70 delay=100";
    socket
        .send(prompt(json!(2), session.as_str().expect("an id"), text))
        .await;
    socket.next().await;
    cluster.gateways[0].signal("TERM");
    for _ in 1..70 {
        assert!(socket.next().await["message"]["params"].is_object());
    }
    assert_eq!(socket.next().await["message"]["id"], 2);
    assert_eq!(socket.closed().await, 1001);
    assert!(cluster.gateways[0].exit_status().await.success());
}

#[tokio::test]
async fn who_arrives_late_is_served_like_everybody() {
    let cluster = Cluster::start().await;
    let url = cluster.gateway_url(0);
    let early = Client::initialize(&url).await;
    let session = early.new_session().await;
    // Keeps the gateway there.
    let (_stream, _) = begun(&early, &session, 1, "/count 200 delay=50").await;
    cluster.gateways[0].signal("TERM");
    let late = Client::initialize(&url).await;
    let mut connection = late.connection_stream(None).await;
    late.post(new_session(json!(1))).await;
    let answer = connection.response(&json!(1)).await;
    let session = answer["result"]["sessionId"].as_str().expect("an id");
    let (mut stream, mut chunks) = begun(&late, session, 2, "/count 20 delay=20").await;
    chunks.extend(stream.turn(&json!(2)).await);
    assert_eq!(chunks, counted(20, 1));
    stream.ends().await;
    connection.ends().await;
}

#[tokio::test]
async fn after_the_grace_streams_are_cut_and_their_places_recorded() {
    let mut cluster = Cluster::start_with(&["--grace-ms", "400"]).await;
    let client = Client::initialize(&cluster.gateway_url(0)).await;
    let session = client.new_session().await;
    let (mut stream, mut chunks) = begun(&client, &session, 1, "/count 150 delay=20").await;
    cluster.gateways[0].signal("TERM");
    while let Some(event) = stream.next().await {
        chunks.extend(event.chunk());
    }
    assert!(chunks.len() < 150, "cut in the middle of the turn");
    assert!(cluster.gateways[0].exit_status().await.success());
    assert!(cluster.gateways[0].output().contains("the grace is over"));
    // Without a cursor, as an SDK client comes back.
    let elsewhere = client.at(&cluster.gateway_url(1));
    let mut stream = elsewhere.session_stream(&session, None).await;
    chunks.extend(stream.turn(&json!(1)).await);
    assert_eq!(chunks, counted(150, 1));
}

#[tokio::test]
async fn on_a_laptop_sigterm_finishes_the_turn_and_a_second_signal_ends_it() {
    let mut baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let session = client.new_session().await;
    let (mut stream, mut chunks) = begun(&client, &session, 1, "/count 20 delay=20").await;
    baton.process.signal("TERM");
    chunks.extend(stream.turn(&json!(1)).await);
    assert_eq!(chunks, counted(20, 1));
    stream.ends().await;
    assert!(baton.process.exit_status().await.success());

    let mut baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let session = client.new_session().await;
    let (mut stream, _) = begun(&client, &session, 1, "/count 1000000 delay=20").await;
    baton.process.signal("INT");
    baton.process.signal("TERM");
    while stream.next().await.is_some() {}
    assert!(baton.process.exit_status().await.success());
    assert!(baton.process.output().contains("at once"));
}

/// The grace of SIGTERM is five seconds.
#[tokio::test]
async fn on_a_laptop_ctrl_c_does_not_wait_for_the_turn() {
    let mut baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let session = client.new_session().await;
    let (mut stream, _) = begun(&client, &session, 1, "/count 1000000 delay=20").await;
    baton.process.signal("INT");
    while stream.next().await.is_some() {}
    assert!(baton.process.exit_status().await.success());
    let said = baton.process.output();
    assert!(
        said.contains("the worker has handed all sessions over"),
        "{said}"
    );
    assert!(!said.contains("the grace is over"), "{said}");
}

#[tokio::test]
async fn on_a_laptop_the_running_turn_is_handed_over_too() {
    let mut baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let session = client.new_session().await;
    // Longer than the grace.
    let (mut stream, _) = begun(&client, &session, 1, "/count 1000000 delay=20").await;
    baton.process.signal("TERM");
    while stream.next().await.is_some() {}
    assert!(baton.process.exit_status().await.success());
    let said = baton.process.output();
    assert!(
        said.contains("the worker has handed all sessions over"),
        "{said}"
    );
}
