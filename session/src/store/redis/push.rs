//! The push connections: a sharded subscription per topic, on one connection to the primary or one
//! to each node of a Cluster that has channels we want. Messages are hints; when a connection
//! breaks or a slot moves, the channels are subscribed again where they are now, and `Lost` is
//! signalled.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use redis::RedisError;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};

use self::branch::Branch;
use super::fault;
use super::keys::Keys;
use super::link::Link;
use super::servers::{Address, Kind, Servers};
use super::slot_map::{redirected, slot_of};
use crate::store::sink::Sink;
use crate::store::{Error, Listener, Result, Signal, Topic};
use crate::sync::MutexExt as _;

mod branch;
mod keep;
mod message;
mod relay;

const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn listen(
    link: &Link,
    keys: Keys,
    sink: mpsc::Sender<Signal>,
) -> Result<Arc<dyn Listener>> {
    let push = Arc::new(Push {
        servers: link.servers.clone(),
        sink: Sink::new(sink),
        wanted: Mutex::default(),
    });
    if !matches!(push.servers.kind, Kind::Cluster(_)) {
        let branch = Arc::new(Branch::new(None));
        let connected = branch.connected(&push).await;
        connected.map_err(|error| Error::Unavailable(fault::explain(&error)))?;
        push.add(&mut push.wanted(), branch);
    }
    Ok(Arc::new(RedisListener { keys, push }))
}

struct RedisListener {
    keys: Keys,
    push: Arc<Push>,
}

#[async_trait]
impl Listener for RedisListener {
    async fn subscribe(&self, topic: &Topic) -> Result<()> {
        let channel = self.keys.channel(topic);
        let deadline = Instant::now() + PATIENCE;
        let mut failed = "no answer".to_owned();
        loop {
            match timeout_at(deadline, self.push.subscribe(&channel)).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => failed = fault::explain(&error),
                Err(_) => return Err(Error::Unavailable(failed)),
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    async fn unsubscribe(&self, topic: &Topic) {
        let channel = self.keys.channel(topic);
        if let Some(branch) = self.push.forget(&channel) {
            branch.unsubscribe(&channel).await;
        }
    }
}

/// Where a channel's messages are: at a node of a Cluster, else at the primary.
type Home = Option<Address>;

struct Push {
    servers: Servers,
    sink: Sink,
    wanted: Mutex<Wanted>,
}

/// The channels that are wanted, and what carries them.
#[derive(Default)]
struct Wanted {
    channels: HashSet<String>,
    branches: HashMap<Home, Arc<Branch>>,
}

impl Push {
    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.locked()
    }

    fn home(&self, channel: &str) -> std::result::Result<Home, RedisError> {
        match &self.servers.kind {
            Kind::Cluster(slots) => Ok(Some(slots.owner(slot_of(channel.as_bytes()))?)),
            Kind::One(_) | Kind::Sentinel(_) => Ok(None),
        }
    }

    async fn subscribe(
        self: &Arc<Self>,
        channel: &str,
    ) -> std::result::Result<(), Arc<RedisError>> {
        let home = self.home(channel)?;
        let branch = self.branch(&mut self.wanted(), home);
        branch.subscribe(self, channel).await
    }

    /// From now on it is subscribed again wherever it gets lost.
    fn note(&self, channel: &str) {
        self.wanted().channels.insert(channel.to_owned());
    }

    fn forget(&self, channel: &str) -> Option<Arc<Branch>> {
        let mut wanted = self.wanted();
        wanted.channels.remove(channel);
        let home = self.home(channel).ok()?;
        wanted.branches.get(&home).cloned()
    }

    fn wanted_at(&self, home: &Home) -> HashSet<String> {
        let wanted = self.wanted();
        let here = |channel: &&String| self.home(channel).is_ok_and(|at| at == *home);
        wanted.channels.iter().filter(here).cloned().collect()
    }

    /// The one for this home; it is made if there is none.
    fn branch(self: &Arc<Self>, wanted: &mut Wanted, home: Home) -> Arc<Branch> {
        match wanted.branches.get(&home) {
            Some(branch) => branch.clone(),
            None => self.add(wanted, Arc::new(Branch::new(home))),
        }
    }

    fn add(self: &Arc<Self>, wanted: &mut Wanted, branch: Arc<Branch>) -> Arc<Branch> {
        wanted.branches.insert(branch.home.clone(), branch.clone());
        tokio::spawn(keep::keep(Arc::downgrade(self), branch.clone()));
        branch
    }

    /// Every home of a channel has its branch.
    fn spread(self: &Arc<Self>) {
        let mut wanted = self.wanted();
        let homes = wanted
            .channels
            .iter()
            .filter_map(|channel| self.home(channel).ok());
        let homes: HashSet<Home> = homes.collect();
        for home in homes {
            self.branch(&mut wanted, home);
        }
    }

    /// Removes a node's branch if nothing is wanted there; true if so.
    fn prune(&self, home: &Home) -> bool {
        let mut wanted = self.wanted();
        let here = |channel: &String| self.home(channel).is_ok_and(|at| at == *home);
        let unused = home.is_some() && !wanted.channels.iter().any(here);
        if unused {
            wanted.branches.remove(home);
        }
        unused
    }

    /// A node may know where the channel's slot is; else all are asked.
    fn misplaced(&self, channel: &str, error: &RedisError, home: &Home) {
        let Kind::Cluster(slots) = &self.servers.kind else {
            return;
        };
        let to = error.redirect_node().zip(home.as_ref());
        match to.and_then(|((to, _), from)| redirected(to, from)) {
            Some(to) if error.code() == Some("MOVED") => {
                slots.learn(slot_of(channel.as_bytes()), &to);
            }
            _ => slots.doubt(),
        }
    }
}
