//! What can go wrong, by what it goes wrong with.

use std::fmt;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Gateways come first, then workers.
    Member(usize, ProcessFault),
    /// The way from the clients to this gateway.
    Front(usize, WayFault),
    /// One of the ways to the store.
    Way(usize, WayFault),
    Store(StoreFault),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessFault {
    /// kill -9, started again a moment later.
    Kill,
    /// SIGSTOP past the lease, then SIGCONT: a zombie that still believes in its claims.
    Pause,
    /// SIGTERM, started again when it has ended.
    Term,
    /// Its clock is wrong for a while.
    Clock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WayFault {
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
}

/// How a server goes away, and comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// kill -9; it comes back with its append-only file.
    Kill,
    /// SIGSTOP and SIGCONT.
    Pause,
    /// The network: connections break, and there are no others.
    Cut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreFault {
    /// All of it is away.
    Outage(By),
    /// One of its primaries is away.
    Node(By),
    /// kill -9 of a primary; it comes back when a replica has its place.
    Lose,
    /// An operator changes primaries.
    Failover,
    /// A primary's replicas get nothing for a while, then it is killed, and one of them has its place.
    LossyFailover,
    /// Slots move from one primary to another.
    Reshard,
    /// There is no memory left for a while.
    Full,
    ScriptFlush,
    KillSubscribers,
    KillConnections,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub at: Duration,
    pub fault: Fault,
    pub lasts: Duration,
    /// Says which, if there are several when the time has come.
    pub pick: usize,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, lasts) = (self.at.as_secs_f32(), self.lasts.as_millis());
        write!(f, "{at:8.2} s  {:?} for {lasts} ms", self.fault)
    }
}

impl Fault {
    /// Whether both strike the same.
    pub fn shares_target(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Member(one, _), Self::Member(other, _))
            | (Self::Front(one, _), Self::Front(other, _))
            | (Self::Way(one, _), Self::Way(other, _)) => one == other,
            (Self::Store(_), Self::Store(_)) => true,
            _ => false,
        }
    }

    /// As the report counts it.
    pub fn label(&self, gateways: usize) -> String {
        match self {
            Self::Member(number, fault) if *number < gateways => format!("{fault:?}, gateway"),
            Self::Member(_, fault) => format!("{fault:?}, worker"),
            Self::Front(_, fault) => format!("{fault:?}, clients' connections"),
            Self::Way(_, fault) => format!("{fault:?}, connections to the store"),
            Self::Store(fault) => format!("{fault:?}, store"),
        }
    }
}
