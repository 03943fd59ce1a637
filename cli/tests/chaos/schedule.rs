//! What goes wrong when: a list that follows from the seed alone.

use std::fmt;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::fleet::{GATEWAYS, WORKERS};

/// A worker that is silent for this long is taken over.
pub const LEASE: Duration = Duration::from_millis(2000);

/// What is struck. Gateways come first, then workers; each has its own way to Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    Member(usize),
    /// The way from the clients to this gateway.
    Front(usize),
    /// The way from this member to Redis.
    Store(usize),
    Redis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// kill -9, started again a moment later; Redis comes back with its append-only file.
    Kill,
    /// SIGSTOP past the lease, then SIGCONT: a zombie that still believes in its claims.
    Pause,
    /// SIGTERM, started again when it has ended.
    Term,
    /// Every connection of this way breaks.
    Cut,
    /// Requests still get through; instead of the reply the connection breaks.
    CutReply,
    /// Nothing moves and nothing breaks; then it goes on.
    Stall,
    /// Half a second each way.
    Slow,
    /// Writes arrive in small pieces.
    Slice,
    ScriptFlush,
    KillSubscribers,
    KillConnections,
    /// kill -9 of the primary; its replica takes its place with what it has by then.
    Failover,
}

/// Kinds, how often they come relative to each other, and what they may strike. A Redis with a
/// replica fails over where one without is killed.
const MIX: &[(Kind, u32, &[Target])] = &[
    (Kind::Kill, 8, &MEMBERS),
    (Kind::Kill, 2, &[Target::Redis]),
    (Kind::Failover, 4, &[Target::Redis]),
    (Kind::Pause, 4, &MEMBERS),
    (Kind::Pause, 1, &[Target::Redis]),
    (Kind::Term, 4, &MEMBERS),
    (Kind::Cut, 5, &WAYS),
    (Kind::CutReply, 4, &WAYS),
    (Kind::Stall, 4, &WAYS),
    (Kind::Slow, 2, &WAYS),
    (Kind::Slice, 2, &WAYS),
    (Kind::ScriptFlush, 1, &[Target::Redis]),
    (Kind::KillSubscribers, 2, &[Target::Redis]),
    (Kind::KillConnections, 2, &[Target::Redis]),
];

const MEMBERS: [Target; GATEWAYS + WORKERS] = {
    let mut all = [Target::Redis; GATEWAYS + WORKERS];
    let mut at = 0;
    while at < all.len() {
        all[at] = Target::Member(at);
        at += 1;
    }
    all
};

const WAYS: [Target; 2 * GATEWAYS + WORKERS] = {
    let mut all = [Target::Redis; 2 * GATEWAYS + WORKERS];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < GATEWAYS {
            Target::Front(at)
        } else {
            Target::Store(at - GATEWAYS)
        };
        at += 1;
    }
    all
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub at: Duration,
    pub kind: Kind,
    pub target: Target,
    pub lasts: Duration,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, lasts) = (self.at.as_secs_f32(), self.lasts.as_millis());
        write!(
            f,
            "{at:8.2} s  {:?} {:?} for {lasts} ms",
            self.kind, self.target
        )
    }
}

/// Faults for so long. They overlap, but nothing is struck again before it is well.
pub fn plan(seed: u64, length: Duration, replica: bool) -> Vec<Step> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut steps: Vec<Step> = Vec::new();
    let mut at = Duration::from_millis(500);
    while at < length {
        let (kind, target) = pick(&mut rng, replica);
        let lasts = Duration::from_millis(match kind {
            Kind::Kill | Kind::Failover => rng.random_range(0..1500),
            Kind::Pause => rng.random_range(500..2 * LEASE.as_millis() as u64 + 500),
            Kind::Stall => rng.random_range(300..4000),
            Kind::Slow | Kind::Slice => rng.random_range(500..4000),
            Kind::CutReply => rng.random_range(50..1500),
            _ => 0,
        });
        // SIGTERM takes its own time; a process needs a moment to start.
        let recovery = Duration::from_millis(match kind {
            Kind::Term | Kind::Failover => 4000,
            _ => 500,
        });
        let busy = |step: &Step| step.target == target && step.at + step.lasts + recovery > at;
        if !steps.iter().any(busy) {
            steps.push(Step {
                at,
                kind,
                target,
                lasts,
            });
        }
        at += Duration::from_millis(rng.random_range(100..900));
    }
    steps
}

fn pick(rng: &mut StdRng, replica: bool) -> (Kind, Target) {
    let fits = |kind: Kind, targets: &[Target]| match kind {
        Kind::Failover => replica,
        Kind::Kill => !replica || targets[0] != Target::Redis,
        _ => true,
    };
    let mix = || MIX.iter().filter(|(kind, _, targets)| fits(*kind, targets));
    let mut left = rng.random_range(0..mix().map(|(_, weight, _)| weight).sum());
    for (kind, weight, targets) in mix() {
        if left < *weight {
            return (*kind, targets[rng.random_range(0..targets.len())]);
        }
        left -= weight;
    }
    unreachable!("the weights add up to the total")
}

#[test]
fn a_seed_is_a_schedule() {
    let minute = Duration::from_secs(60);
    assert_eq!(plan(7, minute, false), plan(7, minute, false));
    assert_ne!(plan(7, minute, false), plan(8, minute, false));
    for (replica, all) in [(false, 11), (true, 12)] {
        let steps = plan(7, minute * 10, replica);
        let kinds: std::collections::BTreeSet<_> = steps.iter().map(|step| step.kind).collect();
        assert_eq!(kinds.len(), all, "every kind has its turn: {kinds:?}");
    }
}
