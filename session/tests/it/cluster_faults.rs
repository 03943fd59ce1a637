//! A cluster of three primaries and three replicas, with many sessions on it: nodes die and slots
//! move, and every session goes on.

use std::process::Command;
use std::sync::Arc;

use baton_session::conformance::scene::{Scene, SignalProbe, updates};
use baton_session::store::{ClaimToken, Signal, Store, Topic};

use crate::cluster::Cluster;
use crate::cluster_changes::{Writer, hears, is_whole, start_replica};
use crate::support::{RedisServer, again, bounded, until};

/// As many as it took to see a connection stand still for good.
const SESSIONS: usize = 32;

struct Load {
    store: Arc<dyn Store>,
    sessions: Vec<(Arc<Scene>, ClaimToken)>,
    writers: Vec<Writer>,
    ear: SignalProbe,
}

impl Load {
    async fn start(cluster: &Cluster) -> anyhow::Result<Self> {
        let store = cluster.store().await?;
        let mut sessions = Vec::new();
        for _ in 0..SESSIONS {
            let scene = Arc::new(Scene::created(&store).await);
            let token = scene.claim().await.token;
            sessions.push((scene, token));
        }
        let topics: Vec<Topic> = sessions
            .iter()
            .map(|(scene, _)| Topic::Log(scene.log()))
            .collect();
        let ear = SignalProbe::on(&store, &topics).await;
        let start =
            |(scene, token): &(Arc<Scene>, ClaimToken)| Writer::start(scene.clone(), token.clone());
        let load = Self {
            writers: sessions.iter().map(start).collect(),
            store,
            sessions,
            ear,
        };
        load.goes_on().await?;
        Ok(load)
    }

    async fn goes_on(&self) -> anyhow::Result<()> {
        for writer in &self.writers {
            writer.goes_on().await?;
        }
        until("the store says that it is there", async || {
            self.store.ping().await.ok()
        })
        .await
    }

    /// Stops the writers; every session is listened to as before.
    async fn end(mut self, lossless: bool) -> anyhow::Result<()> {
        for (writer, (scene, token)) in self.writers.into_iter().zip(&self.sessions) {
            let written = writer.stop().await?;
            if lossless {
                is_whole(scene, &written).await?;
            }
            hears(&mut self.ear, scene, token, written.head).await;
        }
        Ok(())
    }
}

async fn with_replicas() -> anyhow::Result<(Cluster, Vec<RedisServer>)> {
    let cluster = Cluster::start().await?;
    let mut replicas = Vec::new();
    for node in 0..3 {
        replicas.push(start_replica(&cluster, node).await?);
    }
    Ok((cluster, replicas))
}

#[tokio::test]
async fn every_session_goes_on_when_a_primary_has_died() -> anyhow::Result<()> {
    let (mut cluster, replicas) = with_replicas().await?;
    bounded(async {
        let load = Load::start(&cluster).await?;
        // The claims are there, too; of the events some may be lost, and are written again.
        cluster.nodes[0].copied_to(&replicas[0]).await?;
        cluster.nodes[0].kill();
        until("the replica is the primary", async || {
            (replicas[0].info("role").await.ok()? == "master").then_some(())
        })
        .await?;
        load.goes_on().await?;
        load.end(false).await
    })
    .await
}

#[tokio::test]
async fn every_session_goes_on_while_slots_are_resharded() -> anyhow::Result<()> {
    let (cluster, _replicas) = with_replicas().await?;
    bounded(async {
        let load = Load::start(&cluster).await?;
        for (from, to) in [(0, 1), (1, 2)] {
            reshard(&cluster, from, to, 1000).await?;
            load.goes_on().await?;
        }
        load.end(true).await
    })
    .await
}

/// Steps and signals of sessions on other nodes do not wait for it.
#[tokio::test]
async fn a_node_that_stands_still_holds_up_only_its_own_sessions() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    for node in &cluster.nodes {
        // Else all would stop with the one.
        let words = ["CONFIG", "SET", "cluster-require-full-coverage", "no"];
        let _: () = node.command(&words).await?;
    }
    let store = cluster.store().await?;
    bounded(async {
        let here = Arc::new(Scene::created(&store).await);
        let (_, still) = cluster.slot(here.id.partition()).await?;
        let there = loop {
            let scene = Scene::created(&store).await;
            if cluster.slot(scene.id.partition()).await?.1 != still {
                break scene;
            }
        };
        let (own, other) = (here.claim().await.token, there.claim().await.token);
        let topics = [Topic::Log(here.log()), Topic::Log(there.log())];
        let mut ear = SignalProbe::on(&store, &topics).await;
        cluster.nodes[still].freeze()?;
        let pending = tokio::spawn({
            let append = here.append(&own, 1, updates(1));
            async move { again(|| here.store.append(&append)).await }
        });
        for first in 1..=50 {
            // No second try: nothing is wrong with this node.
            let append = there.append(&other, first, updates(1));
            there.store.append(&append).await?;
            ear.until(|signal| matches!(signal, Signal::Frame(_, frame) if frame.last() == first))
                .await;
            there.store.ping().await?;
        }
        assert!(!pending.is_finished());
        cluster.nodes[still].thaw()?;
        pending.await?;
        Ok(())
    })
    .await
}

/// As an operator does it.
async fn reshard(cluster: &Cluster, from: usize, to: usize, slots: u32) -> anyhow::Result<()> {
    let (from, to) = (&cluster.nodes[from], &cluster.nodes[to]);
    let source: String = from.command(&["CLUSTER", "MYID"]).await?;
    let target: String = to.command(&["CLUSTER", "MYID"]).await?;
    let mut command = Command::new("redis-cli");
    command
        .args(["--cluster", "reshard", &format!("127.0.0.1:{}", to.port)])
        .args(["--cluster-from", &source, "--cluster-to", &target])
        .args(["--cluster-slots", &slots.to_string(), "--cluster-yes"]);
    let done = tokio::task::spawn_blocking(move || command.output()).await??;
    anyhow::ensure!(done.status.success(), "{done:?}");
    Ok(())
}
