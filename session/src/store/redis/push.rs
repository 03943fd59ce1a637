//! The push connection: one per process and server, with a sharded subscription per topic. What it
//! carries are hints; when it breaks, everything is subscribed again and `Lost` is signalled.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use async_trait::async_trait;
use redis::aio::{ConnectionLike as _, MultiplexedConnection};
use redis::cluster_async::ClusterConnection;
use redis::{AsyncConnectionConfig, Client, ConnectionInfo, PushInfo, PushKind, RedisError, Value};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep};

use super::keys::Keys;
use super::link::{Link, Servers, cluster};
use crate::event::Frame;
use crate::id::{ConnectionId, SessionId};
use crate::store::sink::Sink;
use crate::store::{Error, Listener, Result, Signal, Topic};

const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn listen(link: &Link, keys: Keys, sink: mpsc::Sender<Signal>) -> Result<Arc<dyn Listener>> {
    let relay = Arc::new(Relay { sink: Sink::new(sink), broken: Notify::new() });
    let unavailable = |error: RedisError| Error::Unavailable(error.to_string());
    let wire = match &link.servers {
        Servers::One(info) => {
            let (wire, _) = watch::channel(None);
            let single = Arc::new(Single { info: (**info).clone(), relay, wire, channels: Mutex::default() });
            single.connect().await.map_err(unavailable)?;
            tokio::spawn(keep_connected(Arc::downgrade(&single)));
            Wire::Single(single)
        }
        Servers::Cluster(nodes) => {
            let (turned_out, moved) = mpsc::unbounded_channel();
            let watch = Arc::new(Watch { relay, confirmed: Mutex::default(), turned_out });
            let sender = { let watch = watch.clone(); move |info| watch.take(info) };
            let client = cluster(nodes).push_sender(sender).build().map_err(unavailable)?;
            let connection = client.get_async_connection().await.map_err(unavailable)?;
            let nodes = Arc::new(Nodes { connection, watch });
            tokio::spawn(follow_slots(Arc::downgrade(&nodes), moved));
            Wire::Cluster(nodes)
        }
    };
    Ok(Arc::new(RedisListener { keys, wire }))
}

struct RedisListener {
    keys: Keys,
    wire: Wire,
}

enum Wire {
    Single(Arc<Single>),
    Cluster(Arc<Nodes>),
}

#[async_trait]
impl Listener for RedisListener {
    async fn subscribe(&self, topic: &Topic) -> Result<()> {
        let channel = self.keys.channel(topic);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let outcome = match &self.wire {
                Wire::Single(single) => single.subscribe(&channel).await,
                Wire::Cluster(nodes) => nodes.subscribe(&channel).await,
            };
            match outcome {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() > deadline => return Err(Error::Unavailable(error.to_string())),
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    async fn unsubscribe(&self, topic: &Topic) {
        let channel = self.keys.channel(topic);
        match &self.wire {
            Wire::Single(single) => single.unsubscribe(&channel).await,
            Wire::Cluster(nodes) => nodes.unsubscribe(&channel).await,
        }
    }
}

/// Turns pushes into signals, without ever making the connection wait.
struct Relay {
    sink: Sink,
    broken: Notify,
}

impl Relay {
    fn take(&self, info: PushInfo) -> std::result::Result<(), ()> {
        match info.kind {
            PushKind::SMessage => {
                if let Some(signal) = signal(info.data) {
                    self.sink.send(signal);
                }
            }
            PushKind::Disconnection => self.broken.notify_one(),
            _ => {}
        }
        Ok(())
    }
}

/// The push connections to the nodes of a cluster. After a lost connection they subscribe again by
/// themselves; after a slot has moved they have to be told.
struct Nodes {
    connection: ClusterConnection,
    watch: Arc<Watch>,
}

/// Tells subscriptions that were asked for from those that were lost and made again.
struct Watch {
    relay: Arc<Relay>,
    confirmed: Mutex<HashSet<Vec<u8>>>,
    /// Channels that a node no longer serves.
    turned_out: mpsc::UnboundedSender<String>,
}

impl Watch {
    fn confirmed(&self) -> MutexGuard<'_, HashSet<Vec<u8>>> {
        self.confirmed.lock().expect("held for moments only")
    }

    fn take(&self, info: PushInfo) -> std::result::Result<(), ()> {
        let Some(Value::BulkString(channel)) = info.data.first() else { return self.relay.take(info) };
        match info.kind {
            // Subscribed again: what came in between may be missing.
            PushKind::SSubscribe if !self.confirmed().insert(channel.clone()) => self.relay.sink.tell_lost(),
            PushKind::SUnsubscribe if self.confirmed().contains(channel) => {
                let _ = self.turned_out.send(String::from_utf8_lossy(channel).into_owned());
            }
            _ => return self.relay.take(info),
        }
        Ok(())
    }
}

impl Nodes {
    async fn subscribe(&self, channel: &str) -> std::result::Result<(), RedisError> {
        self.watch.confirmed().remove(channel.as_bytes());
        self.connection.clone().ssubscribe(channel).await
    }

