//! With `--durability replicated` nobody is shown an answer that a failover could take back.

use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;

use super::site::{Site, field};
use crate::support::http::prompt;
use crate::support::proxy::{Mood, Proxy};
use crate::support::{Redis, until};

#[tokio::test]
async fn an_answer_is_shown_once_the_replica_has_it() {
    let primary = Redis::start_with(&["--repl-diskless-sync-delay", "0"]).await;
    let link = Proxy::start(primary.port).await;
    let by = link.port.to_string();
    let _replica = Redis::start_with(&["--replicaof", "127.0.0.1", &by]).await;
    until("the replica follows", async || {
        let info = crate::support::cluster::redis_cli(primary.port, &["info", "replication"]);
        info.contains("state=online").then_some(())
    })
    .await;
    let mut site = Site::new();
    let durability = ["--durability", "replicated"];
    let url = site.add_gateway_with(&primary.store(), &durability).await;
    site.add_worker(&primary.store(), &durability).await;
    let client = site.client(&url).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    let asked = prompt(json!(1), &session, "/count 1\n/sleep 1000");
    client.post(asked).await;
    while stream.next().await.expect("an event").chunk().is_none() {}
    link.set(Mood::Stalled);
    until("the primary has the answer", async || {
        field(primary.port, &session, "run")
            .is_empty()
            .then_some(())
    })
    .await;
    let shown = timeout(Duration::from_millis(500), stream.next()).await;
    assert!(shown.is_err(), "the replica does not have it: {shown:?}");
    // A client that comes back reads the log of the primary, which has it.
    let mut stream = client.session_stream(&session, Some(&stream.last_id)).await;
    let shown = timeout(Duration::from_millis(500), stream.next()).await;
    assert!(shown.is_err(), "the replica does not have it: {shown:?}");
    link.set(Mood::Clear);
    let answer = stream.response(&json!(1)).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
}
