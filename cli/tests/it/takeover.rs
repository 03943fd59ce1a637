//! A worker dies in the middle of a turn; another finishes it, and the client notices nothing.

use std::time::Instant;

use serde_json::json;

use crate::support::http::prompt;
use crate::support::sse::counted;
use crate::support::{Client, Cluster, Stream, until};

/// Which of the workers holds the session.
fn holder(cluster: &Cluster, session: &str) -> usize {
    let worker = cluster.redis.worker_of(session);
    let found = cluster
        .workers
        .iter()
        .position(|process| process.output().contains(&worker));
    found.unwrap_or_else(|| panic!("no worker logged the id {worker:?}"))
}

/// A turn that has said at least `seen` chunks, and those.
async fn under_way(url: &str, text: &str, seen: usize) -> (Client, String, Stream, Vec<String>) {
    let client = Client::initialize(url).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    client.post(prompt(json!(1), &session, text)).await;
    let mut chunks = Vec::new();
    while chunks.len() < seen {
        chunks.extend(stream.next().await.expect("the stream goes on").chunk());
    }
    (client, session, stream, chunks)
}

#[tokio::test]
async fn a_killed_workers_turn_goes_on_elsewhere() {
    let mut cluster = Cluster::start().await;
    let (_client, session, mut stream, mut chunks) =
        under_way(&cluster.url(), "/count 200 delay=10", 50).await;
    let holder = holder(&cluster, &session);
    cluster.workers[holder].kill();
    chunks.extend(stream.turn(&json!(1)).await);
    assert_eq!(chunks, counted(200, 1));
}

#[tokio::test]
async fn a_killed_gateways_streams_go_on_at_another() {
    let mut cluster = Cluster::start().await;
    let (client, session, mut stream, mut chunks) =
        under_way(&cluster.gateway_url(0), "/count 200 delay=10", 50).await;
    cluster.gateways[0].kill();
    // What had arrived before the cut counts; the cursor says how far that was.
    while let Some(event) = stream.next().await {
        chunks.extend(event.chunk());
    }
    let elsewhere = client.at(&cluster.gateway_url(1));
    let cursor = stream.last_id.clone();
    let mut stream = elsewhere.session_stream(&session, Some(&cursor)).await;
    chunks.extend(stream.turn(&json!(1)).await);
    assert_eq!(chunks, counted(200, 1));
}

#[tokio::test]
async fn a_stopping_worker_hands_its_turn_over() {
    let mut cluster = Cluster::start().await;
    let (_client, session, mut stream, mut chunks) =
        under_way(&cluster.url(), "/count 100 delay=10", 20).await;
    let holder = holder(&cluster, &session);
    let before = chunks.len();
    let began = Instant::now();
    cluster.workers[holder].signal("TERM");
    assert!(cluster.workers[holder].exit_status().await.success());
    let left = began.elapsed();
    while !cluster.workers[1 - holder]
        .output()
        .contains("resuming an interrupted turn")
    {
        chunks.extend(stream.next().await.expect("the stream goes on").chunk());
    }
    println!(
        "left after {left:?}, taken over after {:?}, {} chunks meanwhile",
        began.elapsed(),
        chunks.len() - before
    );
    chunks.extend(stream.turn(&json!(1)).await);
    assert_eq!(chunks, counted(100, 1));
}

#[tokio::test]
async fn a_worker_that_slept_through_its_lease_says_so_once() {
    let mut cluster = Cluster::start().await;
    let (client, session, mut stream, mut chunks) =
        under_way(&cluster.url(), "/count 300 delay=10", 20).await;
    let sleeper = holder(&cluster, &session);
    cluster.workers[sleeper].signal("STOP");
    chunks.extend(stream.turn(&json!(1)).await);
    assert_eq!(chunks, counted(300, 1));
    cluster.workers[sleeper].signal("CONT");
    until("the worker notices", async || {
        let log = cluster.workers[sleeper].output();
        log.contains("fenced").then_some(())
    })
    .await;
    // Whichever worker has the next turns, nothing of the old one is in them.
    for turn in 2..5 {
        client.post(prompt(json!(turn), &session, "/count 3")).await;
        assert_eq!(stream.turn(&json!(turn)).await, counted(3, turn));
    }
    cluster.workers[sleeper].signal("TERM");
    assert!(cluster.workers[sleeper].exit_status().await.success());
    let log = cluster.workers[sleeper].output();
    let about: Vec<_> = log.lines().filter(|line| line.contains(&session)).collect();
    assert!(about.len() == 1 && about[0].contains("fenced"), "{log}");
    assert!(!log.contains("ERROR"), "{log}");
}

#[tokio::test]
async fn a_question_outlives_the_worker_that_asked() {
    let mut cluster = Cluster::start().await;
    let client = Client::initialize(&cluster.url()).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    client
        .post(prompt(json!(1), &session, "/permission\n/count 3"))
        .await;
    let question = loop {
        let message = stream.next().await.expect("the stream goes on").message();
        if message["method"] == "session/request_permission" {
            break message;
        }
    };
    let holder = holder(&cluster, &session);
    cluster.workers[holder].kill();
    let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } });
    client
        .post(json!({ "jsonrpc": "2.0", "id": question["id"], "result": outcome }))
        .await;
    let mut expected = vec!["permission allow_once ".to_owned()];
    expected.extend(counted(3, 1));
    assert_eq!(stream.turn(&json!(1)).await, expected);
}
