//! The store on a Redis Cluster passes every case.

use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use baton_session::command::IdempotencyKey;
use baton_session::conformance::cases;
use baton_session::conformance::scene::{Scene, SignalProbe, updates};
use baton_session::event::Event;
use baton_session::id::{LogId, Partition};
use baton_session::store::redis::RedisStore;
use baton_session::store::{Signal, Store, Topic};
use tokio::time::{Instant, sleep, timeout};

use crate::support::{RedisServer, bounded};

const SLOTS: u32 = 16384;

/// Three primaries, each with a third of the slots.
pub struct Cluster {
    pub nodes: Vec<RedisServer>,
}

impl Cluster {
    pub async fn start() -> anyhow::Result<Self> {
        let mut nodes = Vec::new();
        for number in 0..3 {
            let node = RedisServer::start_node().await?;
            let (from, to) = (SLOTS * number / 3, SLOTS * (number + 1) / 3 - 1);
            let _: () = node
                .command(&["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()])
                .await?;
            let _: () = node
                .command(&[
                    "CLUSTER",
                    "ADDSLOTSRANGE",
                    &from.to_string(),
                    &to.to_string(),
                ])
                .await?;
            nodes.push(node);
        }
        for node in &nodes[1..] {
            let (port, bus) = (node.port.to_string(), node.bus_port.to_string());
            let _: () = nodes[0]
                .command(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus])
                .await?;
        }
        let cluster = Self { nodes };
        cluster.settled().await?;
        Ok(cluster)
    }

    /// Every node knows every other one and who keeps which slots.
    async fn settled(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(20);
        for node in &self.nodes {
            loop {
                let info: String = node.command(&["CLUSTER", "INFO"]).await?;
                let slots: Vec<redis::Value> = node.command(&["CLUSTER", "SLOTS"]).await?;
                if info.contains("cluster_state:ok") && slots.len() == self.nodes.len() {
                    break;
                }
                ensure!(
                    Instant::now() < deadline,
                    "the cluster does not come together: {info}"
                );
                sleep(Duration::from_millis(20)).await;
            }
        }
        Ok(())
    }

    /// The slot of a partition, and which node had it at the beginning.
    pub async fn slot(&self, partition: Partition) -> anyhow::Result<(u32, usize)> {
        let slot: u32 = self.nodes[0]
            .command(&["CLUSTER", "KEYSLOT", &format!("{{{}}}", partition.tag())])
            .await?;
        let node = (0..3).rfind(|number| SLOTS * number / 3 <= slot);
        Ok((slot, node.expect("a node has it") as usize))
    }

    /// Gives the slot of a partition that has no keys to the next node.
    async fn move_slot(&self, partition: Partition) -> anyhow::Result<()> {
        let (slot, from) = self.slot(partition).await?;
        let to = (from + 1) % self.nodes.len();
        let (to, from) = (&self.nodes[to], &self.nodes[from]);
        let slot = slot.to_string();
        let target: String = to.command(&["CLUSTER", "MYID"]).await?;
        let source: String = from.command(&["CLUSTER", "MYID"]).await?;
        // In the order of the manual: only so does the new owner's word outweigh the old one's.
        for (node, state, other) in [
            (to, "IMPORTING", &source),
            (from, "MIGRATING", &target),
            (to, "NODE", &target),
            (from, "NODE", &target),
        ] {
            let _: () = node
                .command(&["CLUSTER", "SETSLOT", &slot, state, other])
                .await?;
        }
        Ok(())
    }

    pub fn url(&self) -> String {
        let hosts: Vec<String> = self
            .nodes
            .iter()
            .map(|node| format!("127.0.0.1:{}", node.port))
            .collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    pub async fn store(&self) -> anyhow::Result<Arc<dyn Store>> {
        Ok(Arc::new(RedisStore::connect(&self.url(), "test").await?))
    }
}

#[tokio::test]
async fn a_cluster_passes_every_case() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let store = cluster.store().await?;
    for (name, case) in cases() {
        println!("{name}");
        bounded(case(&store)).await;
    }
    Ok(())
}

#[tokio::test]
async fn listeners_outlive_their_connections_and_the_move_of_a_slot() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let store = cluster.store().await?;
    bounded(async {
        let scenes = [
            Scene::created(&store).await,
            Scene::created(&store).await,
            Scene::created(&store).await,
        ];
        let homeless = loop {
            let connection = Scene::planned(&store).creator;
            if scenes
                .iter()
                .all(|scene| scene.id.partition() != connection.partition())
            {
                break connection;
            }
        };
        let outbox = LogId::Outbox(homeless.clone());
        let mut topics: Vec<Topic> = scenes.iter().map(|scene| Topic::Log(scene.log())).collect();
        topics.push(Topic::Log(outbox.clone()));
        let mut ear = SignalProbe::on(&store, &topics).await;
        for node in &cluster.nodes {
            let killed: i64 = node.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await?;
            // A node without a subscription has no such client.
            if killed > 0 {
                ear.until(|signal| matches!(signal, Signal::Lost)).await;
            }
        }
        for scene in &scenes {
            let token = scene.claim().await.token;
            // One node's loss may be told before the next one has its subscriptions back.
            let write =
                async |first| _ = scene.write(&scene.append(&token, first, updates(1))).await;
            heard_again(&mut ear, &scene.log(), write).await;
        }
        cluster.move_slot(homeless.partition()).await?;
        ear.until(|signal| matches!(signal, Signal::Lost)).await;
        let post = async |request: u64| {
            let key = IdempotencyKey::of(&homeless, Some(&request.to_string()), b"");
            store
                .post(&homeless, Event::Closed, &key)
                .await
                .expect("the store answers");
        };
        heard_again(&mut ear, &outbox, post).await;
        Ok(())
    })
    .await
}

/// Writes until a frame of the log is signalled.
pub async fn heard_again(ear: &mut SignalProbe, log: &LogId, write: impl AsyncFn(u64)) {
    for number in 1.. {
        write(number).await;
        let heard = ear.until(|signal| matches!(signal, Signal::Frame(of, _) if of == log));
        if timeout(Duration::from_millis(300), heard).await.is_ok() {
            return;
        }
    }
}
