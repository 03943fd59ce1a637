//! A2: a turn ends while its slot of a Cluster is on its way to another node. Scripts fail in the middle then, at the first
//! key that has moved before the others.

use serde_json::json;

use super::site::is_quiet;
use crate::support::cluster::redis_cli;
use crate::support::http::{JSON, cancel, prompt};
use crate::support::nodes::Nodes;
use crate::support::sse::counted;
use crate::support::{Client, until};

/// A slot on its way from one primary to another.
struct Move<'a> {
    nodes: &'a Nodes,
    slot: String,
    from: u16,
    to: u16,
}

impl<'a> Move<'a> {
    /// Of the slot that the session is in.
    fn begin(nodes: &'a Nodes, session: &str) -> Self {
        let source = nodes.node_of(session);
        let (from, to) = (nodes.port(source), nodes.port((source + 1) % 3));
        let tag = session.split('-').next().expect("an id has a tag");
        let slot = redis_cli(from, &["cluster", "keyslot", &format!("{{{tag}}}")]);
        let slot = slot.trim().to_owned();
        set_slot(to, &slot, "importing", from);
        set_slot(from, &slot, "migrating", to);
        Self {
            nodes,
            slot,
            from,
            to,
        }
    }

    /// Moves the keys that are chosen; returns how many.
    fn carry(&self, chosen: impl Fn(&str) -> bool) -> usize {
        let keys = redis_cli(
            self.from,
            &["cluster", "getkeysinslot", &self.slot, "10000"],
        );
        let to = self.to.to_string();
        let chosen = keys.lines().filter(|key| !key.is_empty() && chosen(key));
        chosen
            .map(|key| {
                let words = ["migrate", "127.0.0.1", &to, key, "0", "5000"];
                let said = redis_cli(self.from, &words);
                assert!(
                    said.starts_with("OK") || said.starts_with("NOKEY"),
                    "{said}"
                );
            })
            .count()
    }

    /// Scripts that have failed at the source.
    fn failed(&self) -> u64 {
        let info = redis_cli(self.from, &["info", "commandstats"]);
        let scripts = info.lines().filter(|line| {
            line.starts_with("cmdstat_evalsha:") || line.starts_with("cmdstat_eval:")
        });
        let failed = scripts.filter_map(|line| line.split_once("failed_calls="));
        let failed = failed.map(|(_, count)| count.trim().parse::<u64>().expect("a number"));
        failed.sum()
    }

    fn end(self) {
        while self.carry(|_| true) > 0 {}
        // The new owner first, as redis-cli does.
        let mut ports = vec![self.to, self.from];
        let primaries = (0..3).map(|node| self.nodes.port(node));
        ports.extend(primaries.filter(|port| *port != self.to && *port != self.from));
        for port in ports {
            set_slot(port, &self.slot, "node", self.to);
        }
    }
}

fn set_slot(at: u16, slot: &str, state: &str, other: u16) {
    let id = redis_cli(other, &["cluster", "myid"]);
    let said = redis_cli(at, &["cluster", "setslot", slot, state, id.trim()]);
    assert!(said.starts_with("OK"), "{state}: {said}");
}

/// A turn is cancelled while these keys of its partition have moved and the others have not.
async fn a_turn_ends_while_these_have_moved(moved: &[&str]) {
    let nodes = Nodes::start().await;
    let client = Client::initialize(&nodes.url()).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    let asked = prompt(json!(1), &session, "/count 1\n/sleep 120000");
    client.post(asked).await;
    while stream.next().await.expect("an event").chunk().is_none() {}

    let slot = Move::begin(&nodes, &session);
    let is_moved = |key: &str| moved.iter().any(|kind| key.contains(&format!("}}:{kind}")));
    assert!(slot.carry(is_moved) > 0, "there are such keys");
    let before = slot.failed();
    let cancel = cancel(&session).to_string();
    until("the cancel is accepted", async || {
        let response = client.send(&[JSON], cancel.clone()).await;
        response.status().is_success().then_some(())
    })
    .await;
    until("the end of the turn is tried in vain", async || {
        (slot.failed() > before + 2).then_some(())
    })
    .await;
    let (from, to) = (slot.from, slot.to);
    slot.end();

    let answer = stream.response(&json!(1)).await;
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    let next = prompt(json!(2), &session, "/count 3").to_string();
    until("the next prompt is accepted", async || {
        let response = client.send(&[JSON], next.clone()).await;
        response.status().is_success().then_some(())
    })
    .await;
    let (events, answer) = stream.until_response(&json!(2)).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let chunks: Vec<_> = events.iter().filter_map(|event| event.chunk()).collect();
    assert_eq!(chunks, counted(3, 2));
    let again = |message: serde_json::Value| message["id"] == 1 && message.get("method").is_none();
    assert!(
        !events.iter().any(|event| again(event.message())),
        "{events:?}"
    );
    is_quiet(from).await;
    is_quiet(to).await;
}

#[tokio::test]
async fn a2_a_turn_ends_once_though_the_list_of_sessions_has_moved_before_it() {
    a_turn_ends_while_these_have_moved(&["ls:"]).await;
}

#[tokio::test]
async fn a2_a_turn_ends_once_though_the_queues_have_moved_before_it() {
    a_turn_ends_while_these_have_moved(&["due:", "rest", "b:"]).await;
}
