//! Carries the schedule out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::fault::{Fault, ProcessFault, Step, WayFault};
use crate::fleet::Fleet;
use crate::support::proxy::{Mood, Proxy};

/// How often each kind struck what.
pub type Struck = Arc<Mutex<BTreeMap<String, u64>>>;

/// Returns when the last fault is over and everything runs again.
pub async fn run(fleet: Arc<Fleet>, steps: Vec<Step>, struck: Struck) {
    let began = Instant::now();
    let mut under_way = JoinSet::new();
    for step in steps {
        sleep_until(began + step.at).await;
        let label = step.fault.label(fleet.setup.gateways());
        let mut struck = struck.lock().expect("not poisoned");
        *struck.entry(label).or_default() += 1;
        under_way.spawn(strike(fleet.clone(), step));
    }
    under_way.join_all().await;
    fleet.heal().await;
}

async fn strike(fleet: Arc<Fleet>, step: Step) {
    let trace = |what: &str| fleet.ledger.trace("chaos", &format!("{what}: {step}"));
    trace("begins");
    if let Some(number) = harmed(&fleet, step.fault) {
        fleet.ledger.harmed(&fleet.members[number].name);
    }
    match step.fault {
        Fault::Member(number, ProcessFault::Term) => {
            fleet.ledger.stopping(&fleet.members[number].name);
        }
        Fault::Store(_) => fleet.ledger.store_struck(),
        _ => {}
    }
    match step.fault {
        Fault::Member(number, fault) => member(&fleet, number, fault, &step).await,
        Fault::Front(number, fault) => {
            if let Some((_, proxy)) = &fleet.members[number].front {
                way(proxy, fault, step.lasts).await;
            }
        }
        Fault::Way(number, fault) => {
            if let Some(servers) = &fleet.servers {
                way(&servers.ways[number], fault, step.lasts).await;
            }
        }
        Fault::Store(fault) => {
            if let Some(servers) = &fleet.servers {
                servers.strike(fault, &step, &fleet.ledger).await;
            }
        }
    }
    trace("is over");
}

/// The member that others may take for dead while this lasts. One that is told to stop first ends what it has begun.
fn harmed(fleet: &Fleet, fault: Fault) -> Option<usize> {
    match fault {
        Fault::Member(number, ProcessFault::Kill | ProcessFault::Pause) => Some(number),
        // Where each has its own.
        Fault::Way(number, _) => (!fleet.setup.shares_ways()).then_some(number),
        _ => None,
    }
}

async fn member(fleet: &Fleet, number: usize, fault: ProcessFault, step: &Step) {
    let member = &fleet.members[number];
    let _struck = member.struck.lock().await;
    match fault {
        ProcessFault::Kill => {
            member.kill();
            sleep(step.lasts).await;
            member.start();
        }
        ProcessFault::Pause => {
            member.signal("STOP");
            sleep(step.lasts).await;
            member.signal("CONT");
        }
        ProcessFault::Term => {
            member.terminate().await;
            member.start();
        }
        ProcessFault::Clock => {
            // A token that was issued an hour ahead of its time is refused for an hour, and no client of
            // this test opens another connection: where tokens are issued, the clock stays within what is tolerated.
            let offsets: &[&str] = match member.front {
                Some(_) => &["+30s", "-30s"],
                None => &["+1h", "-1h", "+30s", "-30s"],
            };
            member.set_clock(offsets[step.pick % offsets.len()]);
            sleep(step.lasts).await;
            member.set_clock("+0");
        }
    }
}

async fn way(proxy: &Proxy, fault: WayFault, lasts: Duration) {
    proxy.set(match fault {
        WayFault::Cut => return proxy.cut(),
        WayFault::CutReply => Mood::CutsReplies,
        WayFault::Stall => Mood::Stalled,
        WayFault::Slow => Mood::Slow(Duration::from_millis(500)),
        WayFault::Slice => Mood::Sliced,
    });
    sleep(lasts).await;
    proxy.set(Mood::Clear);
}
