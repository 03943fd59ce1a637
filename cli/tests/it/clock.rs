//! A worker's clock jumps by an hour, forth and back: leases go by the store's clock, pauses by one
//! that does not jump.

use std::fs;
use std::path::PathBuf;

use serde_json::json;
use tempfile::TempDir;

use crate::support::http::prompt;
use crate::support::sse::counted;
use crate::support::{Client, Cluster};

/// The library that pretends another time, wherever Debian puts it.
fn pretender() -> PathBuf {
    let libraries = fs::read_dir("/usr/lib").expect("there are libraries");
    let places = libraries.flatten().map(|place| place.path());
    let mut found = places.map(|place| place.join("faketime/libfaketimeMT.so.1"));
    let found = found.find(|path| path.exists());
    found.expect("faketime is not installed, and this test needs it: `make setup` installs it")
}

#[tokio::test]
async fn a_clock_that_jumps_disturbs_no_turn() {
    let mut cluster = Cluster::start().await;
    cluster.workers.iter_mut().for_each(|worker| worker.kill());
    let dir = TempDir::new().expect("a temporary directory");
    let clock = dir.path().join("clock");
    let set = |offset: &str| fs::write(&clock, offset).expect("the directory is writable");
    set("+0");
    let mut worker = cluster.worker_with(2, |command| {
        command
            .env("LD_PRELOAD", pretender())
            .env("FAKETIME_TIMESTAMP_FILE", &clock)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    });
    let client = Client::initialize(&cluster.url()).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    client
        .post(prompt(json!(1), &session, "/count 150 delay=20"))
        .await;
    let mut chunks = Vec::new();
    for offset in ["+1h", "-1h", "+0", "-1h"] {
        for _ in 0..20 {
            chunks.extend(stream.next().await.expect("the stream goes on").chunk());
        }
        set(offset);
    }
    chunks.extend(stream.turn(&json!(1)).await);
    assert_eq!(chunks, counted(150, 1));
    worker.signal("TERM");
    assert!(worker.exit_status().await.success());
    let said = worker.output();
    assert!(!said.contains("fenced"), "{said}");
    // The clock did jump: its last words are older than its first.
    let times: Vec<_> = said.lines().filter_map(|line| line.get(..20)).collect();
    assert!(times.last() < times.first(), "{said}");
}
