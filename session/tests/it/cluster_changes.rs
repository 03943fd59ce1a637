//! A cluster changes under a session that is being written and listened to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use baton_session::conformance::cases;
use baton_session::conformance::scene::{Scene, SignalProbe, updates};
use baton_session::store::{AppendOutcome, ClaimToken, Signal, Topic};
use tokio::task::JoinHandle;

use crate::cluster::{Cluster, heard_again};
use crate::support::{RedisServer, again, bounded, replicated, until};

/// Appends one event after the other until it is stopped.
pub struct Writer {
    stop: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    task: JoinHandle<Written>,
}

/// Where the log ends, and how many events had to be written again.
pub struct Written {
    pub head: u64,
    pub lost: u64,
}

impl Writer {
    pub fn start(scene: Arc<Scene>, token: ClaimToken) -> Self {
        let (stop, written) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let task = tokio::spawn(append_on(scene, token, stop.clone(), Arc::clone(&written)));
        Self {
            stop,
            written,
            task,
        }
    }

    pub async fn goes_on(&self) -> anyhow::Result<()> {
        let before = self.written.load(Ordering::SeqCst);
        until("the writer goes on", async || {
            (self.written.load(Ordering::SeqCst) > before + 20).then_some(())
        })
        .await
    }

    pub async fn stop(self) -> anyhow::Result<Written> {
        self.stop.store(true, Ordering::SeqCst);
        Ok(self.task.await?)
    }
}

async fn append_on(
    scene: Arc<Scene>,
    token: ClaimToken,
    stop: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
) -> Written {
    let (mut head, mut lost) = (0, 0);
    while !stop.load(Ordering::SeqCst) {
        let append = scene.append(&token, head + 1, updates(1));
        match again(|| scene.store.append(&append)).await {
            AppendOutcome::Done { head: now, .. } => head = now,
            AppendOutcome::Gap { head: now } => (head, lost) = (now, lost + head - now),
            AppendOutcome::Fenced => panic!("the claim is lost"),
        }
        written.store(head + lost, Ordering::SeqCst);
    }
    Written { head, lost }
}

pub async fn is_whole(scene: &Scene, written: &Written) -> anyhow::Result<()> {
    assert_eq!(written.lost, 0);
    let mut next = 1;
    while next <= written.head {
        let page = scene.store.read(&scene.log(), next, 1000).await?;
        let last = next + page.len() as u64 - 1;
        assert!(!page.is_empty() && page.iter().map(|frame| frame.last()).eq(next..=last));
        next = last + 1;
    }
    assert_eq!(next, written.head + 1);
    Ok(())
}

