//! Chaos: real gateways, workers and Redis, killed, stopped, cut off and stalled by a seeded
//! schedule, while clients of every kind work and check what they see.
//!
//! | file | what |
//! |---|---|
//! | `setup` | which store, for how long, and what may go wrong with it |
//! | `fault` | what can go wrong |
//! | `schedule` | what goes wrong when |
//! | `fleet` | the processes, their store, and the network between them |
//! | `faults` | carries the schedule out |
//! | `client` | the clients: streams, bodies, sockets; authors, cancellers, observers |
//! | `ledger` | what they asked and saw, and whether it may be so |
//! | `aftermath` | what remains when everybody has left |
//! | `rest` | what processes take when nobody asks |
//! | `growth` | what keys and memory come to in a soak |
//! | `probe` | how long takeovers and resumes take |
//! | `report` | the table at the end |
//! | `hosts` | gateways, workers and Redis on hosts of their own, and partitions between them |
//! | `upgrade` | two builds in one cluster, forward and back |
//!
//! `make chaos STORE=cluster SECONDS=600 SEED=7` runs it for as long as you like.

mod aftermath;
mod client;
mod fault;
mod faults;
mod fleet;
mod growth;
mod hosts;
mod ledger;
mod probe;
mod report;
mod rest;
mod schedule;
mod setup;
mod upgrade;

// Shared with the other end-to-end tests; each of the two needs only a part.
#[allow(dead_code, unused_imports)]
#[path = "../it"]
mod it {
    pub mod support;
}
use it::support;

use std::sync::Arc;

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::client::World;
use crate::fleet::Fleet;
use crate::ledger::Ledger;
use crate::report::Report;
use crate::setup::{Setup, Store};

/// On the store of `make chaos`.
#[tokio::test(flavor = "multi_thread")]
async fn no_event_is_lost_duplicated_or_reordered() {
    chaos(Setup::asked(45)).await;
}

/// Acknowledged is what the replica has; a stream whose end was lost and not written again says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_failover_loses_nothing_in_silence() {
    chaos(Setup::new(Store::Replica, 20)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_changes_loses_nothing() {
    chaos(Setup::new(Store::Cluster, 20)).await;
}

async fn chaos(setup: Setup) {
    let dir = TempDir::new().expect("a temporary directory");
    println!("chaos: {setup}, {} s of faults", setup.seconds);
    let ledger = Ledger::new(&setup.to_string(), setup.rules());
    let ledger = Arc::new(ledger.traced(dir.path()));
    let report = run(&dir, setup, ledger.clone()).await;
    report.print();
    aftermath::verdict(&ledger, dir);
}

async fn run(dir: &TempDir, setup: Setup, ledger: Arc<Ledger>) -> Report {
    let fleet = Arc::new(Fleet::start(dir, setup, ledger.clone()).await);
    let memory_before = fleet.memory();
    let before = rest::Before::of(&fleet);
    let world = Arc::new(World {
        fronts: fleet.fronts(),
        ledger: ledger.clone(),
        seed: setup.seed,
        programs: setup.programs() > 0,
        over: CancellationToken::new(),
        sessions: Default::default(),
    });
    let clients = match setup.soak {
        None => client::roles::spawn_all(&world),
        Some(sessions) => client::roles::spawn_paced(&world, sessions),
    };
    let growth = setup
        .soak
        .map(|_| growth::watch(fleet.clone(), setup.length()));
    let steps = schedule::plan(&setup);
    let listed: String = steps.iter().map(|step| format!("{step}\n")).collect();
    let _ = std::fs::write(dir.path().join("schedule.txt"), listed);
    let struck = faults::Struck::default();
    faults::run(fleet.clone(), steps, struck.clone()).await;
    let growth = match growth {
        Some(watched) => growth::judge(watched.await.expect("it ends by itself"), &ledger),
        None => Vec::new(),
    };
    if client::roles::leave(&world, clients).await {
        aftermath::redis_is_clean(&fleet, &ledger).await;
        aftermath::gateways_are_idle(&fleet, &ledger).await;
        aftermath::history_is_what_was_seen(&fleet, &ledger).await;
    }
    let rest = rest::check(&fleet, &before, &ledger).await;
    ledger.close();
    let counts = ledger.counts();
    let noted = aftermath::read_logs(dir.path(), &ledger);
    let memory_after = fleet.memory();
    // One round in a short run; a long one measures more.
    let times = probe::run(&fleet, &ledger, (setup.seconds as usize / 60).clamp(1, 10)).await;
    Report {
        setup,
        struck,
        counts,
        noted,
        times,
        rest,
        growth,
        memory: (memory_before, memory_after),
        violations: ledger.violations().len(),
    }
}
