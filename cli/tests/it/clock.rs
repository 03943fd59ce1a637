//! A worker's clock jumps by an hour, forth and back: leases go by the store's clock, pauses by one
//! that does not jump.

use serde_json::json;
use tempfile::TempDir;

use crate::support::clock::Clock;
use crate::support::http::prompt;
use crate::support::sse::counted;
use crate::support::{Client, Cluster};

#[tokio::test]
async fn a_clock_that_jumps_disturbs_no_turn() {
    let mut cluster = Cluster::start().await;
    cluster.workers.iter_mut().for_each(|worker| worker.kill());
    let dir = TempDir::new().expect("a temporary directory");
    let clock = Clock::new(dir.path());
    let mut worker = cluster.worker_with(2, |command| clock.rule(command));
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
        clock.set(offset);
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
