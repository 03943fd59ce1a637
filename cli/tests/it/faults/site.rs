//! Gateways and workers on a store of the test's own, as many as it wants.

use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::cluster::{address, ready, redis_cli, url, write_keys};
use crate::support::process::{Process, baton, free_port};
use crate::support::{Client, until};

pub(super) struct Site {
    pub workers: Vec<Process>,
    gateways: Vec<Process>,
    dir: TempDir,
}

impl Site {
    pub fn new() -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        write_keys(&dir.path().join("keys.json"));
        Self {
            workers: Vec::new(),
            gateways: Vec::new(),
            dir,
        }
    }

    /// One more; returns its address.
    pub async fn add_gateway(&mut self, store: &str) -> String {
        self.add_gateway_with(store, &[]).await
    }

    pub async fn add_gateway_with(&mut self, store: &str, arguments: &[&str]) -> String {
        let port = free_port();
        let mut command = baton();
        command.args(["gateway", "--listen", &address(port), "--store", store]);
        command.args(arguments);
        command.arg("--keys").arg(self.dir.path().join("keys.json"));
        let name = format!("gateway-{}", self.gateways.len());
        let gateway = Process::start(self.dir.path(), &name, &mut command);
        self.gateways.push(gateway);
        ready(port).await;
        url(port)
    }

    /// One more; returns when it takes sessions.
    pub async fn add_worker(&mut self, store: &str, arguments: &[&str]) {
        let mut command = baton();
        command.args(["worker", "--store", store]).args(arguments);
        let name = format!("worker-{}", self.workers.len());
        let worker = Process::start(self.dir.path(), &name, &mut command);
        until("the worker is there", async || {
            worker.output().contains("takes sessions").then_some(())
        })
        .await;
        self.workers.push(worker);
    }

    /// A connection, as soon as gateways know of the workers' agent.
    pub async fn client(&self, url: &str) -> Client {
        until("an agent is registered", async || {
            Client::try_initialize(url).await
        })
        .await
    }

    /// Which of the workers has this id.
    pub fn worker_by_id(&self, id: &str) -> Option<usize> {
        let mut all = self.workers.iter();
        all.position(|process| !id.is_empty() && process.output().contains(id))
    }
}

/// The key of a session's own hash, or of something else that is kept of it.
pub(super) fn key(kind: &str, session: &str) -> String {
    let tag = session.split('-').next().expect("an id has a tag");
    format!("baton:{{{tag}}}:{kind}:{session}")
}

pub(super) fn field(port: u16, session: &str, name: &str) -> String {
    let value = redis_cli(port, &["hget", &key("s", session), name]);
    value.trim().to_owned()
}

/// Commands that Redis has carried out, those in scripts included.
fn commands(port: u16) -> u64 {
    let info = redis_cli(port, &["info", "commandstats"]);
    let calls = info
        .lines()
        .filter_map(|line| line.split_once("calls=")?.1.split_once(','));
    calls
        .map(|(calls, _)| calls.parse::<u64>().expect("a number"))
        .sum()
}

/// A holder that looks again without a pause makes tens of thousands a second; looking for work, some hundreds.
const QUIET: f64 = 3000.0;

/// Waits until nobody keeps this Redis busy any more.
pub(super) async fn is_quiet(port: u16) {
    until("Redis is left in peace", async || {
        let (began, before) = (Instant::now(), commands(port));
        tokio::time::sleep(Duration::from_secs(2)).await;
        let rate = (commands(port) - before) as f64 / began.elapsed().as_secs_f64();
        println!("{rate:.0} commands a second");
        (rate < QUIET).then_some(())
    })
    .await;
}
