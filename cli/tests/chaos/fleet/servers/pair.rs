//! A server and its replica, and who takes which place.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::sleep;

use super::Servers;
use super::node::Node;

impl Servers {
    fn pair(&self) -> (&Node, &Node) {
        let first = self.first.load(Ordering::SeqCst);
        (&self.nodes[first], &self.nodes[1 - first])
    }

    pub(super) fn follow_first(&self) {
        let (first, second) = self.pair();
        second.ask(&["replicaof", "127.0.0.1", &first.port.to_string()]);
    }

    /// The primary is killed; its replica has its place a while later, and it the replica's.
    pub(super) async fn promote(&self, after: Duration) {
        let (primary, replica) = self.pair();
        primary.kill();
        sleep(after).await;
        replica.ask(&["replicaof", "no", "one"]);
        for way in &self.ways {
            way.aim(replica.port);
        }
        self.first.fetch_xor(1, Ordering::SeqCst);
        primary.start();
        primary.answers().await;
        self.follow_first();
    }
}
