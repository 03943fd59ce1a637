//! The push connection: one per process and server, with a sharded subscription per topic. What it
//! carries are hints; when it breaks, another one is made, everything is subscribed again and `Lost`
//! is signalled.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use redis::aio::{ConnectionLike as _, MultiplexedConnection};
use redis::cluster_async::ClusterConnection;
use redis::{PushInfo, PushKind, RedisError, Value};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep};

use super::fault;
use super::keys::Keys;
use super::link::Link;
use super::servers::{Address, Kind, Servers, config};
use crate::event::Frame;
use crate::id::{ConnectionId, SessionId};
use crate::revocation::Revocation;
use crate::store::sink::Sink;
use crate::store::{Error, Listener, Result, Signal, Topic};

const PATIENCE: Duration = Duration::from_secs(5);
/// How often a silent connection is asked whether it still lives.
const PROBE: Duration = Duration::from_secs(5);

pub(super) async fn listen(
    link: &Link,
    keys: Keys,
    sink: mpsc::Sender<Signal>,
) -> Result<Arc<dyn Listener>> {
    let servers = link.servers.clone();
    let push = Arc::new(Push {
        servers,
        sink: Sink::new(sink),
        subscribed: Arc::default(),
    });
    push.connect()
        .await
        .map_err(|error| Error::Unavailable(fault::explain(&error)))?;
    tokio::spawn(keep_connected(Arc::downgrade(&push)));
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
        loop {
            // Noted first: if the connection breaks now, the next one subscribes it too.
            match self.push.note(&channel).subscribe(&channel).await {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() > deadline => {
                    return Err(Error::Unavailable(fault::explain(&error)));
                }
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    async fn unsubscribe(&self, topic: &Topic) {
        let channel = self.keys.channel(topic);
        self.push.forget(&channel).unsubscribe(&channel).await;
    }
}

struct Push {
    servers: Servers,
    sink: Sink,
    subscribed: Arc<Mutex<Subscribed>>,
}

/// The channels that are wanted, and the connection that carries all of them.
#[derive(Default)]
struct Subscribed {
    channels: HashSet<String>,
    wire: Option<Wire>,
}

impl Push {
    fn subscribed(&self) -> MutexGuard<'_, Subscribed> {
        self.subscribed.lock().expect("held for moments only")
    }

    fn wire(&self) -> Wire {
        self.subscribed()
            .wire
            .clone()
            .expect("there is one from the beginning")
    }

    fn note(&self, channel: &str) -> Wire {
        let mut subscribed = self.subscribed();
        subscribed.channels.insert(channel.to_owned());
        subscribed
            .wire
            .clone()
            .expect("there is one from the beginning")
    }

    fn forget(&self, channel: &str) -> Wire {
        let mut subscribed = self.subscribed();
        subscribed.channels.remove(channel);
        subscribed
            .wire
            .clone()
            .expect("there is one from the beginning")
    }

    /// Makes a connection, subscribes all that is wanted, and only then puts it in use.
    async fn connect(&self) -> std::result::Result<(), RedisError> {
        let wire = self.dial().await?;
        let mut done = HashSet::new();
        while let Some(missing) = self.put_in_use(&wire, &done) {
            let subscribed = join_all(missing.iter().map(|channel| wire.subscribe(channel))).await;
            subscribed
                .into_iter()
                .collect::<std::result::Result<(), RedisError>>()?;
            done.extend(missing);
        }
        Ok(())
    }

    /// Returns what is wanted but not subscribed yet, if there is something.
    fn put_in_use(&self, wire: &Wire, done: &HashSet<String>) -> Option<Vec<String>> {
        let mut subscribed = self.subscribed();
        let missing: Vec<String> = subscribed.channels.difference(done).cloned().collect();
        if missing.is_empty() {
            subscribed.wire = Some(wire.clone());
            return None;
        }
        Some(missing)
    }

    async fn dial(&self) -> std::result::Result<Wire, RedisError> {
        let broken = Arc::new(Notify::new());
        let subscribed = Arc::downgrade(&self.subscribed);
        let relay = Relay {
            sink: self.sink.clone(),
            subscribed,
            broken: broken.clone(),
        };
        let take = move |info| relay.take(info);
        let (connection, address) = match &self.servers.kind {
            Kind::Cluster(nodes) => {
                let client = self.servers.cluster(nodes).push_sender(take).build()?;
                (
                    Connection::Cluster(client.get_async_connection().await?),
                    None,
                )
            }
            Kind::One(_) | Kind::Sentinel(_) => {
                let config = config().set_push_sender(take);
                let (connection, address) = self.servers.dial(&config).await?;
                (Connection::One(connection), address)
            }
        };
        Ok(Wire {
            connection,
            address,
            broken,
        })
    }
}

#[derive(Clone)]
struct Wire {
    connection: Connection,
    /// Where the primary was when the connection was made, if sentinels know.
    address: Option<Address>,
    broken: Arc<Notify>,
}

#[derive(Clone)]
enum Connection {
    One(MultiplexedConnection),
    /// Repairs itself, but neither at once nor without losing subscriptions: a broken one is replaced.
    Cluster(ClusterConnection),
}

impl Wire {
    async fn subscribe(&self, channel: &str) -> std::result::Result<(), RedisError> {
        match self.connection.clone() {
            Connection::One(mut one) => one
                .req_packed_command(redis::cmd("SSUBSCRIBE").arg(channel))
                .await
                .map(drop),
            Connection::Cluster(mut nodes) => nodes.ssubscribe(channel).await,
        }
    }

    async fn unsubscribe(&self, channel: &str) {
        let _ = match self.connection.clone() {
            Connection::One(mut one) => one
                .req_packed_command(redis::cmd("SUNSUBSCRIBE").arg(channel))
                .await
                .map(drop),
            Connection::Cluster(mut nodes) => nodes.sunsubscribe(channel).await,
        };
    }

    async fn answers(&self) -> bool {
        let ping = redis::cmd("PING");
        let answer = match self.connection.clone() {
            Connection::One(mut one) => one.req_packed_command(&ping).await,
            Connection::Cluster(mut nodes) => nodes.req_packed_command(&ping).await,
        };
        answer.is_ok()
    }
}

/// Turns pushes into signals, without ever making the connection wait.
struct Relay {
    sink: Sink,
    // Weak, as this belongs to a connection, which in turn is kept there.
    subscribed: Weak<Mutex<Subscribed>>,
    broken: Arc<Notify>,
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
            // Unless somebody asked for it, the slot has moved to another node.
            PushKind::SUnsubscribe if self.wants(&info.data) => self.broken.notify_one(),
            _ => {}
        }
        Ok(())
    }

    fn wants(&self, data: &[Value]) -> bool {
        let Some(Value::BulkString(channel)) = data.first() else {
            return false;
        };
        let Some(subscribed) = self.subscribed.upgrade() else {
            return false;
        };
        let subscribed = subscribed.lock().expect("held for moments only");
        std::str::from_utf8(channel).is_ok_and(|channel| subscribed.channels.contains(channel))
    }
}

