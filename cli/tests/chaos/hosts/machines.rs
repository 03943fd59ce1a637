//! What runs on the hosts: gateways, workers, and a Redis with a replica.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::network::{Host, Network};
use crate::ledger::Ledger;
use crate::schedule::LEASE;
use crate::support::cluster::write_keys;
use crate::support::process::{Process, baton};
use crate::support::{Client, until};

const REDIS: u16 = 6379;
const GATEWAY: u16 = 8080;
pub const GATEWAYS: [Host; 2] = [Host::Gateway(0), Host::Gateway(1)];
const WORKERS: [Host; 2] = [Host::Worker(0), Host::Worker(1)];

pub struct Machines {
    running: Vec<(Host, Process)>,
}

impl Machines {
    pub async fn start(network: &Network, dir: &Path, durability: &str) -> Self {
        let mut running = Vec::new();
        for host in [Host::Redis, Host::Replica] {
            let own = dir.join(host.to_string());
            std::fs::create_dir(&own).expect("the directory is writable");
            running.push((host, start(network, host, dir, redis(host, &own))));
        }
        until("the replica has everything", async || {
            let info = ask(&["info", "replication"]);
            info.contains("state=online").then_some(())
        })
        .await;
        let keys = dir.join("keys.json");
        write_keys(&keys);
        for host in GATEWAYS.into_iter().chain(WORKERS) {
            let command = member(host, &keys, durability);
            running.push((host, start(network, host, dir, command)));
        }
        for host in GATEWAYS {
            until("an agent is there", async || {
                Client::try_initialize(&front(host)).await
            })
            .await;
        }
        Self { running }
    }

    /// Nobody leaves because others are not reached.
    pub fn all_run(&mut self, ledger: &Ledger) {
        for (host, process) in &mut self.running {
            if let Some(status) = process.ended() {
                let text = format!("left by itself with {status}");
                ledger.violation("exit", &host.to_string(), "-", &text);
            }
        }
    }
}

/// Where clients find this gateway.
pub fn front(gateway: Host) -> String {
    format!("http://{}:{GATEWAY}/acp", gateway.address())
}

/// Asked from where the clients are, on a connection of its own: one that waits for what was lost meanwhile says
/// nothing about the gateway.
pub async fn is_ready(gateway: Host) -> bool {
    let url = format!("http://{}:{GATEWAY}/readyz", gateway.address());
    let asked = reqwest::Client::new().get(url);
    let answer = asked.timeout(Duration::from_millis(1500)).send().await;
    answer.is_ok_and(|answer| answer.status().is_success())
}

/// The store, from where the clients are: that way is never cut.
pub fn ask(words: &[&str]) -> String {
    let mut command = Command::new("redis-cli");
    command.args(["-h", &Host::Redis.address(), "-p", &REDIS.to_string()]);
    let output = command.args(words).output().expect("redis-cli runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn start(network: &Network, host: Host, dir: &Path, command: Command) -> Process {
    Process::start(dir, &host.to_string(), &mut network.on(host, &command))
}

fn redis(host: Host, own: &Path) -> Command {
    let mut command = Command::new("redis-server");
    command.args(["--port", &REDIS.to_string(), "--bind", &host.address()]);
    command.args(["--protected-mode", "no", "--save", ""]);
    command.args(["--appendonly", "yes", "--appendfsync", "always"]);
    command.args(["--repl-diskless-sync-delay", "0"]);
    if host == Host::Replica {
        let primary = format!("{} {REDIS}", Host::Redis.address());
        command.args(["--replicaof", &primary]);
    }
    command.arg("--dir").arg(own);
    command
}

fn member(host: Host, keys: &Path, durability: &str) -> Command {
    let mut command = baton();
    match host {
        Host::Gateway(_) => {
            let listen = format!("{}:{GATEWAY}", host.address());
            command.args(["gateway", "--listen", &listen, "--insecure"]);
            command.args(["--allow-host", &host.address()]);
            command.arg("--keys").arg(keys);
        }
        _ => {
            let lease = LEASE.as_millis().to_string();
            command.args(["worker", "--lease-ms", &lease]);
        }
    }
    let store = format!("redis://{}:{REDIS}", Host::Redis.address());
    command.args(["--store", &store, "--durability", durability]);
    command
}