    async fn unsubscribe(&self, channel: &str) {
        self.watch.confirmed().remove(channel.as_bytes());
        let _ = self.connection.clone().sunsubscribe(channel).await;
    }
}

/// Subscribes where a slot has moved to; ends with its listener.
async fn follow_slots(nodes: Weak<Nodes>, mut moved: mpsc::UnboundedReceiver<String>) {
    while let Some(channel) = moved.recv().await {
        while let Some(nodes) = nodes.upgrade()
            && nodes.watch.confirmed().contains(channel.as_bytes())
            && nodes.connection.clone().ssubscribe(&channel).await.is_err()
        {
            drop(nodes);
            sleep(Duration::from_millis(50)).await;
        }
    }
}

/// The push connection to a single server.
struct Single {
    info: ConnectionInfo,
    relay: Arc<Relay>,
    wire: watch::Sender<Option<MultiplexedConnection>>,
    channels: Mutex<HashSet<String>>,
}

impl Single {
    fn channels(&self) -> MutexGuard<'_, HashSet<String>> {
        self.channels.lock().expect("held for moments only")
    }

    async fn connect(&self) -> std::result::Result<(), RedisError> {
        let relay = self.relay.clone();
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(Duration::from_secs(1)))
            .set_response_timeout(Some(Duration::from_secs(2)))
            .set_push_sender(move |info| relay.take(info));
        let client = Client::open(self.info.clone())?;
        let mut wire = client.get_multiplexed_async_connection_with_config(&config).await?;
        let channels: Vec<String> = self.channels().iter().cloned().collect();
        for channel in channels {
            wire.req_packed_command(redis::cmd("SSUBSCRIBE").arg(channel)).await?;
        }
        self.wire.send_replace(Some(wire));
        Ok(())
    }

    async fn subscribe(&self, channel: &str) -> std::result::Result<(), RedisError> {
        // Noted first: if the connection breaks now, the next one subscribes it too.
        self.channels().insert(channel.to_owned());
        let wire = self.wire.borrow().clone();
        let Some(mut wire) = wire else {
            return Err(RedisError::from(std::io::Error::from(std::io::ErrorKind::NotConnected)));
        };
        wire.req_packed_command(redis::cmd("SSUBSCRIBE").arg(channel)).await.map(drop)
    }

    async fn unsubscribe(&self, channel: &str) {
        self.channels().remove(channel);
        let wire = self.wire.borrow().clone();
        if let Some(mut wire) = wire {
            let _ = wire.req_packed_command(redis::cmd("SUNSUBSCRIBE").arg(channel)).await;
        }
    }
}

/// Connects again whenever the connection broke; ends with its listener.
async fn keep_connected(single: Weak<Single>) {
    const PROBE: Duration = Duration::from_secs(5);
    loop {
        let Some(held) = single.upgrade() else { return };
        let relay = held.relay.clone();
        drop(held);
        let broken = tokio::select! {
            _ = relay.broken.notified() => true,
            _ = sleep(PROBE) => false,
        };
        let Some(held) = single.upgrade() else { return };
        // A connection can be dead without saying so.
        if !broken {
            let wire = held.wire.borrow().clone();
            if let Some(mut wire) = wire
                && wire.req_packed_command(&redis::cmd("PING")).await.is_ok()
            {
                continue;
            }
        }
        held.wire.send_replace(None);
        let mut pause = Duration::from_millis(20);
        while held.connect().await.is_err() {
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
        // Subscribed again; what was missed meanwhile has to be looked up.
        relay.sink.tell_lost();
        tracing::info!("the push connection to Redis is back");
    }
}

fn signal(data: Vec<Value>) -> Option<Signal> {
    let mut data = data.into_iter();
    let (Value::BulkString(channel), Value::BulkString(payload)) = (data.next()?, data.next()?) else { return None };
    let channel = std::str::from_utf8(&channel).ok()?;
    let mut payload = bytes::Bytes::from(payload);
    let kind = payload.split_to_checked(1)?[0];
    match kind {
        b'F' => {
            let line = payload.iter().position(|byte| *byte == b'\n')?;
            let last = std::str::from_utf8(&payload[..line]).ok()?.parse().ok()?;
            let frame = Frame::decode(last, payload.slice(line + 1..)).ok()?;
            Some(Signal::Frame(Keys::log_of(channel)?, Arc::new(frame)))
        }
        b'G' => Some(Signal::Grown(Keys::log_of(channel)?, std::str::from_utf8(&payload).ok()?.parse().ok()?)),
        b'A' => {
            let connection = ConnectionId::parse(std::str::from_utf8(&payload).ok()?)?;
            match Keys::log_of(channel)? {
                crate::id::LogId::Session(session) => Some(Signal::Attached(session, connection)),
                crate::id::LogId::Outbox(_) => None,
            }
        }
        b'T' => {
            let (connection, holder) = std::str::from_utf8(&payload).ok()?.split_once('\n')?;
            let connection = ConnectionId::parse(connection)?;
            Some(Signal::Taken { log: Keys::log_of(channel)?, connection, holder: holder.to_owned() })
        }
        b'I' => SessionId::parse(std::str::from_utf8(&payload).ok()?).map(Signal::Inbox),
        b'R' => SessionId::parse(std::str::from_utf8(&payload).ok()?).map(Signal::Ready),
        _ => None,
    }
}

trait SplitChecked {
    fn split_to_checked(&mut self, at: usize) -> Option<bytes::Bytes>;
}

impl SplitChecked for bytes::Bytes {
    fn split_to_checked(&mut self, at: usize) -> Option<bytes::Bytes> {
        (self.len() >= at).then(|| self.split_to(at))
    }
}
