//! F6: `$/cancel_request` costs one step.

use serde_json::{Value, json};

use crate::support::auth::ALICE;
use crate::support::cluster::redis_cli;
use crate::support::http::prompt;
use crate::support::{Client, Cluster};

/// As many as one search went through.
const SESSIONS: usize = 60;
const CANCELS: u64 = 50;
const RUNNING: u64 = 8;

/// Commands that Redis has carried out, those in scripts included.
fn commands(cluster: &Cluster) -> u64 {
    let info = redis_cli(cluster.redis.port, &["info", "commandstats"]);
    let calls = info
        .lines()
        .filter_map(|line| line.split_once("calls=")?.1.split_once(','));
    calls
        .map(|(calls, _)| calls.parse::<u64>().expect("a number"))
        .sum()
}

fn cancel(id: Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": { "requestId": id } })
}

#[tokio::test]
async fn f6_a_request_that_is_cancelled_is_not_searched_for_in_all_sessions() {
    let cluster = Cluster::start_with_keys().await;
    let alice = Client::with_key(&cluster.gateway_url(0), ALICE).await;
    let first = alice.new_session().await;
    for _ in 1..SESSIONS {
        alice.new_session().await;
    }
    // Nobody has asked any of these.
    let before = commands(&cluster);
    for id in 0..CANCELS {
        alice.post(cancel(json!(format!("never-{id}")))).await;
    }
    let cost = (commands(&cluster) - before) / CANCELS;
    assert!(cost < 10, "{cost} commands for each");

    // The oldest session's is found all the same, on the gateway that took it and on the other.
    let elsewhere = alice.at(&cluster.gateway_url(1));
    for (id, by) in [(1, &alice), (2, &elsewhere)] {
        let asked = prompt(json!(id), &first, "/count 1\n/sleep 60000");
        let mut stream = alice.one_shot(asked).await;
        loop {
            // The first thing that it says: it runs.
            let event = stream.next().await.expect("an event").message();
            if event["method"] == "session/update" {
                break;
            }
        }
        by.post(cancel(json!(id))).await;
        let answer = stream.response(&json!(id)).await;
        assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    }
}

#[tokio::test]
async fn f6_no_cancel_is_dropped_whichever_gateway_it_comes_by() {
    let cluster = Cluster::start_with_keys().await;
    let alice = Client::with_key(&cluster.gateway_url(0), ALICE).await;
    let mut running = Vec::new();
    for id in 0..RUNNING {
        let session = alice.new_session().await;
        let asked = prompt(json!(id), &session, "/count 1\n/sleep 60000");
        let mut stream = alice.one_shot(asked).await;
        while stream.next().await.expect("an event").message()["method"] != "session/update" {}
        running.push(stream);
    }
    // More than a gateway that has to search would do at once.
    let elsewhere = alice.at(&cluster.gateway_url(1));
    for id in 0..CANCELS {
        elsewhere.post(cancel(json!(format!("never-{id}")))).await;
    }
    for (id, mut stream) in (0..).zip(running) {
        elsewhere.post(cancel(json!(id))).await;
        let answer = stream.response(&json!(id)).await;
        assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    }
}
