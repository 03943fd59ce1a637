//! Three primaries and three replicas that tell their own addresses: those of the ways to them.

use super::{Servers, bus_port, manage};
use crate::support::cluster::address;
use crate::support::until;

/// Moved at a time: enough that sessions are among them.
const SLOTS: &str = "300";

pub fn node(way: u16) -> Vec<String> {
    vec![
        "cluster-enabled yes".to_owned(),
        "cluster-node-timeout 3000".to_owned(),
        "cluster-allow-replica-migration no".to_owned(),
        "cluster-announce-ip 127.0.0.1".to_owned(),
        format!("cluster-announce-port {way}"),
        format!("cluster-port {}", bus_port()),
    ]
}

impl Servers {
    pub(super) async fn come_together(&self) {
        let hosts: Vec<String> = self.ways.iter().map(|way| address(way.port)).collect();
        let mut words = vec!["create"];
        words.extend(hosts.iter().map(String::as_str));
        words.extend(["--cluster-replicas", "1", "--cluster-yes"]);
        let made = manage(&words).await;
        assert!(made.is_ok(), "the nodes do not come together: {made:?}");
    }

    /// Every node knows all others, and somebody has every slot.
    pub(super) fn nodes_agree(&self) -> bool {
        self.nodes.iter().all(|node| {
            let info = node.ask(&["cluster", "info"]);
            let known = format!("cluster_known_nodes:{}", self.nodes.len());
            let nodes = node.ask(&["cluster", "nodes"]);
            info.contains("cluster_state:ok") && info.contains(&known) && !nodes.contains("fail")
        })
    }

    /// A replica asks its primary to change places, and the primary does when the replica has everything.
    pub(super) async fn cluster_failover(&self, pick: usize) {
        let replicas = self.nodes.iter().filter(|node| !node.is_primary());
        let replicas: Vec<_> = replicas.collect();
        let Some(replica) = replicas.get(pick % replicas.len().max(1)) else {
            return;
        };
        if replica.ask(&["cluster", "failover"]).starts_with("OK") {
            until("the replica is promoted", async || {
                // A promise that was not kept within five seconds is forgotten: it is asked for again.
                replica.ask(&["cluster", "failover"]);
                replica.is_primary().then_some(())
            })
            .await;
        }
    }

    /// Slots move from one primary to another, while everybody works.
    pub(super) async fn reshard(&self, pick: usize) {
        let primaries = self.primaries();
        let (from, to) = (pick % 3, (pick + 1 + pick / 3 % 2) % 3);
        let id = |number: usize| primaries[number].ask(&["cluster", "myid"]);
        let (from, at, to) = (id(from), address(primaries[to].port), id(to));
        let mut words = vec!["reshard", &at, "--cluster-from", from.trim()];
        words.extend([
            "--cluster-to",
            to.trim(),
            "--cluster-slots",
            SLOTS,
            "--cluster-yes",
        ]);
        if manage(&words).await.is_err() {
            // Broken off by another fault: slots are half moved, and stay so until somebody ends it.
            self.end_moves().await;
        }
    }
}
