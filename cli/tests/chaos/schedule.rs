//! What goes wrong when: a list that follows from the seed alone.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::fault::{By, Fault, ProcessFault, Step, StoreFault, WayFault};
use crate::setup::Setup;

/// A worker that is silent for this long is taken over.
pub const LEASE: Duration = Duration::from_millis(2000);
/// When all of the store was away for longer than a lease, nothing else goes wrong for this long.
const QUIET: Duration = Duration::from_secs(4);

/// In a soak, between two faults.
const SOAKING: Duration = Duration::from_secs(10);

/// Faults of processes and connections, and how often they come relative to each other.
const MEMBERS: [(u32, ProcessFault); 4] = [
    (8, ProcessFault::Kill),
    (4, ProcessFault::Pause),
    (4, ProcessFault::Term),
    (1, ProcessFault::Clock),
];
const WAYS: [(u32, WayFault); 5] = [
    (5, WayFault::Cut),
    (4, WayFault::CutReply),
    (4, WayFault::Stall),
    (2, WayFault::Slow),
    (2, WayFault::Slice),
];

/// A fault, before it is settled which of several it strikes.
#[derive(Clone, Copy)]
enum Class {
    Member(ProcessFault),
    Way(WayFault),
    Store(StoreFault),
}

/// Faults for so long. They overlap, but nothing is struck again before it is well.
pub fn plan(setup: &Setup) -> Vec<Step> {
    let mut rng = StdRng::seed_from_u64(setup.seed);
    let mix = mix(setup);
    let mut steps: Vec<Step> = Vec::new();
    let mut at = Duration::from_millis(500);
    while at < setup.length() {
        let fault = settle(pick(&mix, &mut rng), setup, &mut rng);
        let lasts = Duration::from_millis(lasting(&fault, &mut rng));
        let pick = rng.random_range(0..1000);
        let busy = |step: &Step| {
            step.fault.shares_target(&fault) && step.at + step.lasts + recovery(&fault) > at
        };
        if !steps.iter().any(busy) {
            steps.push(Step {
                at,
                fault,
                lasts,
                pick,
            });
            if matches!(fault, Fault::Store(StoreFault::Outage(_))) && lasts > LEASE {
                at += lasts + QUIET;
            }
        }
        at += match setup.soak {
            None => Duration::from_millis(rng.random_range(100..900)),
            Some(_) => SOAKING,
        };
    }
    steps
}

fn mix(setup: &Setup) -> Vec<(u32, Class)> {
    let members = MEMBERS.map(|(weight, fault)| (weight, Class::Member(fault)));
    let ways = WAYS.map(|(weight, fault)| (weight, Class::Way(fault)));
    let store = setup.store_faults().into_iter();
    let store = store.map(|(weight, fault)| (weight, Class::Store(fault)));
    members.into_iter().chain(ways).chain(store).collect()
}

fn pick(mix: &[(u32, Class)], rng: &mut StdRng) -> Class {
    let mut left = rng.random_range(0..mix.iter().map(|(weight, _)| weight).sum());
    for (weight, class) in mix {
        if left < *weight {
            return *class;
        }
        left -= weight;
    }
    unreachable!("the weights add up to the total")
}

fn settle(class: Class, setup: &Setup, rng: &mut StdRng) -> Fault {
    match class {
        // Reading a clock that can be set takes longer: only the last member has one.
        Class::Member(ProcessFault::Clock) => {
            Fault::Member(setup.members() - 1, ProcessFault::Clock)
        }
        Class::Member(fault) => Fault::Member(rng.random_range(0..setup.members()), fault),
        Class::Way(fault) => {
            let way = rng.random_range(0..setup.gateways() + setup.ways());
            match way.checked_sub(setup.gateways()) {
                Some(way) => Fault::Way(way, fault),
                None => Fault::Front(way, fault),
            }
        }
        Class::Store(fault) => Fault::Store(fault),
    }
}

