//! Who does not reach whom, and for how long.

use std::fmt;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::network::{Host, Network};
use crate::schedule::LEASE;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    pub from: Host,
    pub to: Host,
    /// The other way round, too.
    pub both: bool,
    pub lasts: Duration,
}

/// The shortest, longer than a lease.
const SHORT: Duration = Duration::from_millis(3000);
const LONG: Duration = Duration::from_millis(6000);

/// Of each kind of link, what is cut off in a short run.
pub fn some() -> Vec<Partition> {
    use Host::{Clients, Gateway, Redis, Worker};
    let cut = |from, to| Partition {
        from,
        to,
        both: false,
        lasts: SHORT,
    };
    vec![
        cut(Worker(0), Redis),
        cut(Redis, Gateway(0)),
        cut(Redis, Worker(1)),
        cut(Gateway(1), Redis),
        cut(Gateway(0), Clients),
    ]
}

/// Each link that somebody uses, in either direction and in both.
pub fn all(seed: u64) -> Vec<Partition> {
    use Host::{Clients, Gateway, Redis, Replica, Worker};
    let mut links = vec![(Redis, Replica)];
    for number in 0..2 {
        links.push((Gateway(number), Redis));
        links.push((Worker(number), Redis));
        links.push((Clients, Gateway(number)));
    }
    every_way(&links, seed)
}

/// What only matters where replicas confirm.
pub fn of_the_replica(seed: u64) -> Vec<Partition> {
    every_way(&[(Host::Redis, Host::Replica)], seed)
}

/// For so long as the seed says, in an order that it gives.
fn every_way(links: &[(Host, Host)], seed: u64) -> Vec<Partition> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut plan: Vec<Partition> = Vec::new();
    for (one, other) in links {
        for (from, to, both) in [(one, other, false), (other, one, false), (one, other, true)] {
            let (from, to) = (*from, *to);
            let lasts = rng.random_range(SHORT..LONG);
            let at = rng.random_range(0..=plan.len());
            plan.insert(
                at,
                Partition {
                    from,
                    to,
                    both,
                    lasts,
                },
            );
        }
    }
    plan
}

impl Partition {
    pub fn begin(&self, network: &Network) {
        self.ways().for_each(|(from, to)| network.cut(from, to));
    }

    pub fn end(&self, network: &Network) {
        self.ways().for_each(|(from, to)| network.mend(from, to));
    }

    fn ways(&self) -> impl Iterator<Item = (Host, Host)> {
        let back = self.both.then_some((self.to, self.from));
        std::iter::once((self.from, self.to)).chain(back)
    }

    pub fn is_of_the_replica(&self) -> bool {
        self.from == Host::Replica || self.to == Host::Replica
    }

    /// Whether others may take over from a worker meanwhile.
    pub fn is_of_a_worker(&self) -> bool {
        matches!(self.from, Host::Worker(_)) || matches!(self.to, Host::Worker(_))
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arrow = if self.both { "↔" } else { "→" };
        let lasts = self.lasts.as_millis();
        write!(f, "{} {arrow} {}, {lasts} ms", self.from, self.to)
    }
}

#[test]
fn every_link_is_cut_in_every_direction_for_longer_than_a_lease() {
    let plan = all(7);
    assert_eq!(plan, all(7));
    assert_ne!(plan, all(8));
    assert_eq!(plan.len(), 21);
    for (at, one) in plan.iter().enumerate() {
        assert!(one.lasts > LEASE, "{one}");
        let same =
            |other: &Partition| (other.from, other.to, other.both) == (one.from, one.to, one.both);
        assert!(!plan[at + 1..].iter().any(same), "{one} twice");
    }
    assert!(some().iter().all(|one| one.lasts > LEASE));
}
