//! Upgrades: the build of a revision before this one and today's in one cluster, on the same store, under load: each
//! member in turn is stopped and started as the other, forward and back, while clients go on with their sessions.
//!
//! `make upgrade-test BASE=REVISION STORE=cluster` builds the other one and runs this.

use std::fmt;
use std::sync::Arc;

use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::client::{World, roles};
use crate::faults::{self, Struck};
use crate::fleet::{Build, Fleet};
use crate::ledger::Ledger;
use crate::setup::{Setup, Store};
use crate::{aftermath, schedule};

/// Who runs which build for a while.
#[derive(Clone, Copy, Debug)]
struct Phase {
    gateways: Runs,
    workers: Runs,
}

#[derive(Clone, Copy, Debug)]
enum Runs {
    Base,
    Today,
    /// Every second one.
    Both,
}

const fn phase(gateways: Runs, workers: Runs) -> Phase {
    Phase { gateways, workers }
}

/// Forward and back with gateways first, then the same by halves.
const CLUSTER: [Phase; 9] = [
    phase(Runs::Base, Runs::Base),
    phase(Runs::Today, Runs::Base),
    phase(Runs::Today, Runs::Today),
    phase(Runs::Base, Runs::Today),
    phase(Runs::Base, Runs::Base),
    phase(Runs::Both, Runs::Both),
    phase(Runs::Today, Runs::Today),
    phase(Runs::Both, Runs::Both),
    phase(Runs::Base, Runs::Base),
];

/// One process that is everything: forward and back, twice.
const ALONE: [Phase; 5] = [
    phase(Runs::Base, Runs::Base),
    phase(Runs::Today, Runs::Today),
    phase(Runs::Base, Runs::Base),
    phase(Runs::Today, Runs::Today),
    phase(Runs::Base, Runs::Base),
];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "make upgrade-test builds what it is held against"]
async fn two_builds_share_a_cluster() {
    upgrade(Setup::asked(8), &CLUSTER).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "make upgrade-test builds what it is held against"]
async fn two_builds_take_a_data_directory_from_each_other() {
    upgrade(Setup::new(Store::Files, 8), &ALONE).await;
}

/// `setup` says how long each phase is.
async fn upgrade(setup: Setup, phases: &[Phase]) {
    let dir = TempDir::new().expect("a temporary directory");
    let run = format!("upgrade, {setup}");
    let ledger = Arc::new(Ledger::new(&run, setup.rules()).traced(dir.path()));
    let first = phases[0];
    let start = |number| first.build(&setup, number);
    let fleet = Fleet::start_as(&dir, setup, ledger.clone(), start).await;
    let fleet = Arc::new(fleet);
    let world = Arc::new(World {
        fronts: fleet.fronts(),
        ledger: ledger.clone(),
        seed: setup.seed,
        programs: setup.programs() > 0,
        over: CancellationToken::new(),
        sessions: Default::default(),
    });
    let clients = roles::spawn_all(&world);
    println!("\n| {run} | prompts | events | taken over |\n|---|---:|---:|---:|");
    for (number, phase) in (1..).zip(phases) {
        roll(&fleet, *phase).await;
        strike(&fleet, number).await;
        // Looked through once more at the end: what is wrong is to be counted once.
        let noted = aftermath::read_logs(dir.path(), &Ledger::new(&run, setup.rules()));
        let counts = ledger.counts();
        let (prompts, events) = (counts.prompts, counts.events);
        println!(
            "| {number}. {phase} | {prompts} | {events} | {} |",
            noted.takeovers
        );
    }
    finish(&fleet, &world, clients, dir).await;
}

/// What is not yet what it should be stops in order and comes back as that, one after the other.
async fn roll(fleet: &Fleet, phase: Phase) {
    for (number, member) in fleet.members.iter().enumerate() {
        let build = phase.build(&fleet.setup, number);
        if member.build() != build {
            let _struck = member.struck.lock().await;
            let text = format!("{} becomes {build:?}", member.name);
            fleet.ledger.trace("upgrade", &text);
            member.terminate().await;
            member.start_as(build);
            fleet.all_ready().await;
        }
    }
}

/// Chaos for as long as a phase lasts, another in each.
async fn strike(fleet: &Arc<Fleet>, number: u64) {
    let mut setup = fleet.setup;
    setup.seed = setup.seed.wrapping_mul(1000) + number;
    let steps = schedule::plan(&setup);
    faults::run(fleet.clone(), steps, Struck::default()).await;
}

async fn finish(fleet: &Fleet, world: &World, clients: JoinSet<()>, dir: TempDir) {
    let ledger = &world.ledger;
    if roles::leave(world, clients).await {
        aftermath::redis_is_clean(fleet, ledger).await;
        aftermath::gateways_are_idle(fleet, ledger).await;
        aftermath::history_is_what_was_seen(fleet, ledger).await;
    }
    ledger.close();
    aftermath::read_logs(dir.path(), ledger);
    println!("{:?}", ledger.counts());
    aftermath::verdict(ledger, dir);
}

impl Phase {
    fn build(self, setup: &Setup, number: usize) -> Build {
        let (runs, number) = match number.checked_sub(setup.gateways()) {
            None => (self.gateways, number),
            Some(worker) => (self.workers, worker),
        };
        match runs {
            Runs::Today => Build::Today,
            Runs::Both if number.is_multiple_of(2) => Build::Today,
            Runs::Base | Runs::Both => Build::Base,
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gateways: {}, workers: {}", self.gateways, self.workers)
    }
}

impl fmt::Display for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Base => "base",
            Self::Today => "today",
            Self::Both => "both",
        })
    }
}
