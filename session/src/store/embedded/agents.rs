//! Registered agents, and which of their workers are alive. Not persistent: the worker of this
//! process registers before anybody asks.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use crate::store::{AgentCard, PLACE_KEPT, WorkerId};

#[derive(Default)]
pub struct AgentRegistry {
    by_name: BTreeMap<String, RegisteredAgent>,
    /// How many workers ever came.
    came: u64,
}

struct RegisteredAgent {
    /// Of the worker that came last of those alive.
    card: AgentCard,
    workers: HashMap<WorkerId, RegisteredWorker>,
}

struct RegisteredWorker {
    /// Which of all workers it was.
    came: u64,
    until: Instant,
}

impl AgentRegistry {
    pub fn register(&mut self, card: &AgentCard, worker: &WorkerId, lasts: Duration) {
        let now = Instant::now();
        let agent = self.by_name.entry(card.name.clone());
        let agent = agent.or_insert_with(|| RegisteredAgent {
            card: card.clone(),
            workers: HashMap::new(),
        });
        let workers = &mut agent.workers;
        workers.retain(|_, other| other.until + PLACE_KEPT > now);
        let own = workers.entry(worker.clone()).or_insert_with(|| {
            self.came += 1;
            RegisteredWorker {
                came: self.came,
                until: now,
            }
        });
        own.until = now + lasts;
        let own = own.came;
        let later = |other: &RegisteredWorker| other.came > own && other.until > now;
        if !workers.values().any(later) {
            agent.card = card.clone();
        }
    }

    /// With the number of workers alive.
    pub fn cards(&self) -> Vec<(AgentCard, usize)> {
        let now = Instant::now();
        let counted = |agent: &RegisteredAgent| {
            let alive = agent.workers.values().filter(|worker| worker.until > now);
            (agent.card.clone(), alive.count())
        };
        self.by_name.values().map(counted).collect()
    }

    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.by_name.keys()
    }

    pub fn is_alive(&self, name: &str) -> bool {
        let now = Instant::now();
        let agent = self.by_name.get(name);
        agent.is_some_and(|agent| agent.workers.values().any(|worker| worker.until > now))
    }

    /// Forgets those that no worker has run for so long.
    pub fn retire(&mut self, unused: Duration) {
        let now = Instant::now();
        let is_used = |agent: &RegisteredAgent| {
            let mut workers = agent.workers.values();
            workers.any(|worker| worker.until + unused > now)
        };
        self.by_name.retain(|_, agent| is_used(agent));
    }
}