/// How long it lasts, in milliseconds.
fn lasting(fault: &Fault, rng: &mut StdRng) -> u64 {
    let lease = LEASE.as_millis() as u64;
    match fault {
        Fault::Member(_, fault) => match fault {
            ProcessFault::Kill => rng.random_range(0..1500),
            ProcessFault::Pause => rng.random_range(500..2 * lease + 500),
            ProcessFault::Clock => rng.random_range(500..5000),
            ProcessFault::Term => 0,
        },
        Fault::Front(_, fault) | Fault::Way(_, fault) => match fault {
            WayFault::Stall => rng.random_range(300..4000),
            WayFault::Slow | WayFault::Slice => rng.random_range(500..4000),
            WayFault::CutReply => rng.random_range(50..1500),
            WayFault::Cut => 0,
        },
        Fault::Store(fault) => match fault {
            // Most are short; the long ones are where leases run out.
            StoreFault::Outage(_) | StoreFault::Node(_) if rng.random_bool(0.6) => {
                rng.random_range(lease / 10..lease)
            }
            StoreFault::Outage(_) | StoreFault::Node(_) => rng.random_range(lease..3 * lease),
            StoreFault::Lose => rng.random_range(0..1500),
            StoreFault::LossyFailover => rng.random_range(100..2000),
            StoreFault::Full => rng.random_range(500..3000),
            StoreFault::Failover
            | StoreFault::Reshard
            | StoreFault::ScriptFlush
            | StoreFault::KillSubscribers
            | StoreFault::KillConnections => 0,
        },
    }
}

/// How long after the last fault of the same thing this one may come.
fn recovery(fault: &Fault) -> Duration {
    Duration::from_millis(match fault {
        // SIGTERM takes its own time; a process needs a moment to start.
        Fault::Member(_, ProcessFault::Term) => 4000,
        Fault::Store(StoreFault::Lose | StoreFault::LossyFailover) => 4000,
        Fault::Store(StoreFault::Failover | StoreFault::Reshard) => 2000,
        Fault::Store(StoreFault::Node(By::Kill | By::Pause | By::Cut)) => 2000,
        Fault::Member(..) | Fault::Front(..) | Fault::Way(..) | Fault::Store(_) => 500,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::Store;

    fn setup(store: Store, seed: u64, loss: bool) -> Setup {
        Setup {
            store,
            loss,
            seed,
            seconds: 600,
            soak: None,
        }
    }

    #[test]
    fn a_seed_is_a_schedule() {
        let steps = |seed| plan(&setup(Store::Redis, seed, false));
        assert_eq!(steps(7), steps(7));
        assert_ne!(steps(7), steps(8));
    }

    #[test]
    fn every_fault_of_every_store_has_its_turn() {
        use Store::{Cluster, Files, Redis, Replica, Sentinel, Valkey};
        for store in [Redis, Replica, Sentinel, Cluster, Valkey, Files] {
            for loss in [false, true] {
                let setup = setup(store, 7, loss);
                let steps = plan(&setup);
                for (_, fault) in setup.store_faults() {
                    let comes = |step: &Step| step.fault == Fault::Store(fault);
                    assert!(steps.iter().any(comes), "{setup}: no {fault:?}");
                }
                for way in 0..setup.ways() {
                    let comes = |step: &Step| matches!(step.fault, Fault::Way(at, _) if at == way);
                    assert!(steps.iter().any(comes), "{setup}: nothing on way {way}");
                }
            }
        }
    }

    #[test]
    fn a_long_outage_is_followed_by_quiet() {
        let steps = plan(&setup(Store::Redis, 7, false));
        let outage = |step: &Step| matches!(step.fault, Fault::Store(StoreFault::Outage(_)));
        let mut long = 0;
        for pair in steps.windows(2) {
            if outage(&pair[0]) && pair[0].lasts > LEASE {
                long += 1;
                assert!(pair[1].at >= pair[0].at + pair[0].lasts + QUIET);
            }
        }
        assert!(long > 3, "{long} long outages");
    }
}
