//! How an operator's Redis shows: refused logins, risky settings, too little memory.

use std::process::{Command, Output};

use serde_json::json;

use crate::support::http::{new_session, prompt};
use crate::support::process::{Process, baton, free_port};
use crate::support::sse::counted;
use crate::support::{Client, Cluster, Redis, until};

fn configure(redis: &Redis, words: &[&str]) {
    let mut cli = Command::new("redis-cli");
    cli.args(["-p", &redis.port.to_string(), "CONFIG", "SET"]);
    let output = cli.args(words).output().expect("redis-cli runs");
    assert!(output.stdout.starts_with(b"OK"), "{output:?}");
}

fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8(both).expect("text")
}

#[tokio::test]
async fn a_refused_login_ends_the_start_with_69_and_no_password_is_ever_shown() {
    let redis = Redis::start().await;
    let url = |scheme: &str| format!("{scheme}://someone:verysecret@127.0.0.1:{}", redis.port);
    let run = |arguments: &[&str], url: String| {
        let output = baton()
            .args(arguments)
            .env("BATON_STORE", url)
            .output()
            .expect("baton runs");
        let shown = text(&output);
        assert!(!shown.contains("verysecret"), "{shown}");
        (output.status.code(), shown)
    };
    let (code, shown) = run(&["worker"], url("redis"));
    assert_eq!(code, Some(69), "{shown}");
    assert!(shown.contains("refuses the login"), "{shown}");
    for wrong in ["http", "redis+sentinel", "redis+what"] {
        let (code, shown) = run(&["worker"], url(wrong));
        assert_eq!(code, Some(64), "{shown}");
        assert!(shown.contains("--store"), "{shown}");
    }
    let (code, _) = run(&["worker", "--help"], url("redis"));
    assert_eq!(code, Some(0));
    let ca = ["worker", "--store-ca", "/nowhere/ca.pem"];
    let (code, shown) = run(&ca, url("rediss"));
    assert_eq!(code, Some(64), "{shown}");
    assert!(shown.contains("--store-ca /nowhere/ca.pem"), "{shown}");
}

#[test]
fn what_is_wrong_with_a_file_for_the_store_is_said_without_its_content() {
    let dir = tempfile::TempDir::new().expect("a temporary directory");
    let file = dir.path().join("url");
    let run = |more: &[&str]| {
        let mut command = baton();
        command
            .env_remove("BATON_STORE")
            .args(["worker", "--store-file"]);
        let output = command.arg(&file).args(more).output().expect("baton runs");
        assert_eq!(output.status.code(), Some(64), "{output:?}");
        text(&output)
    };
    assert!(run(&[]).contains("--store-file"), "it is not there");
    std::fs::write(&file, "http://me:verysecret@x").expect("writable");
    let shown = run(&[]);
    assert!(
        shown.contains("--store-file") && shown.contains("must be redis://"),
        "{shown}"
    );
    assert!(!shown.contains("verysecret"), "{shown}");
    let shown = run(&["--store", "redis://x"]);
    assert!(
        shown.contains("--store and --store-file: give one of them"),
        "{shown}"
    );
    let neither = baton().env_remove("BATON_STORE").arg("worker").output();
    let neither = neither.expect("baton runs");
    assert_eq!(neither.status.code(), Some(64));
    assert!(text(&neither).contains("--store"), "{neither:?}");
}

#[tokio::test]
async fn settings_that_lose_sessions_are_warned_of_once() {
    let redis = Redis::start().await;
    configure(&redis, &["appendonly", "no"]);
    configure(&redis, &["maxmemory", "1gb"]);
    configure(&redis, &["maxmemory-policy", "allkeys-lru"]);
    let dir = tempfile::TempDir::new().expect("a temporary directory");
    let mut command = baton();
    command.args(["worker", "--store", &redis.store()]);
    let worker = Process::start(dir.path(), "worker", &mut command);
    until("the worker has started", async || {
        worker.output().contains("takes sessions").then_some(())
    })
    .await;
    let shown = worker.output();
    for sentence in ["set appendonly yes", "maxmemory-policy is allkeys-lru"] {
        assert_eq!(shown.matches(sentence).count(), 1, "{shown}");
    }
}

#[tokio::test]
async fn replicated_without_a_replica_ends_the_start_with_69() {
    let redis = Redis::start().await;
    let output = baton()
        .args(["worker", "--durability", "replicated", "--store"])
        .arg(redis.store())
        .output()
        .expect("baton runs");
    let shown = text(&output);
    assert_eq!(output.status.code(), Some(69), "{shown}");
    assert!(shown.contains("has no replica"), "{shown}");
}

#[tokio::test]
async fn a_nearly_full_redis_takes_no_new_sessions_while_running_ones_go_on() {
    let cluster = Cluster::start().await;
    // One gateway: each looks for itself, once a second.
    let client = Client::initialize(&cluster.gateway_url(0)).await;
    let session = client.new_session().await;
    let mut stream = client.connection_stream(None).await;
    // Enough for a few turns, too much for four fifths.
    let memory = Command::new("redis-cli")
        .args(["-p", &cluster.redis.port.to_string(), "INFO", "memory"])
        .output()
        .expect("redis-cli runs");
    let used: u64 = text(&memory)
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"))
        .and_then(|used| used.trim().parse().ok())
        .expect("INFO tells");
    configure(
        &cluster.redis,
        &["maxmemory", &(used + used / 100 * 15).to_string()],
    );
    let refused = until("a new session is refused", async || {
        let id = json!(format!("n{}", free_port()));
        let mut answers = client.one_shot(new_session(id.clone())).await;
        let answer = answers.response(&id).await;
        answer.get("error").cloned()
    })
    .await;
    assert_eq!(refused["code"], 4005, "{refused}");
    // Without a body to answer in, it comes on the stream.
    client.post(new_session(json!("by stream"))).await;
    let answer = stream.response(&json!("by stream")).await;
    assert_eq!(answer["error"]["code"], 4005, "{answer}");

    let mut turn = client
        .one_shot(prompt(json!(1), &session, "/count 5"))
        .await;
    assert_eq!(turn.turn(&json!(1)).await, counted(5, 1));

    configure(&cluster.redis, &["maxmemory", "0"]);
    until("new sessions are taken again", async || {
        let id = json!(format!("m{}", free_port()));
        let mut answers = client.one_shot(new_session(id.clone())).await;
        let answer = answers.response(&id).await;
        answer.get("result").cloned()
    })
    .await;
}
