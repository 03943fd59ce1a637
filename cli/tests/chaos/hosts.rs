//! Across hosts: two gateways, two workers, Redis and its replica, each in a network namespace of its own, and silent
//! partitions between them, one-way too, that last longer than a lease.
//!
//! | file | what |
//! |---|---|
//! | `network` | the hosts, and the router between them that drops packets |
//! | `machines` | what runs on them |
//! | `partition` | who does not reach whom, and for how long |
//! | `recovery` | how long it takes until everybody works again |
//!
//! `make partitions SEED=7` cuts every link in every direction; `make test` some of them.

use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use self::machines::{GATEWAYS, Machines, front};
use self::network::{Network, alone};
use self::partition::Partition;
use self::recovery::Recovery;
use crate::aftermath;
use crate::client::{World, roles};
use crate::ledger::{Ledger, Rules};
use crate::setup;

mod machines;
mod network;
mod partition;
mod recovery;

/// Turns are under way before anything is cut.
const WARM: u64 = 40;

#[test]
fn a_partition_between_hosts_loses_nothing() {
    alone("hosts::a_partition_between_hosts_loses_nothing", async {
        let seed = setup::seed();
        let plan = match asks_for_all() {
            true => partition::all(seed),
            false => partition::some(),
        };
        partitions(seed, "fast", plan).await;
    });
}

/// What replicas have to confirm waits for them, or is refused and sent again.
#[test]
fn a_replica_that_is_cut_off_loses_nothing() {
    alone("hosts::a_replica_that_is_cut_off_loses_nothing", async {
        let seed = setup::seed();
        let mut plan = partition::of_the_replica(seed);
        if asks_for_all() {
            plan.extend(partition::all(seed));
        } else {
            plan.truncate(1);
        }
        partitions(seed, "replicated", plan).await;
    });
}

fn asks_for_all() -> bool {
    std::env::var("PARTITIONS").is_ok_and(|asked| asked == "all")
}

async fn partitions(seed: u64, durability: &str, plan: Vec<Partition>) {
    let dir = TempDir::new().expect("a temporary directory");
    let run = format!("SEED={seed} DURABILITY={durability}");
    println!("partitions: {run}");
    let ledger = Arc::new(Ledger::new(&run, Rules::default()).traced(dir.path()));
    let network = Network::lay();
    let mut machines = Machines::start(&network, dir.path(), durability).await;
    let world = world(&ledger, seed, GATEWAYS.map(front).to_vec());
    let clients = roles::spawn_all(&world);
    let mut recoveries = Vec::new();
    for (number, partition) in plan.iter().enumerate() {
        under_way(&ledger).await;
        ledger.trace("partition", &format!("begins: {partition}"));
        partition.begin(&network);
        let asked = (durability == "replicated" && partition.is_of_the_replica())
            .then(|| tokio::spawn(recovery::turn(ledger.clone(), seed, number)));
        sleep(partition.lasts).await;
        let confirmed = asked.as_ref().is_some_and(JoinHandle::is_finished);
        partition.end(&network);
        ledger.trace("partition", &format!("is over: {partition}"));
        if confirmed {
            let text = format!("a turn has ended that no replica has: {partition}");
            ledger.violation("I6", "-", "-", &text);
        }
        let recovery = Recovery::measure(&ledger, seed, number).await;
        if let Some(asked) = asked {
            asked.await.expect("it does not panic");
        }
        machines.all_run(&ledger);
        recoveries.push(recovery);
    }
    everybody_leaves(&world, clients).await;
    let noted = aftermath::read_logs(dir.path(), &ledger);
    let cut_off = plan.iter().any(Partition::is_of_a_worker);
    if cut_off && noted.takeovers == 0 {
        ledger.violation(
            "I10",
            "-",
            "-",
            "nobody took over from a worker that was cut off",
        );
    }
    recovery::print(&run, &plan, &recoveries);
    println!("{:?}\n{noted:?}", ledger.counts());
    aftermath::verdict(&ledger, dir);
}

fn world(ledger: &Arc<Ledger>, seed: u64, fronts: Vec<String>) -> Arc<World> {
    Arc::new(World {
        fronts,
        ledger: ledger.clone(),
        seed,
        programs: false,
        over: CancellationToken::new(),
        sessions: Default::default(),
    })
}

/// Until clients have asked something more.
async fn under_way(ledger: &Ledger) {
    let asked = ledger.counts().prompts + WARM;
    while ledger.counts().prompts < asked {
        sleep(Duration::from_millis(20)).await;
    }
}

async fn everybody_leaves(world: &World, clients: JoinSet<()>) {
    let ledger = &world.ledger;
    if roles::leave(world, clients).await {
        let found = || machines::ask(&["eval", aftermath::LEFTOVERS, "0"]);
        aftermath::store_is_clean(found, ledger).await;
        for (host, front) in GATEWAYS.iter().zip(&world.fronts) {
            aftermath::gateway_is_idle(&host.to_string(), front, ledger).await;
        }
        aftermath::history_at(&world.fronts[0], ledger).await;
    }
    ledger.close();
}