#[tokio::test]
async fn a_slot_moves_while_its_session_is_written() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let store = cluster.store().await?;
    bounded(async {
        let scene = Arc::new(Scene::created(&store).await);
        let token = scene.claim().await.token;
        let mut ear = SignalProbe::on(&store, &[Topic::Log(scene.log())]).await;
        let writer = Writer::start(scene.clone(), token.clone());
        writer.goes_on().await?;

        let (slot, from) = cluster.slot(scene.id.partition()).await?;
        let to = &cluster.nodes[(from + 1) % 3];
        let from = &cluster.nodes[from];
        let (slot, port) = (slot.to_string(), to.port.to_string());
        let target: String = to.command(&["CLUSTER", "MYID"]).await?;
        let source: String = from.command(&["CLUSTER", "MYID"]).await?;
        let set = async |node: &RedisServer, state: &str, other: &str| {
            node.command::<()>(&["CLUSTER", "SETSLOT", &slot, state, other])
                .await
        };
        set(to, "IMPORTING", &source).await?;
        set(from, "MIGRATING", &target).await?;
        let keys: Vec<String> = from
            .command(&["CLUSTER", "GETKEYSINSLOT", &slot, "100"])
            .await?;
        for (number, key) in keys.iter().enumerate() {
            let _: redis::Value = from
                .command(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"])
                .await?;
            if number == 0 {
                // The writer is caught with its keys on two nodes.
                until("a write is told to come back", async || {
                    let stats: String = from.command(&["INFO", "errorstats"]).await.ok()?;
                    let told =
                        stats.contains("errorstat_TRYAGAIN") || stats.contains("errorstat_ASK");
                    told.then_some(())
                })
                .await?;
            }
        }
        set(to, "NODE", &target).await?;
        set(from, "NODE", &target).await?;
        writer.goes_on().await?;
        let written = writer.stop().await?;
        is_whole(&scene, &written).await?;
        ear.until(|signal| matches!(signal, Signal::Lost)).await;
        hears(&mut ear, &scene, &token, written.head).await;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_replica_takes_over_while_a_session_is_written() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let store = cluster.store().await?;
    bounded(async {
        let scene = Arc::new(Scene::created(&store).await);
        let token = scene.claim().await.token;
        let (_, node) = cluster.slot(scene.id.partition()).await?;
        let replica = start_replica(&cluster, node).await?;
        let mut ear = SignalProbe::on(&store, &[Topic::Log(scene.log())]).await;
        let writer = Writer::start(scene.clone(), token.clone());
        writer.goes_on().await?;
        let asked = AtomicU64::new(0);
        until("the replica is the primary", async || {
            // The cluster gives up after five seconds: then once more.
            if asked.fetch_add(1, Ordering::SeqCst).is_multiple_of(400) {
                let _ = replica.command::<()>(&["CLUSTER", "FAILOVER"]).await;
            }
            (replica.info("role").await.ok()? == "master").then_some(())
        })
        .await?;
        writer.goes_on().await?;
        let written = writer.stop().await?;
        // An orderly failover hands everything over.
        is_whole(&scene, &written).await?;
        hears(&mut ear, &scene, &token, written.head).await;
        Ok(())
    })
    .await
}

/// `WAIT` is a matter between one primary and its replicas: the others are not held up.
#[tokio::test]
async fn a_replicated_cluster_passes_every_case_and_waits_only_where_it_must() -> anyhow::Result<()>
{
    let cluster = Cluster::start().await?;
    let mut replicas = Vec::new();
    for node in 0..3 {
        replicas.push(start_replica(&cluster, node).await?);
    }
    let store = replicated(&cluster.url()).await?;
    for (name, case) in cases() {
        println!("{name}");
        bounded(case(&store)).await;
    }
    bounded(async {
        let here = Arc::new(Scene::created(&store).await);
        let (_, node) = cluster.slot(here.id.partition()).await?;
        let there = loop {
            let scene = Scene::created(&store).await;
            if cluster.slot(scene.id.partition()).await?.1 != node {
                break scene;
            }
        };
        replicas[node].freeze()?;
        let pending = tokio::spawn({
            let here = here.clone();
            async move { again(|| async { here.store.enqueue(&here.prompt("1")).await }).await }
        });
        until("Redis has the command", async || {
            (store.inbox(&here.id, &[]).await.ok()?.len() == 2).then_some(())
        })
        .await?;
        again(|| async { store.enqueue(&there.prompt("1")).await }).await;
        assert!(!pending.is_finished());
        replicas[node].thaw()?;
        pending.await?;
        assert_eq!(store.inbox(&here.id, &[]).await?.len(), 2);
        Ok(())
    })
    .await
}

pub async fn hears(ear: &mut SignalProbe, scene: &Scene, token: &ClaimToken, head: u64) {
    let write = async |number: u64| {
        let append = scene.append(token, head + number, updates(1));
        again(|| scene.store.append(&append)).await;
    };
    heard_again(ear, &scene.log(), write).await;
}

/// Joins the cluster and copies the node.
pub async fn start_replica(cluster: &Cluster, node: usize) -> anyhow::Result<RedisServer> {
    let replica = RedisServer::start_node().await?;
    let node = &cluster.nodes[node];
    let (port, bus) = (node.port.to_string(), node.bus_port.to_string());
    let _: () = replica
        .command(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus])
        .await?;
    let id: String = node.command(&["CLUSTER", "MYID"]).await?;
    // Refused until it has heard of the others.
    until("it is a replica", async || {
        let _: () = replica.command(&["CLUSTER", "REPLICATE", &id]).await.ok()?;
        Some(())
    })
    .await?;
    until("it is in step", async || {
        (replica.info("master_link_status").await.ok()? == "up").then_some(())
    })
    .await?;
    let own: String = replica.command(&["CLUSTER", "MYID"]).await?;
    // All have to know it, too: they vote on who takes over.
    for node in &cluster.nodes {
        until("the others know it", async || {
            let nodes: String = node.command(&["CLUSTER", "NODES"]).await.ok()?;
            let known = |line: &str| {
                line.starts_with(&own) && line.contains(" slave ") && line.ends_with(" connected")
            };
            nodes.lines().any(known).then_some(())
        })
        .await?;
    }
    Ok(replica)
}
