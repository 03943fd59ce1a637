//! Which gateway gets what.

use serde_json::json;

use super::{heard, measured};
use crate::support::http::{JSON, prompt};
use crate::support::sse::counted;
use crate::support::{Client, Cluster, Stream};

/// So many sessions are not on one gateway by chance.
const MANY: usize = 64;

/// Three turns of a new session, with a stream of its own: how many of the prompts each gateway has
/// heard, and which has the stream. The stream stays open, since one that ends while others are
/// counted is counted off them.
async fn turns(cluster: &Cluster) -> ([u64; 2], [u64; 2], Stream) {
    let client = Client::initialize(&cluster.url()).await;
    let session = client.new_session().await;
    let streams = measured(cluster, "baton_gateway_streams").await;
    let mut stream = client.session_stream(&session, None).await;
    let opened = measured(cluster, "baton_gateway_streams").await;
    let before = heard(cluster).await;
    for turn in 1..=3 {
        let message = prompt(json!(turn), &session, "/count 2").to_string();
        let named = [JSON, ("acp-session-id", session.as_str())];
        let response = client.send(&named, message).await;
        assert_eq!(response.status(), 202);
        assert_eq!(stream.turn(&json!(turn)).await, counted(2, turn));
    }
    let after = heard(cluster).await;
    let grown = |old: [u64; 2], new: [u64; 2]| [0, 1].map(|at| new[at].saturating_sub(old[at]));
    (grown(before, after), grown(streams, opened), stream)
}

pub async fn a_session_has_one_gateway(cluster: &Cluster) {
    let mut seen = [false; 2];
    let mut open = Vec::new();
    for _ in 0..MANY {
        let (prompts, streams, stream) = turns(cluster).await;
        open.push(stream);
        match (prompts, streams) {
            ([3, 0], [1, 0]) => seen[0] = true,
            ([0, 3], [0, 1]) => seen[1] = true,
            other => panic!("one session, several gateways: {other:?}"),
        }
        if seen == [true; 2] {
            return;
        }
    }
    panic!("all sessions are on one gateway: {seen:?}");
}

pub async fn a_session_has_many_gateways(cluster: &Cluster) {
    let (prompts, ..) = turns(cluster).await;
    assert!(prompts.iter().all(|count| *count > 0), "{prompts:?}");
}
