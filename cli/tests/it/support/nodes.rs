//! A Redis Cluster of three primaries and three replicas, with a gateway and a worker on it.

use std::process::Command;

use tempfile::TempDir;

use super::cluster::{address, ready, redis_cli, url, write_keys};
use super::process::{Process, baton, free_port};
use super::{Client, until};

pub struct Nodes {
    _gateway: Process,
    pub workers: Vec<Process>,
    store: String,
    port: u16,
    nodes: Vec<(Process, u16)>,
    dir: TempDir,
}

impl Nodes {
    pub async fn start() -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        let nodes: Vec<_> = (0..6).map(|number| node(&dir, number)).collect();
        for (_, port) in &nodes {
            until("a node answers", async || {
                redis_cli(*port, &["ping"])
                    .starts_with("PONG")
                    .then_some(())
            })
            .await;
        }
        let hosts: Vec<String> = nodes.iter().map(|(_, port)| address(*port)).collect();
        let mut words = vec!["create"];
        words.extend(hosts.iter().map(String::as_str));
        words.extend(["--cluster-replicas", "1", "--cluster-yes"]);
        manage(&words).await;
        for (_, port) in &nodes {
            until("the cluster has come together", async || {
                let info = redis_cli(*port, &["cluster", "info"]);
                let met =
                    info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:6");
                met.then_some(())
            })
            .await;
        }
        let store = format!("redis+cluster://{}", hosts.join(","));
        let keys = dir.path().join("keys.json");
        write_keys(&keys);
        let port = free_port();
        let mut command = baton();
        command.args(["gateway", "--listen", &address(port), "--store", &store]);
        command.arg("--keys").arg(&keys);
        let gateway = Process::start(dir.path(), "gateway", &mut command);
        ready(port).await;
        let mut started = Self {
            workers: Vec::new(),
            store,
            _gateway: gateway,
            port,
            nodes,
            dir,
        };
        started.add_worker();
        until("an agent is registered", async || {
            Client::try_initialize(&started.url()).await
        })
        .await;
        started
    }

    pub fn url(&self) -> String {
        url(self.port)
    }

    pub fn add_worker(&mut self) {
        let mut command = baton();
        command.args(["worker", "--lease-ms", "3000", "--store", &self.store]);
        let name = format!("worker-{}", self.workers.len());
        let worker = Process::start(self.dir.path(), &name, &mut command);
        self.workers.push(worker);
    }

    /// Nobody takes over for it, and the others go on without it.
    pub fn freeze_shard(&self, primary: usize) {
        let others = (0..6).filter(|node| *node != primary);
        for (_, port) in others.clone().map(|node| &self.nodes[node]) {
            let words = ["config", "set", "cluster-require-full-coverage", "no"];
            redis_cli(*port, &words);
        }
        let port = self.nodes[primary].1.to_string();
        for (replica, at) in others.map(|node| &self.nodes[node]) {
            if redis_cli(*at, &["role"]).lines().any(|line| line == port) {
                replica.signal("STOP");
            }
        }
        self.nodes[primary].0.signal("STOP");
    }

    /// Which of the first three has the session, as long as nothing has moved.
    pub fn node_of(&self, session: &str) -> usize {
        let tag = session.split('-').next().expect("an id has a tag");
        let slot = redis_cli(
            self.nodes[1].1,
            &["cluster", "keyslot", &format!("{{{tag}}}")],
        );
        let slot: usize = slot.trim().parse().expect("a number");
        // As redis-cli spreads them.
        [5460, 10922].iter().filter(|last| slot > **last).count()
    }

    pub fn port(&self, node: usize) -> u16 {
        self.nodes[node].1
    }

    /// Numbers of those that are primaries now, as one of the others says.
    pub fn primaries(&self) -> Vec<usize> {
        let role = |port: &u16| redis_cli(*port, &["role"]).starts_with("master");
        let nodes = self.nodes.iter().enumerate();
        nodes
            .filter(|(_, (_, port))| role(port))
            .map(|(number, _)| number)
            .collect()
    }

    /// As kill -9 does; returns when another has taken over and the cluster is whole. The replica has what was
    /// accepted so far: what a replica lacks is lost, and that is another test's subject.
    pub async fn lose(&mut self, node: usize) {
        let port = self.nodes[node].1;
        let told = |name: &str| -> Option<u64> {
            let info = redis_cli(port, &["info", "replication"]);
            let (_, after) = info.split_once(name)?;
            let digits = after.chars().take_while(char::is_ascii_digit);
            digits.collect::<String>().parse().ok()
        };
        let written = told("master_repl_offset:").expect("it tells how much it wrote");
        until("the replica has what was written", async || {
            told(",offset=").filter(|copied| *copied >= written)
        })
        .await;
        self.nodes[node].0.kill();
        let asked = self.nodes[(node + 1) % 6].1;
        until("the cluster notices", async || {
            let nodes = redis_cli(asked, &["cluster", "nodes"]);
            let failed = |line: &str| line.contains("fail") && !line.contains("fail?");
            nodes.lines().any(failed).then_some(())
        })
        .await;
        until("a replica takes over", async || {
            redis_cli(asked, &["cluster", "info"])
                .contains("cluster_state:ok")
                .then_some(())
        })
        .await;
    }

    /// Moves slots between two primaries, as an operator does.
    pub async fn reshard(&self, from: usize, to: usize, slots: u32) {
        let id = |node: usize| redis_cli(self.nodes[node].1, &["cluster", "myid"]);
        let (from, to, at) = (id(from), id(to), address(self.nodes[to].1));
        let slots = slots.to_string();
        let mut words = vec!["reshard", &at, "--cluster-from", from.trim()];
        words.extend(["--cluster-to", to.trim(), "--cluster-slots", &slots]);
        words.push("--cluster-yes");
        manage(&words).await;
    }
}

fn node(dir: &TempDir, number: usize) -> (Process, u16) {
    let (port, bus) = (free_port(), free_port());
    let name = format!("node-{number}");
    let own = dir.path().join(&name);
    std::fs::create_dir(&own).expect("the directory is writable");
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
    command.args(["--cluster-port", &bus.to_string()]);
    command.args(["--cluster-enabled", "yes", "--cluster-node-timeout", "3000"]);
    command.args(["--save", "", "--repl-diskless-sync-delay", "0"]);
    command.arg("--dir").arg(&own);
    (Process::start(dir.path(), &name, &mut command), port)
}

async fn manage(words: &[&str]) {
    let mut command = Command::new("redis-cli");
    command.arg("--cluster").args(words);
    let done = tokio::task::spawn_blocking(move || command.output()).await;
    let done = done.expect("it ends").expect("redis-cli runs");
    assert!(done.status.success(), "{done:?}");
}
