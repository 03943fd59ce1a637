//! A primary, its replicas, and the sentinels who say which is which. All of them talk through the ways that can
//! be cut, so that a primary that nobody reaches is replaced, too.

use std::path::Path;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::Servers;
use super::node::Node;

pub fn node(number: usize, way: u16, first: u16) -> Vec<String> {
    let mut lines = vec![
        "replica-announce-ip 127.0.0.1".to_owned(),
        format!("replica-announce-port {way}"),
    ];
    if number > 0 {
        lines.push(format!("replicaof 127.0.0.1 {first}"));
    }
    lines
}

pub async fn watch(dir: &Path, primary: u16) -> Vec<Node> {
    let mut sentinels = Vec::new();
    for number in 0..3 {
        let at = dir.join(format!("sentinel-{number}"));
        let lines = vec![
            format!("sentinel monitor main 127.0.0.1 {primary} 2"),
            "sentinel down-after-milliseconds main 3000".to_owned(),
            "sentinel failover-timeout main 6000".to_owned(),
            "sentinel parallel-syncs main 2".to_owned(),
        ];
        let sentinel = Node::launch(Path::new("redis-server"), at, &["--sentinel"], |_| lines);
        sentinel.answers().await;
        sentinels.push(sentinel);
    }
    sentinels
}

impl Servers {
    /// An operator asks for it who has looked before: a replica that has just come into step is not promoted. Returns
    /// when another is the primary.
    pub(super) async fn sentinel_failover(&self) {
        self.whole().await;
        sleep(Duration::from_secs(2)).await;
        let before = self.told();
        let refused = self.sentinels[0].ask(&["sentinel", "failover", "main"]);
        if !refused.starts_with("OK") {
            return;
        }
        // They may think better of it: then it was none.
        let named = async {
            while self.told() == before {
                sleep(Duration::from_millis(50)).await;
            }
        };
        let _ = timeout(Duration::from_secs(20), named).await;
    }

    /// Where the primary is, as each sentinel says.
    fn told(&self) -> Vec<String> {
        let words = ["sentinel", "get-master-addr-by-name", "main"];
        let sentinels = self.sentinels.iter();
        sentinels.map(|sentinel| sentinel.ask(&words)).collect()
    }

    /// They name the one who takes itself for the primary, and see nothing wrong.
    pub(super) fn sentinels_agree(&self) -> bool {
        if self.sentinels.is_empty() {
            return true;
        }
        let mut pairs = self.ways.iter().zip(&self.nodes);
        let Some((way, _)) = pairs.find(|(_, node)| node.is_primary()) else {
            return false;
        };
        let port = way.port.to_string();
        let named = self
            .told()
            .iter()
            .all(|told| told.lines().any(|line| line == port));
        let well = "status=ok";
        let known = "slaves=2,sentinels=3";
        let mut sentinels = self.sentinels.iter();
        named
            && sentinels.all(|sentinel| {
                let info = sentinel.ask(&["info", "sentinel"]);
                info.contains(well) && info.contains(known)
            })
    }
}
