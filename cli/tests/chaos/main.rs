//! Chaos: real gateways, workers and Redis, killed, stopped, cut off and stalled by a seeded
//! schedule, while clients of every kind work and check what they see.
//!
//! | file | what |
//! |---|---|
//! | `schedule` | what goes wrong when |
//! | `fleet` | the processes, and the network between them |
//! | `faults` | carries the schedule out |
//! | `client` | the clients: streams, bodies, sockets; authors, cancellers, observers |
//! | `ledger` | what they asked and saw, and whether it may be so |
//! | `aftermath` | what remains when everybody has left |
//! | `probe` | how long takeovers and resumes take |
//! | `report` | the table at the end |
//!
//! `make chaos SECONDS=600 SEED=7` runs it for as long as you like.

mod aftermath;
mod client;
mod faults;
mod fleet;
mod ledger;
mod probe;
mod report;
mod schedule;

// Shared with the other end-to-end tests; each of the two needs only a part.
#[allow(dead_code, unused_imports)]
#[path = "../it"]
mod it {
    pub mod support;
}
use it::support;

use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::client::World;
use crate::fleet::Fleet;
use crate::ledger::Ledger;
use crate::report::Report;
use crate::schedule::LEASE;
use crate::support::cluster::redis_cli;

/// When all processes are up again, every turn must end within this.
const SETTLING: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn no_event_is_lost_duplicated_or_reordered() {
    chaos(number("CHAOS_SECONDS").unwrap_or(45), false).await;
}

/// Acknowledged is what the replica has; a stream whose end was lost and not written again says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_failover_loses_nothing_in_silence() {
    chaos(number("CHAOS_SECONDS").unwrap_or(20), true).await;
}

async fn chaos(seconds: u64, replica: bool) {
    let seed = number("CHAOS_SEED").unwrap_or(1);
    let dir = TempDir::new().expect("a temporary directory");
    println!("chaos: seed {seed}, {seconds} s of faults");
    let ledger = Arc::new(Ledger::new(seed, replica).traced(dir.path()));
    let report = run(&dir, seed, seconds, ledger.clone(), replica).await;
    report.print();
    let violations = ledger.violations();
    if !violations.is_empty() {
        let kept = dir.keep();
        panic!(
            "{} violations with seed {seed}; logs are in {}\n{}",
            violations.len(),
            kept.display(),
            violations.join("\n")
        );
    }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} must be a number, not {text:?}")),
    )
}

async fn run(dir: &TempDir, seed: u64, seconds: u64, ledger: Arc<Ledger>, replica: bool) -> Report {
    let fleet = Arc::new(Fleet::start(dir, ledger.clone(), replica).await);
    let memory_before = memory(&fleet);
    let world = Arc::new(World {
        fronts: fleet.fronts(),
        ledger: ledger.clone(),
        seed,
        over: CancellationToken::new(),
        sessions: Default::default(),
    });
    let mut clients = client::roles::spawn_all(&world);
    let steps = schedule::plan(seed, Duration::from_secs(seconds), replica);
    let listed: String = steps.iter().map(|step| format!("{step}\n")).collect();
    let _ = std::fs::write(dir.path().join("schedule.txt"), listed);
    let struck = faults::Struck::default();
    faults::run(fleet.clone(), steps, struck.clone()).await;
    world.over.cancel();
    let settled = timeout(SETTLING + LEASE, async {
        while let Some(client) = clients.join_next().await {
            client.expect("a client does not panic");
        }
    });
    let stuck = settled.await.is_err();
    clients.shutdown().await;
    if !stuck {
        aftermath::redis_is_clean(&fleet, &ledger).await;
        aftermath::gateways_are_idle(&fleet, &ledger).await;
        aftermath::history_is_what_was_seen(&fleet, &ledger).await;
    }
    ledger.close();
    let counts = ledger.counts();
    let noted = aftermath::read_logs(dir.path(), &ledger);
    let memory_after = memory(&fleet);
    // One round in a short run; a long one measures more.
    let times = probe::run(&fleet, &ledger, (seconds as usize / 60).clamp(1, 10)).await;
    Report {
        seed,
        seconds,
        struck,
        counts,
        noted,
        times,
        memory: (memory_before, memory_after),
        violations: ledger.violations().len(),
    }
}

/// What Redis uses, in bytes.
fn memory(fleet: &Fleet) -> u64 {
    let info = redis_cli(fleet.redis_port(), &["info", "memory"]);
    let mut lines = info.lines();
    let used = lines.find_map(|line| line.strip_prefix("used_memory:")?.trim().parse().ok());
    used.unwrap_or_default()
}
