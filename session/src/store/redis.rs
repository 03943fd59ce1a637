//! The store on Redis: standalone, Sentinel or Cluster. Every step is one Lua script whose keys
//! share a partition tag; see `keys` for the layout and `session/lua` for the scripts.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use tokio::sync::mpsc;

use self::client::RedisClient;
use self::confirmation::Confirmations;
use self::due::{AnsweringConnections, OfferedRoom};
use self::keys::RedisKeys;
use self::reply::ScriptReply;
use self::scripts::ScriptCall;
use crate::command::CommandId;
use crate::event::Frame;
use crate::id::{LogId, Nonce};
use crate::revocation::Revocation;
use crate::store::{CredentialStore, LogStore, OUTBOX_TTL, Result, Signal, SignalListener};

mod agents;
mod append;
mod changes;
mod client;
mod client_description;
mod cluster;
mod confirmation;
mod connection;
mod deletion;
mod diagnosis;
mod due;
mod durable;
mod fault;
mod fork;
mod format;
mod gateway_store;
mod keys;
mod list;
mod login;
mod memory_guard;
mod moves;
mod options;
mod outbox;
mod proof;
mod pubsub;
mod renewals;
mod replicas;
mod reply;
mod reports;
mod requests;
mod restored;
mod revocation;
mod scripts;
mod sentinel;
mod server_connection;
mod servers;
mod single_use;
mod slot_map;
mod slots;
mod startup_checks;
mod tidy;
mod usage;
mod worker_store;

pub use self::diagnosis::{ClockOffset, Diagnosis, ServerFacts};
pub use self::options::{Durability, RedisOptions};
#[cfg(feature = "conformance")]
pub use self::scripts::script_hashes;

const CONNECTION_TTL: u64 = OUTBOX_TTL.as_secs();
/// As it is part of a command's name. One for each call: a step that is repeated is recognised by
/// it.
fn command_nonce() -> String {
    format!("{:08x}", CommandId::random_nonce())
}

pub struct RedisStore {
    client: Arc<RedisClient>,
    keys: RedisKeys,
    confirmations: Confirmations,
    answered: AnsweringConnections,
    offered_room: OfferedRoom,
    /// See [`LogStore::restored`].
    restored: Option<Nonce>,
}

impl RedisStore {
    /// As [`Self::connect_with`], with nothing special.
    pub async fn connect(url: &str, namespace: &str) -> Result<Self> {
        Self::connect_with(&RedisOptions::new(url, namespace)).await
    }

    /// Connects, or says what is wrong after a bounded number of tries. Warns if this Redis could
    /// lose what it is given.
    pub async fn connect_with(options: &RedisOptions) -> Result<Self> {
        let client = RedisClient::connect(options).await?;
        let keys = RedisKeys::new(&options.namespace);
        format::check(&client, keys.format()).await?;
        let restored = restored::read(&client, keys.restored()).await?;
        Ok(Self {
            client: Arc::new(client),
            keys,
            confirmations: Confirmations::default(),
            answered: AnsweringConnections::default(),
            offered_room: OfferedRoom::default(),
            restored,
        })
    }

    async fn run(&self, call: ScriptCall<'_>) -> Result<ScriptReply> {
        self.client.run(call).await
    }

    /// For what must not vanish once it was answered.
    async fn run_durably(&self, call: ScriptCall<'_>) -> Result<ScriptReply> {
        self.client.run_durably(call).await
    }
}

#[async_trait]
impl LogStore for RedisStore {
    fn partitions(&self) -> u16 {
        self.client.partitions()
    }

    fn restored(&self) -> Option<Nonce> {
        self.restored
    }

    async fn ping(&self) -> Result<()> {
        self.client.ping().await
    }

    async fn has_room(&self) -> Result<bool> {
        Ok(self.client.has_room().await)
    }

    async fn read(&self, log: &LogId, from: u64, limit: usize) -> Result<Vec<Arc<Frame>>> {
        match log {
            LogId::Session(session) => self.read_session(session, from, None, limit).await,
            LogId::Outbox(_) => self.read_stream(log, from, limit).await,
        }
    }

    async fn read_confirmed(
        &self,
        log: &LogId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Arc<Frame>>> {
        match log {
            LogId::Session(session) => self.read_what_is_confirmed(session, from, limit).await,
            LogId::Outbox(_) => self.read_stream(log, from, limit).await,
        }
    }

    async fn read_between(&self, log: &LogId, from: u64, upto: u64) -> Result<Vec<Arc<Frame>>> {
        // No frame is without an event.
        let limit = usize::try_from(upto - from + 1).unwrap_or(usize::MAX);
        match log {
            LogId::Session(session) => self.read_session(session, from, Some(upto), limit).await,
            LogId::Outbox(_) => self.read_stream(log, from, limit).await,
        }
    }

    async fn heads(&self, logs: &[LogId]) -> Result<Vec<u64>> {
        let heads = logs.iter().map(|log| self.head(log));
        join_all(heads).await.into_iter().collect()
    }

    async fn listen(&self, sink: mpsc::Sender<Signal>) -> Result<Arc<dyn SignalListener>> {
        pubsub::listen(&self.client, self.keys.clone(), sink).await
    }
}

#[async_trait]
impl CredentialStore for RedisStore {
    async fn revoke(&self, revocation: &Revocation) -> Result<bool> {
        self.revoke_subject(revocation).await
    }

    async fn revocations(&self) -> Result<Vec<Revocation>> {
        self.all_revocations().await
    }

    async fn spend(&self, name: &str, lasts: Duration) -> Result<bool> {
        self.spend_name(name, lasts).await
    }
}
