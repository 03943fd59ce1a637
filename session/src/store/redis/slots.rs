//! Which node of a Cluster has which slot, as its nodes say. All connections of a process share it.
//! It may be out of date at any time: a node that is asked for a slot it has not knows better, and
//! says so.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use redis::{Cmd, ErrorKind, RedisError};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use super::login::ServerLogin;
use super::server_connection::NodeConnections;
use super::servers::ServerAddress;
use super::slot_map::SlotMap;

/// How often nodes are asked without an occasion.
const ASK_EVERY: Duration = Duration::from_secs(2);
/// The least time between two rounds: whoever is in doubt meanwhile shares the next.
const MIN_PAUSE: Duration = Duration::from_millis(50);
/// How many are asked in one round; a large cluster's nodes take turns.
const ASKED: usize = 8;
/// Once one has answered, how long others are waited for, each.
const LATE: Duration = Duration::from_millis(50);

pub(super) struct ClusterSlots {
    /// As the URL names them.
    seeds: Vec<ServerLogin>,
    /// For these questions only: they must not wait behind anything.
    connections: NodeConnections,
    known: watch::Sender<Arc<SlotMap>>,
    rounds: AtomicUsize,
    doubt: Arc<Notify>,
}

impl ClusterSlots {
    /// There is at least one seed.
    pub fn new(seeds: Vec<ServerLogin>) -> Self {
        Self {
            connections: NodeConnections::new(seeds[0].clone()),
            seeds,
            known: watch::Sender::default(),
            rounds: AtomicUsize::default(),
            doubt: Arc::default(),
        }
    }

    /// How to log in at any node.
    pub fn login(&self) -> &ServerLogin {
        &self.seeds[0]
    }

    #[cfg(test)]
    pub fn seeds(&self) -> impl Iterator<Item = &ServerLogin> {
        self.seeds.iter()
    }

    pub fn map(&self) -> Arc<SlotMap> {
        self.known.borrow().clone()
    }

    /// For those who want to know when something has changed.
    pub fn changes(&self) -> watch::Receiver<Arc<SlotMap>> {
        self.known.subscribe()
    }

    /// The node that has the slot. Without one, the nodes are asked again.
    pub fn owner(&self, slot: u16) -> Result<ServerAddress, RedisError> {
        let owner = self.known.borrow().owner(slot).cloned();
        owner.ok_or_else(|| {
            self.request_refresh();
            RedisError::from((ErrorKind::Io, "no node of the Cluster has the slot"))
        })
    }

    /// A node has said who has the slot. Others may have moved with it.
    pub fn learn(&self, slot: u16, owner: &ServerAddress) {
        self.known.send_if_modified(|known| {
            let moved = known.owner(slot) != Some(owner);
            if moved {
                Arc::make_mut(known).put(slot, owner);
            }
            moved
        });
        self.request_refresh();
    }

    /// The map may be wrong: the nodes are asked soon.
    pub fn request_refresh(&self) {
        self.doubt.notify_one();
    }

    /// Asks now and then, and whenever somebody is in doubt; ends with the last owner.
    pub fn follow(self: &Arc<Self>) {
        async fn follow(slots: Weak<ClusterSlots>, doubt: Arc<Notify>) {
            loop {
                let _ = timeout(ASK_EVERY, doubt.notified()).await;
                let Some(slots) = slots.upgrade() else {
                    return;
                };
                // Without an answer everything stays as it is.
                let _ = slots.ask().await;
                drop(slots);
                sleep(MIN_PAUSE).await;
            }
        }
        tokio::spawn(follow(Arc::downgrade(self), self.doubt.clone()));
    }

    /// Asks nodes side by side and believes what most of them say: one that was cut off may still
    /// name those of yesterday.
    pub async fn ask(&self) -> Result<(), Arc<RedisError>> {
        let nodes = self.candidates();
        let mut asked: FuturesUnordered<_> = nodes.iter().map(|node| self.ask_node(node)).collect();
        let mut votes: Vec<(SlotMap, usize)> = Vec::new();
        let mut failure = None;
        loop {
            let answer = if votes.is_empty() {
                asked.next().await
            } else {
                timeout(LATE, asked.next()).await.unwrap_or_default()
            };
            match answer {
                Some(Ok(map)) => match votes.iter_mut().find(|(known, _)| *known == map) {
                    Some((_, votes)) => *votes += 1,
                    None => votes.push((map, 1)),
                },
                Some(Err(error)) => failure = Some(error),
                None => break,
            }
            if votes.iter().any(|(_, votes)| votes * 2 > nodes.len()) {
                break;
            }
        }
        // The first of those with most votes; `max_by_key` would take the last.
        let best = votes.into_iter().rev().max_by_key(|(_, votes)| *votes);
        match (best, failure) {
            (Some((map, _)), _) => {
                self.accept_map(map);
                Ok(())
            }
            (None, Some(error)) => Err(error),
            (None, None) => Err(Arc::new(RedisError::from((
                ErrorKind::Io,
                "there is no node to ask",
            )))),
        }
    }

    fn accept_map(&self, map: SlotMap) {
        self.known.send_if_modified(|known| {
            let changed = **known != map;
            if changed {
                if known.is_known() && !known.has_same_primaries(&map) {
                    tracing::info!(primaries = %map, "the Redis Cluster has changed");
                }
                *known = Arc::new(map);
            }
            changed
        });
    }

    async fn ask_node(&self, node: &ServerAddress) -> Result<SlotMap, Arc<RedisError>> {
        let question: Cmd = redis::cmd("CLUSTER").arg("SLOTS").clone();
        let answer = self.connections.to(node).send(&question).await?;
        SlotMap::read(&answer, node).ok_or_else(|| {
            let what = "a node of the Cluster serves no slots";
            Arc::new(RedisError::from((ErrorKind::Io, what)))
        })
    }

    /// The nodes to ask this time: those that the URL names, for when all addresses have changed,
    /// and others.
    fn candidates(&self) -> Vec<ServerAddress> {
        let mut nodes: Vec<ServerAddress> = self.seeds.iter().map(ServerLogin::address).collect();
        let map = self.map();
        for node in map.nodes() {
            if !nodes.contains(node) {
                nodes.push(node.clone());
            }
        }
        let round = self.rounds.fetch_add(1, Ordering::Relaxed);
        let from = round.wrapping_mul(ASKED) % nodes.len();
        nodes.rotate_left(from);
        nodes.truncate(ASKED);
        nodes
    }
}
