//! What a run is about: which store, how long, and what may go wrong with it.

use std::fmt;
use std::time::Duration;

use crate::fault::{By, StoreFault};
use crate::ledger::Rules;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// One server that keeps what it acknowledged.
    Redis,
    /// A server and a replica, and somebody who promotes it by hand.
    Replica,
    /// A primary, two replicas and three sentinels.
    Sentinel,
    /// Three primaries with a replica each.
    Cluster,
    /// The same, of Valkey.
    Valkey,
    /// One process that is everything.
    Files,
}

#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub store: Store,
    /// Replicas are held back before they are promoted: what was acknowledged last is gone.
    pub loss: bool,
    pub seed: u64,
    pub seconds: u64,
    /// A soak: so many sessions with a turn now and then, and a fault every ten seconds.
    pub soak: Option<usize>,
}

/// By name, as the Makefile has it.
const STORES: [(&str, Store); 6] = [
    ("redis", Store::Redis),
    ("replica", Store::Replica),
    ("sentinel", Store::Sentinel),
    ("cluster", Store::Cluster),
    ("valkey", Store::Valkey),
    ("files", Store::Files),
];

/// How often something goes wrong with the store, relative to each other and to what happens to processes.
type Mix = &'static [(u32, StoreFault)];

const ONE: Mix = &[
    (2, StoreFault::Outage(By::Kill)),
    (1, StoreFault::Outage(By::Pause)),
    (1, StoreFault::Outage(By::Cut)),
    (1, StoreFault::Full),
    (1, StoreFault::ScriptFlush),
    (2, StoreFault::KillSubscribers),
    (2, StoreFault::KillConnections),
];
const PAIR: Mix = &[
    (4, StoreFault::Lose),
    (1, StoreFault::Outage(By::Pause)),
    (1, StoreFault::ScriptFlush),
    (2, StoreFault::KillSubscribers),
    (2, StoreFault::KillConnections),
];
const WATCHED: Mix = &[
    (1, StoreFault::Outage(By::Kill)),
    (1, StoreFault::Outage(By::Pause)),
    (1, StoreFault::Outage(By::Cut)),
    (2, StoreFault::Node(By::Kill)),
    (2, StoreFault::Node(By::Pause)),
    (2, StoreFault::Node(By::Cut)),
    (3, StoreFault::Lose),
    (3, StoreFault::Failover),
    (1, StoreFault::Full),
    (1, StoreFault::ScriptFlush),
    (1, StoreFault::KillSubscribers),
    (1, StoreFault::KillConnections),
];
const RESHARD: Mix = &[(4, StoreFault::Reshard)];
const LOSS: Mix = &[(6, StoreFault::LossyFailover)];

impl Setup {
    /// As the environment says; `CHAOS_STORE` and what it means belong to the run that takes it.
    pub fn new(store: Store, seconds: u64) -> Self {
        Self {
            store,
            loss: false,
            seed: seed(),
            seconds: number("CHAOS_SECONDS").unwrap_or(seconds),
            soak: None,
        }
    }

    /// The run that `make chaos` asks for.
    pub fn asked(seconds: u64) -> Self {
        let store = text("CHAOS_STORE").map_or(Store::Redis, |name| {
            let found = STORES.iter().find(|(known, _)| *known == name);
            let names = STORES.map(|(name, _)| name).join(", ");
            let (_, store) = found.unwrap_or_else(|| panic!("STORE is one of {names}, not {name}"));
            *store
        });
        let setup = Self {
            loss: number("CHAOS_LOSS").unwrap_or(0) != 0,
            soak: number("CHAOS_SOAK").map(|sessions| sessions as usize),
            ..Self::new(store, seconds)
        };
        let can_lose = matches!(store, Store::Sentinel | Store::Cluster | Store::Valkey);
        assert!(
            can_lose || !setup.loss,
            "LOSS=1 needs replicas that are held back: STORE=sentinel, cluster or valkey"
        );
        setup
    }

    pub fn length(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    pub fn gateways(&self) -> usize {
        match self.store {
            Store::Files => 1,
            _ => 2,
        }
    }

    pub fn workers(&self) -> usize {
        match self.store {
            Store::Files => 0,
            _ => 3 + self.programs(),
        }
    }

    /// So many of the workers, the last, run an agent that is a program; the others the scripted one. One process
    /// that is everything has one agent.
    pub fn programs(&self) -> usize {
        match self.store {
            Store::Files => 0,
            _ => 2,
        }
    }

    pub fn members(&self) -> usize {
        self.gateways() + self.workers()
    }

    /// Servers that keep data.
    pub fn nodes(&self) -> usize {
        match self.store {
            Store::Redis => 1,
            Store::Replica => 2,
            Store::Sentinel => 3,
            Store::Cluster | Store::Valkey => 6,
            Store::Files => 0,
        }
    }

    pub fn is_cluster(&self) -> bool {
        matches!(self.store, Store::Cluster | Store::Valkey)
    }

    /// Ways to the store that can break one by one. Where servers tell their own addresses, all members share the
    /// way to each of them.
    pub fn ways(&self) -> usize {
        if self.shares_ways() {
            self.nodes()
        } else {
            self.members()
        }
    }

    pub fn shares_ways(&self) -> bool {
        !matches!(self.store, Store::Redis | Store::Replica)
    }

    /// Only what replicas have survives a failover.
    pub fn durability(&self) -> &'static str {
        match self.store {
            Store::Redis | Store::Files => "fast",
            _ if self.loss => "fast",
            _ => "replicated",
        }
    }

    /// The words of a turn are not waited for: whoever saw what is lost then is told so.
    pub fn rules(&self) -> Rules {
        Rules {
            resets: !matches!(self.store, Store::Redis | Store::Files),
        }
    }

    /// What the store may suffer.
    pub fn store_faults(&self) -> Vec<(u32, StoreFault)> {
        let mixes: &[Mix] = match self.store {
            Store::Redis => &[ONE],
            Store::Replica => &[PAIR],
            Store::Sentinel => &[WATCHED],
            Store::Cluster | Store::Valkey => &[WATCHED, RESHARD],
            Store::Files => &[],
        };
        let losses = if self.loss { LOSS } else { &[] };
        mixes
            .concat()
            .into_iter()
            .chain(losses.iter().copied())
            .collect()
    }
}

/// As one says it to `make chaos`.
impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = STORES.iter().find(|(_, store)| *store == self.store);
        let (name, _) = name.expect("every store has a name");
        let loss = if self.loss { " LOSS=1" } else { "" };
        write!(f, "SEED={} STORE={name}{loss}", self.seed)
    }
}

pub fn seed() -> u64 {
    number("CHAOS_SEED").unwrap_or(1)
}

fn text(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

fn number(name: &str) -> Option<u64> {
    let text = text(name)?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name} must be a number, not {text:?}")))
}
