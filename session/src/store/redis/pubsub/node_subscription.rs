//! One push connection, to one server, and the channels that it carries.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::future::join_all;
use redis::aio::{ConnectionLike as _, MultiplexedConnection};
use redis::{Cmd, ErrorKind, RedisError, Value};
use tokio::sync::Notify;

use super::relay::PushRelay;
use super::{ChannelHome, PubSub};
use crate::store::redis::servers::{ServerAddress, ServerKind, config};
use crate::sync::MutexExt as _;

pub(super) struct NodeSubscription {
    pub home: ChannelHome,
    state: Mutex<SubscriptionState>,
    /// Held by the one who makes the next connection.
    dialing: tokio::sync::Mutex<()>,
    /// The connection broke, or the server has dropped a channel.
    pub changed: Notify,
}

#[derive(Default)]
struct SubscriptionState {
    connection: Option<PushConnection>,
    /// The channels subscribed on the connection.
    channels: HashSet<String>,
}

#[derive(Clone)]
pub(super) struct PushConnection {
    connection: MultiplexedConnection,
    /// Where the primary was when the connection was made, if sentinels know.
    pub address: Option<ServerAddress>,
    /// Nothing passes while it is shut: what comes then may follow on something that was missed.
    open: Arc<AtomicBool>,
}

impl NodeSubscription {
    pub fn new(home: ChannelHome) -> Self {
        Self {
            home,
            state: Mutex::default(),
            dialing: tokio::sync::Mutex::default(),
            changed: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, SubscriptionState> {
        self.state.locked()
    }

    pub fn connection(&self) -> Option<PushConnection> {
        self.state().connection.clone()
    }

    /// Makes the connection if there is none.
    pub async fn connected(
        self: &Arc<Self>,
        push: &Arc<PubSub>,
    ) -> Result<PushConnection, Arc<RedisError>> {
        let _dialing = self.dialing.lock().await;
        if let Some(connection) = self.connection() {
            return Ok(connection);
        }
        let connection = self.dial(push).await?;
        *self.state() = SubscriptionState {
            connection: Some(connection.clone()),
            channels: HashSet::new(),
        };
        Ok(connection)
    }

    async fn dial(self: &Arc<Self>, push: &Arc<PubSub>) -> Result<PushConnection, Arc<RedisError>> {
        let open = Arc::new(AtomicBool::new(true));
        let relay = PushRelay {
            sink: push.sink.clone(),
            subscription: Arc::downgrade(self),
            open: open.clone(),
        };
        let config = config().set_push_sender(move |info| relay.take(info));
        let (connection, address) = match (&push.servers.kind, &self.home) {
            (ServerKind::Cluster(slots), Some(node)) => {
                (slots.login().at(node).dial(&config).await?, None)
            }
            _ => push.servers.dial(&config).await?,
        };
        Ok(PushConnection {
            connection,
            address,
            open,
        })
    }

    /// For somebody who has not listened to the channel before, and so has missed nothing.
    pub async fn subscribe(
        self: &Arc<Self>,
        push: &Arc<PubSub>,
        channel: &str,
    ) -> Result<(), Arc<RedisError>> {
        let connection = self.connected(push).await?;
        self.subscribe_on(&connection, push, channel).await?;
        push.note(channel);
        if self.state().channels.contains(channel) {
            return Ok(());
        }
        let what = "the push connection broke or the slot moved";
        Err(Arc::new(RedisError::from((ErrorKind::Io, what))))
    }

    async fn subscribe_on(
        &self,
        connection: &PushConnection,
        push: &PubSub,
        channel: &str,
    ) -> Result<(), Arc<RedisError>> {
        let answer = connection.send(redis::cmd("SSUBSCRIBE").arg(channel)).await;
        if let Err(error) = &answer {
            push.misplaced(channel, error, &self.home);
        }
        answer?;
        let mut state = self.state();
        // Else it broke meanwhile.
        if state
            .connection
            .as_ref()
            .is_some_and(|now| now.is(connection))
        {
            state.channels.insert(channel.to_owned());
        }
        Ok(())
    }

    pub async fn unsubscribe(&self, channel: &str) {
        let connection = {
            let mut state = self.state();
            state.channels.remove(channel);
            state.connection.clone()
        };
        if let Some(connection) = connection {
            let _ = connection
                .send(redis::cmd("SUNSUBSCRIBE").arg(channel))
                .await;
        }
    }

    /// Subscribes what is wanted here and is not there: it was lost with a connection, or has come
    /// from another node.
    pub async fn resubscribe(self: &Arc<Self>, push: &Arc<PubSub>) -> Result<(), Arc<RedisError>> {
        let wanted = push.wanted_at(&self.home);
        if wanted.is_empty() && self.home.is_some() {
            return Ok(());
        }
        let was_there = self.connection().is_some();
        let connection = self.connected(push).await?;
        let missing: Vec<String> = {
            let mut state = self.state();
            state.channels.retain(|channel| wanted.contains(channel));
            wanted.difference(&state.channels).cloned().collect()
        };
        if missing.is_empty() && was_there {
            return Ok(());
        }
        connection.open.store(false, Ordering::SeqCst);
        let subscribed = missing
            .iter()
            .map(|channel| self.subscribe_on(&connection, push, channel));
        let subscribed: Result<(), _> = join_all(subscribed).await.into_iter().collect();
        // Missed messages have to be looked up before a message comes that builds on them.
        if wanted.is_empty() || !self.state().channels.is_empty() {
            push.sink.tell_lost();
        }
        connection.open.store(true, Ordering::SeqCst);
        subscribed?;
        let node = self.home.as_ref();
        let node = node.map(|(host, port)| format!("{host}:{port}"));
        if was_there {
            tracing::info!(
                node,
                channels = missing.len(),
                "the push connection has taken over channels whose slots have moved"
            );
        } else {
            tracing::info!(node, "the push connection to Redis is back");
        }
        Ok(())
    }

    /// Drops the connection; its later messages are ignored.
    pub fn disconnect(&self) {
        let mut state = self.state();
        if let Some(connection) = state.connection.take() {
            connection.open.store(false, Ordering::SeqCst);
        }
        state.channels.clear();
    }

    /// A connection reports that it broke; another one may be in use by now.
    pub fn broke(&self, open: &Arc<AtomicBool>) {
        let mut state = self.state();
        let broke = state
            .connection
            .take_if(|connection| Arc::ptr_eq(&connection.open, open));
        if broke.is_some() {
            state.channels.clear();
            self.changed.notify_one();
        }
    }

    /// Channels that we have unsubscribed ourselves are not in the set any more.
    pub fn dropped(&self, channel: &str) {
        if self.state().channels.remove(channel) {
            self.changed.notify_one();
        }
    }
}

impl PushConnection {
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.open, &other.open)
    }

    async fn send(&self, command: &Cmd) -> Result<(), Arc<RedisError>> {
        let mut connection = self.connection.clone();
        let answer = connection.req_packed_command(command).await;
        answer.and_then(Value::extract_error)?;
        Ok(())
    }

    pub async fn answers(&self) -> bool {
        self.send(&redis::cmd("PING")).await.is_ok()
    }
}
