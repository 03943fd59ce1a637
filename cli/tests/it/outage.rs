//! Redis is away: at the start, and later.

use reqwest::StatusCode;
use serde_json::json;

use crate::support::http::{JSON, prompt};
use crate::support::process::{baton, free_port};
use crate::support::sse::counted;
use crate::support::{Client, Cluster, until};

#[tokio::test]
async fn an_unreachable_redis_ends_the_start_with_69() {
    let store = format!("redis://127.0.0.1:{}", free_port());
    let dir = tempfile::TempDir::new().expect("a temporary directory");
    let mut worker = crate::support::process::Process::start(
        dir.path(),
        "worker",
        baton().args(["worker", "--store", &store]),
    );
    assert_eq!(worker.exit_status().await.code(), Some(69));
    let text = worker.output();
    assert!(
        text.contains(&store["redis://".len()..]) && text.contains("--store"),
        "{text}"
    );
}

#[tokio::test]
async fn a_redis_that_is_gone_is_waited_for_and_everything_goes_on_when_it_is_back() {
    let mut cluster = Cluster::start().await;
    let client = Client::initialize(&cluster.gateway_url(0)).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    client.post(prompt(json!(1), &session, "/count 5")).await;
    assert_eq!(stream.turn(&json!(1)).await, counted(5, 1));

    cluster.redis.process.kill();
    let ready = cluster.gateway_url(0).replace("/acp", "/readyz");
    let text = until("not ready", async || {
        let response = reqwest::get(&ready).await.ok()?;
        let away = response.status() == StatusCode::SERVICE_UNAVAILABLE;
        let text = response.text().await.ok()?;
        away.then_some(text)
    })
    .await;
    assert!(text.contains("waiting for the store"), "{text}");
    let refused = client
        .send(&[JSON], prompt(json!(2), &session, "/count 3").to_string())
        .await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.headers().contains_key("retry-after"));

    cluster.redis.restart().await;
    // The same stream, the same request: nothing was lost, nothing happens twice.
    client.post(prompt(json!(2), &session, "/count 3")).await;
    assert_eq!(stream.turn(&json!(2)).await, counted(3, 2));
}

#[tokio::test]
async fn a_turn_survives_a_restart_of_redis() {
    let mut cluster = Cluster::start().await;
    let client = Client::initialize(&cluster.gateway_url(0)).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    client
        .post(prompt(json!(1), &session, "/count 150 delay=10"))
        .await;
    let mut chunks = Vec::new();
    while chunks.len() < 30 {
        chunks.extend(stream.next().await.expect("the stream goes on").chunk());
    }
    cluster.redis.restart().await;
    chunks.extend(stream.turn(&json!(1)).await);
    assert_eq!(chunks, counted(150, 1));
}

#[tokio::test]
async fn without_any_worker_a_command_is_withdrawn_with_an_error() {
    let mut cluster = Cluster::start_with(&["--withdraw-after-ms", "300"]).await;
    let client = Client::initialize(&cluster.url()).await;
    let session = client.new_session().await;
    cluster.workers.iter_mut().for_each(|worker| worker.kill());
    let message = prompt(json!(1), &session, "/count 3");
    let answer = client.one_shot(message).await.response(&json!(1)).await;
    assert_eq!(answer["error"]["code"], 5003, "{answer}");
    let text = answer["error"]["message"].as_str().expect("a message");
    assert!(
        text.contains("no worker") && text.contains("safe"),
        "{text}"
    );
}