/// Connects again whenever the connection broke; ends with its listener.
async fn keep_connected(push: Weak<Push>) {
    loop {
        let Some((wire, servers)) = push
            .upgrade()
            .map(|push| (push.wire(), push.servers.clone()))
        else {
            return;
        };
        let broken = tokio::select! {
            _ = wire.broken.notified() => true,
            // The old primary may live on and keep the connection: nobody publishes there any more.
            _ = servers.moved(wire.address.as_ref()) => true,
            _ = sleep(PROBE) => false,
        };
        let Some(push) = push.upgrade() else { return };
        // A connection can be dead without saying so.
        if !broken && wire.answers().await {
            continue;
        }
        // Before anything comes by the next one.
        push.sink.break_off();
        let mut pause = Duration::from_millis(20);
        while push.connect().await.is_err() {
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
        // Subscribed again; what was missed meanwhile has to be looked up.
        push.sink.tell_lost();
        tracing::info!("the push connection to Redis is back");
    }
}

fn signal(data: Vec<Value>) -> Option<Signal> {
    let mut data = data.into_iter();
    let (Value::BulkString(channel), Value::BulkString(payload)) = (data.next()?, data.next()?)
    else {
        return None;
    };
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
        b'G' => Some(Signal::Grown(
            Keys::log_of(channel)?,
            std::str::from_utf8(&payload).ok()?.parse().ok()?,
        )),
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
            Some(Signal::Taken {
                log: Keys::log_of(channel)?,
                connection,
                holder: holder.to_owned(),
            })
        }
        b'I' => SessionId::parse(std::str::from_utf8(&payload).ok()?).map(Signal::Inbox),
        b'R' => SessionId::parse(std::str::from_utf8(&payload).ok()?).map(Signal::Ready),
        b'V' => Revocation::from_text(std::str::from_utf8(&payload).ok()?).map(Signal::Revoked),
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
