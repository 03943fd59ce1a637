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

use self::node_subscription::NodeSubscription;
use super::client::RedisClient;
use super::fault;
use super::keys::RedisKeys;
use super::servers::{RedisServers, ServerAddress, ServerKind};
use super::slot_map::{redirected, slot_of};
use crate::store::signal_sink::SignalSink;
use crate::store::{Error, Result, Signal, SignalListener, Topic};
use crate::sync::MutexExt as _;

mod message;
mod node_subscription;
mod relay;
mod supervise;

const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) async fn listen(
    client: &RedisClient,
    keys: RedisKeys,
    sink: mpsc::Sender<Signal>,
) -> Result<Arc<dyn SignalListener>> {
    let push = Arc::new(PubSub {
        servers: client.servers.clone(),
        sink: SignalSink::new(sink),
        wanted: Mutex::default(),
    });
    if !matches!(push.servers.kind, ServerKind::Cluster(_)) {
        let subscription = Arc::new(NodeSubscription::new(None));
        let connected = subscription.connected(&push).await;
        connected.map_err(|error| Error::Unavailable(fault::explain(&error)))?;
        push.add(&mut push.wanted(), subscription);
    }
    Ok(Arc::new(RedisListener { keys, push }))
}

struct RedisListener {
    keys: RedisKeys,
    push: Arc<PubSub>,
}

#[async_trait]
impl SignalListener for RedisListener {
    async fn subscribe(&self, topic: &Topic) -> Result<()> {
        let channel = self.keys.channel(topic);
        let deadline = Instant::now() + SUBSCRIBE_TIMEOUT;
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
        if let Some(subscription) = self.push.forget(&channel) {
            subscription.unsubscribe(&channel).await;
        }
    }
}

/// Where a channel's messages are: at a node of a Cluster, else at the primary.
type ChannelHome = Option<ServerAddress>;

struct PubSub {
    servers: RedisServers,
    sink: SignalSink,
    wanted: Mutex<WantedChannels>,
}

/// The channels that are wanted, and what carries them.
#[derive(Default)]
struct WantedChannels {
    channels: HashSet<String>,
    subscriptions: HashMap<ChannelHome, Arc<NodeSubscription>>,
}

impl PubSub {
    fn wanted(&self) -> MutexGuard<'_, WantedChannels> {
        self.wanted.locked()
    }

    fn home(&self, channel: &str) -> std::result::Result<ChannelHome, RedisError> {
        match &self.servers.kind {
            ServerKind::Cluster(slots) => Ok(Some(slots.owner(slot_of(channel.as_bytes()))?)),
            ServerKind::One(_) | ServerKind::Sentinel(_) => Ok(None),
        }
    }

    async fn subscribe(
        self: &Arc<Self>,
        channel: &str,
    ) -> std::result::Result<(), Arc<RedisError>> {
        let home = self.home(channel)?;
        let subscription = self.subscription(&mut self.wanted(), home);
        subscription.subscribe(self, channel).await
    }

    /// From now on it is subscribed again wherever it gets lost.
    fn note(&self, channel: &str) {
        self.wanted().channels.insert(channel.to_owned());
    }

    fn forget(&self, channel: &str) -> Option<Arc<NodeSubscription>> {
        let mut wanted = self.wanted();
        wanted.channels.remove(channel);
        let home = self.home(channel).ok()?;
        wanted.subscriptions.get(&home).cloned()
    }

    fn wanted_at(&self, home: &ChannelHome) -> HashSet<String> {
        let wanted = self.wanted();
        let here = |channel: &&String| self.home(channel).is_ok_and(|at| at == *home);
        wanted.channels.iter().filter(here).cloned().collect()
    }

    /// The one for this home; it is made if there is none.
    fn subscription(
        self: &Arc<Self>,
        wanted: &mut WantedChannels,
        home: ChannelHome,
    ) -> Arc<NodeSubscription> {
        match wanted.subscriptions.get(&home) {
            Some(subscription) => subscription.clone(),
            None => self.add(wanted, Arc::new(NodeSubscription::new(home))),
        }
    }

    fn add(
        self: &Arc<Self>,
        wanted: &mut WantedChannels,
        subscription: Arc<NodeSubscription>,
    ) -> Arc<NodeSubscription> {
        wanted
            .subscriptions
            .insert(subscription.home.clone(), subscription.clone());
        tokio::spawn(supervise::supervise(
            Arc::downgrade(self),
            subscription.clone(),
        ));
        subscription
    }

    /// Every home of a channel has its subscription.
    fn spread(self: &Arc<Self>) {
        let mut wanted = self.wanted();
        let homes = wanted
            .channels
            .iter()
            .filter_map(|channel| self.home(channel).ok());
        let homes: HashSet<ChannelHome> = homes.collect();
        for home in homes {
            self.subscription(&mut wanted, home);
        }
    }

    /// Removes a node's subscription if nothing is wanted there; true if so.
    fn prune(&self, home: &ChannelHome) -> bool {
        let mut wanted = self.wanted();
        let here = |channel: &String| self.home(channel).is_ok_and(|at| at == *home);
        let unused = home.is_some() && !wanted.channels.iter().any(here);
        if unused {
            wanted.subscriptions.remove(home);
        }
        unused
    }

    /// A node may know where the channel's slot is; else all are asked.
    fn misplaced(&self, channel: &str, error: &RedisError, home: &ChannelHome) {
        let ServerKind::Cluster(slots) = &self.servers.kind else {
            return;
        };
        let to = error.redirect_node().zip(home.as_ref());
        match to.and_then(|((to, _), from)| redirected(to, from)) {
            Some(to) if error.code() == Some("MOVED") => {
                slots.learn(slot_of(channel.as_bytes()), &to);
            }
            _ => slots.request_refresh(),
        }
    }
}
