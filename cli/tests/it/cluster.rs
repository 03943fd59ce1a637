//! A Redis Cluster changes under a gateway and a worker with many sessions: both go on.

use serde_json::json;

use crate::support::http::prompt;
use crate::support::nodes::Nodes;
use crate::support::{Client, Stream, until};

/// As many as it took to see a gateway stand still for good.
const SESSIONS: usize = 32;

struct Talk {
    session: String,
    stream: Stream,
    asked: u64,
}

struct Load {
    client: Client,
    ready: String,
    talks: Vec<Talk>,
}

impl Load {
    async fn start(nodes: &Nodes) -> Self {
        let client = Client::initialize(&nodes.url()).await;
        let mut talks = Vec::new();
        for _ in 0..SESSIONS {
            let session = client.new_session().await;
            let stream = client.session_stream(&session, None).await;
            talks.push(Talk {
                session,
                stream,
                asked: 0,
            });
        }
        Self {
            client,
            ready: nodes.url().replace("/acp", "/readyz"),
            talks,
        }
    }

    /// Every session gets a prompt whose turn lasts for a while.
    async fn ask(&mut self) {
        self.ask_for("/count 400 delay=10").await;
    }

    async fn ask_for(&mut self, text: &str) {
        for talk in &mut self.talks {
            talk.asked += 1;
            let request = prompt(json!(talk.asked), &talk.session, text);
            let body = request.to_string();
            until("the prompt is accepted", async || {
                let json = crate::support::http::JSON;
                let response = self.client.send(&[json], body.clone()).await;
                response.status().is_success().then_some(())
            })
            .await;
        }
    }

    /// The gateway is ready, and every turn comes to its end.
    async fn is_answered(&mut self) {
        until("the gateway is ready", async || {
            let response = reqwest::get(&self.ready).await.ok()?;
            response.status().is_success().then_some(())
        })
        .await;
        for talk in &mut self.talks {
            let answer = talk.stream.response(&json!(talk.asked)).await;
            assert!(answer.get("result").is_some(), "{answer}");
        }
    }
}

#[tokio::test]
async fn a_gateway_goes_on_after_a_primary_of_the_cluster_has_died() {
    let mut nodes = Nodes::start().await;
    let mut load = Load::start(&nodes).await;
    load.ask().await;
    let dies = nodes.primaries()[0];
    nodes.lose(dies).await;
    load.is_answered().await;
    load.ask().await;
    load.is_answered().await;
}

#[tokio::test]
async fn a_gateway_goes_on_while_the_cluster_is_resharded() {
    let nodes = Nodes::start().await;
    let mut load = Load::start(&nodes).await;
    let primaries = nodes.primaries();
    for (from, to) in [(0, 1), (1, 2)] {
        load.ask().await;
        nodes.reshard(primaries[from], primaries[to], 1500).await;
        load.is_answered().await;
    }
}

/// A dead node has a third of the partitions: looking there must not keep a worker from the others.
#[tokio::test]
async fn sessions_on_other_nodes_are_taken_over_while_one_node_stands_still() {
    let mut nodes = Nodes::start().await;
    let mut load = Load::start(&nodes).await;
    let node_of = |talk: &Talk| nodes.node_of(&talk.session);
    load.talks.retain(|talk| node_of(talk) != 0);
    load.ask().await;
    nodes.add_worker();
    until("the second worker is there", async || {
        let said = nodes.workers[1].output();
        said.contains("takes sessions").then_some(())
    })
    .await;
    nodes.freeze_shard(0);
    nodes.workers[0].kill();
    load.is_answered().await;
}

/// Leases are renewed node by node: one that does not answer costs none on the others.
#[tokio::test]
async fn a_node_that_stands_still_costs_no_lease_on_others() {
    let mut nodes = Nodes::start().await;
    let mut load = Load::start(&nodes).await;
    load.ask_for("/count 1000 delay=10").await;
    nodes.add_worker();
    until("the second worker is there", async || {
        let said = nodes.workers[1].output();
        said.contains("takes sessions").then_some(())
    })
    .await;
    nodes.freeze_shard(0);
    let talks = load.talks.iter_mut();
    for talk in talks.filter(|talk| nodes.node_of(&talk.session) != 0) {
        // The second half of a cursor names the claim. It takes three leases until then.
        let mut claims = std::collections::BTreeSet::new();
        loop {
            let event = talk.stream.next().await.expect("the stream goes on");
            let Some(text) = event.chunk() else { continue };
            claims.extend(event.id.split('.').nth(1).map(str::to_owned));
            if text.starts_with("chunk 900 of ") {
                break;
            }
        }
        assert_eq!(
            claims.len(),
            1,
            "{} changed hands: {claims:?}",
            talk.session
        );
    }
}
