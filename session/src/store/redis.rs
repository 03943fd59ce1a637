//! The store on Redis: standalone, Sentinel or Cluster. Every step is one Lua script whose keys
//! share a partition tag; see `keys` for the layout and `session/lua` for the scripts.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::{join, join_all};
use tokio::sync::mpsc;

use self::client::RedisClient;
use self::confirmation::Confirmations;
use self::due::AnsweringConnections;
use self::keys::RedisKeys;
use self::reply::ScriptReply;
use self::scripts::{ScriptCall, scripts};
use crate::command::{Command, CommandId, IdempotencyKey, QueuedCommand};
use crate::event::{Event, Frame};
use crate::id::{ConnectionId, LogId, Nonce, Partition, SessionId};
use crate::revocation::Revocation;
use crate::store::{
    AdoptRequest, AgentCard, AppendOutcome, AppendRequest, AttachOutcome, AttachParams, Attachment,
    Claim, ClaimToken, Claimant, CredentialStore, DueSessions, EnqueueOutcome, EnqueueRequest,
    ForkOutcome, ForkRequest, GatewayStore, INBOX_BYTES, KEPT_ATTACH_REQUESTS, LastWritten,
    ListRequest, LogStore, NewSession, OUTBOX_TTL, OpenedStream, PostOutcome, PrincipalUsage,
    REMEMBERED_KEYS, REMEMBERED_KEYS_IN_ALL, Result, STREAM_TTL, SeenPosition, SessionRecord,
    SessionSummary, Signal, SignalListener, StreamId, StreamTouch, TAKEOVER_WINDOW, TidyOutcome,
    TidyPolicy, WorkerId, WorkerStore,
};

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

pub use self::diagnosis::{ClockOffset, Diagnosis, ServerFacts};
pub use self::options::{Durability, RedisOptions};
#[cfg(feature = "conformance")]
pub use self::scripts::script_hashes;

const CONNECTION_TTL: u64 = OUTBOX_TTL.as_secs();
/// Names of commands without a key that are remembered, in case their step is repeated: a cancel
/// that was taken must not end what came after it.
const REMEMBERED_NONCES: u64 = 64;

/// As it is part of a command's name. One for each call: a step that is repeated is recognised by
/// it.
fn command_nonce() -> String {
    format!("{:08x}", CommandId::random_nonce())
}

/// By the store's clock, in milliseconds; 0 for never.
fn may_take_over_until(claimant: &Claimant) -> u64 {
    let window = TAKEOVER_WINDOW.as_millis() as u64;
    let until = claimant
        .takes_over
        .map(|found| found.saturating_add(window));
    // Numbers in scripts are exact up to here.
    until.unwrap_or_default().min(1 << 53)
}

pub struct RedisStore {
    client: Arc<RedisClient>,
    keys: RedisKeys,
    confirmations: Confirmations,
    answered: AnsweringConnections,
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
impl GatewayStore for RedisStore {
    async fn agents(&self) -> Result<Vec<(AgentCard, usize)>> {
        let known = self.known_agents().await?.into_iter();
        let registered = known.filter_map(|agent| Some((agent.card?, agent.workers)));
        Ok(registered.collect())
    }

    async fn deserted(&self) -> Result<Vec<String>> {
        self.deserted_agents().await
    }

    async fn waiting(&self, agent: &str) -> Result<u64> {
        self.waiting_sessions(agent).await
    }

    async fn post(
        &self,
        to: &ConnectionId,
        event: Event,
        key: &IdempotencyKey,
    ) -> Result<PostOutcome> {
        self.post_event(to, event, key).await
    }

    async fn has_outbox_room(&self, connection: &ConnectionId) -> Result<bool> {
        self.outbox_room(connection).await
    }

    async fn describe_client(&self, connection: &ConnectionId, description: &Bytes) -> Result<()> {
        self.keep_description(connection, description).await
    }

    async fn watches(&self, connection: &ConnectionId) -> Result<Vec<(u64, SessionId)>> {
        self.watches_of(connection).await
    }

    async fn create(&self, new: &NewSession, first: &Command, key: &IdempotencyKey) -> Result<()> {
        let (k, id) = (&self.keys, &new.id);
        let (head, nonce) = (first.head(), CommandId::random_nonce().to_be_bytes());
        let owner = first.connection.key_owner().to_be_bytes();
        let (key_bytes, fingerprint) = (
            IdempotencyKey::key_bytes(&key.key).unwrap_or_default(),
            key.fingerprint_bytes(),
        );
        let call = ScriptCall::new(&scripts().create)
            .key(k.session(id))
            .key(k.inbox(id))
            .key(k.parties(id))
            .arg(id.as_str())
            .arg(&new.principal)
            .arg(&new.agent)
            .arg(&new.cwd)
            .arg(&new.params)
            .arg(first.connection.as_str())
            .arg(&key_bytes)
            .arg(&fingerprint)
            .arg(if new.one_shot { "o" } else { "c" })
            .arg(&head)
            .arg(&first.message)
            .arg(&new.directories)
            .arg(&nonce)
            .arg(&owner);
        self.run_durably(call).await.map(drop)
    }

    async fn enqueue(&self, request: &EnqueueRequest) -> Result<EnqueueOutcome> {
        let (k, id, command) = (&self.keys, &request.session, &request.command);
        let (head, nonce) = (command.head(), CommandId::random_nonce().to_be_bytes());
        let owner = command.connection.key_owner().to_be_bytes();
        let key = IdempotencyKey::key_bytes(&request.key.key);
        let fingerprint = request.key.fingerprint_bytes();
        let about = request.about.as_deref().map(|about| {
            // An empty one is nobody's.
            IdempotencyKey::key_bytes(about).unwrap_or_default()
        });
        let call = ScriptCall::new(&scripts().enqueue)
            .key(k.session(id))
            .key(k.inbox(id))
            .key(k.parties(id))
            .arg(id.as_str())
            .arg(&request.principal)
            .arg(command.connection.as_str())
            .arg(key.as_ref().map_or(&[][..], |key| key))
            .arg(&fingerprint)
            .arg(&head)
            .arg(&command.message)
            .num(request.one_shot.into())
            .num(request.watched.into())
            .num(command.request.is_some().into())
            .num(command.kind.is_urgent().into())
            .num(request.limit)
            .num(REMEMBERED_KEYS)
            .num(INBOX_BYTES)
            .num(command.kind.reaches_closed().into())
            .num(request.about.is_some().into())
            .arg(about.as_ref().map_or(&[][..], |about| about))
            .arg(request.takes.as_str())
            .arg(&nonce)
            .arg(&owner)
            .num(REMEMBERED_KEYS_IN_ALL)
            .num(REMEMBERED_NONCES);
        let taken = if request.findable && !request.key.key.is_empty() {
            // At once: what is noted and not taken is forgotten like what is done.
            let (taken, noted) = join(self.run_durably(call), self.note_request(request)).await;
            // The command is accepted either way. A cancel that comes by another gateway may not
            // find it.
            if let Err(error) = noted {
                tracing::warn!(%error, "could not record the session of a request");
            }
            taken?
        } else {
            self.run_durably(call).await?
        };
        let mut items = taken.items()?;
        match items.text()?.as_str() {
            "accepted" => Ok(EnqueueOutcome::Accepted {
                command: items.command()?,
                head: items.number()?,
                via: items.via()?,
            }),
            "joined" => Ok(EnqueueOutcome::Joined {
                command: items.command()?,
                head: items.number()?,
                via: items.via()?,
            }),
            "conflict" => Ok(EnqueueOutcome::Conflict),
            "notfound" => Ok(EnqueueOutcome::NotFound),
            "closed" => Ok(EnqueueOutcome::Closed),
            "barred" => Ok(EnqueueOutcome::Barred),
            "full" => Ok(EnqueueOutcome::Full),
            "unwatched" => Ok(EnqueueOutcome::Unwatched {
                head: items.number()?,
            }),
            other => Err(reply::unexpected(other)),
        }
    }

    async fn session_of(&self, connection: &ConnectionId, key: &str) -> Result<Option<SessionId>> {
        self.noted_session(connection, key).await
    }

    async fn attach(&self, request: &AttachParams) -> Result<AttachOutcome> {
        let id = &request.session;
        let call = ScriptCall::new(&scripts().attach)
            .key(self.keys.session(id))
            .key(self.keys.parties(id))
            .arg(id.as_str())
            .arg(&request.principal)
            .arg(request.connection.as_str())
            .arg(&*request.request)
            .arg(&request.cwd)
            .num(request.replay.into())
            .num(request.one_shot.into())
            .num(request.watched.into())
            .num(KEPT_ATTACH_REQUESTS as u64)
            .setup(&request.setup)
            .num(request.observe.into())
            .num(request.only_open.into());
        let mut items = self.run_durably(call).await?.items()?;
        match items.text()?.as_str() {
            "done" => Ok(AttachOutcome::Done(Box::new(items.attachment()?))),
            "notfound" => Ok(AttachOutcome::NotFound),
            "closed" => Ok(AttachOutcome::Closed),
            "cwd" => Ok(AttachOutcome::WrongCwd(items.text()?)),
            "unwatched" => Ok(AttachOutcome::Unwatched {
                head: items.number()?,
            }),
            other => Err(reply::unexpected(other)),
        }
    }

    async fn attachment(
        &self,
        session: &SessionId,
        connection: &ConnectionId,
        principal: &str,
    ) -> Result<Option<Attachment>> {
        let call = ScriptCall::new(&scripts().attachment)
            .key(self.keys.session(session))
            .key(self.keys.parties(session))
            .arg(principal)
            .arg(connection.as_str());
        let mut items = self.run(call).await?.items()?;
        if items.is_empty() {
            Ok(None)
        } else {
            items.attachment().map(Some)
        }
    }

    async fn unwatch(
        &self,
        session: &SessionId,
        connection: &ConnectionId,
        watch: u64,
        seen: SeenPosition,
    ) -> Result<bool> {
        let call = ScriptCall::new(&scripts().unwatch)
            .key(self.keys.session(session))
            .key(self.keys.parties(session))
            .key(self.keys.inbox(session))
            .arg(connection.as_str())
            .num(seen.upto)
            .num(seen.directive)
            .num(watch);
        Ok(self.run_durably(call).await?.optional_number()? == 1)
    }

    async fn forget_watch(
        &self,
        connection: &ConnectionId,
        session: &SessionId,
        told: u64,
    ) -> Result<()> {
        self.forget_watch_of(connection, session, told).await
    }

    async fn fork(&self, fork: &ForkRequest) -> Result<ForkOutcome> {
        self.fork_session(fork).await
    }

    async fn list(&self, listing: &ListRequest) -> Result<Vec<SessionSummary>> {
        self.list_sessions(listing).await
    }

    async fn usage(&self, principal: &str, _most: u64) -> Result<PrincipalUsage> {
        self.usage_of(principal).await
    }

    async fn delete(&self, session: &SessionId, principal: &str, end: &Command) -> Result<bool> {
        self.delete_session(session, principal, end).await
    }

    async fn record(&self, session: &SessionId, principal: &str) -> Result<Option<SessionRecord>> {
        self.record_of(session, principal).await
    }

    async fn adopt(&self, adoption: &AdoptRequest, claimant: &Claimant) -> Result<bool> {
        self.adopt_session(adoption, claimant).await
    }

    async fn publish(&self, session: &SessionId, token: &ClaimToken) -> Result<bool> {
        self.publish_session(session, token).await
    }

    async fn open_stream(
        &self,
        stream: &StreamId,
        principal: &str,
        holder: &str,
    ) -> Result<Option<OpenedStream>> {
        let (k, connection) = (&self.keys, &stream.connection);
        let call = match &stream.session {
            Some(session) => ScriptCall::new(&scripts().open_session_stream)
                .key(k.session(session))
                .key(k.parties(session))
                .arg(session.as_str())
                .arg(principal)
                .arg(connection.as_str())
                .arg(holder)
                .num(STREAM_TTL.as_millis() as u64),
            None => ScriptCall::new(&scripts().open_connection_stream)
                .key(k.connection(connection))
                .arg(connection.as_str())
                .arg(holder)
                .num(CONNECTION_TTL),
        };
        let mut items = self.run(call).await?.items()?;
        if items.is_empty() {
            return Ok(None);
        }
        let written = LastWritten {
            cursor: Some(items.text()?).filter(|cursor| !cursor.is_empty()),
            is_final: items.number()? == 0,
        };
        let attachment = stream
            .session
            .as_ref()
            .map(|_| items.attachment())
            .transpose()?;
        Ok(Some(OpenedStream {
            written,
            attachment,
        }))
    }

    async fn last_written(&self, stream: &StreamId, holder: &str) -> Result<Option<LastWritten>> {
        self.written_by(stream, holder).await
    }

    async fn touch_streams(&self, touches: &[StreamTouch]) -> Result<Vec<String>> {
        // One multiplexed connection: these travel together.
        let touched = join_all(touches.iter().map(|touch| self.touch(touch, true))).await;
        let (mut lost, mut failed) = (Vec::new(), Ok(()));
        for (touch, held) in touches.iter().zip(touched) {
            match held {
                Ok(true) => {}
                Ok(false) => lost.push(touch.holder.clone()),
                Err(error) => failed = Err(error),
            }
        }
        // Those who lost their stream are told even if others could not be asked.
        if lost.is_empty() {
            failed.map(|()| lost)
        } else {
            Ok(lost)
        }
    }

    async fn close_stream(&self, touch: &StreamTouch) -> Result<()> {
        self.touch(touch, false).await.map(drop)
    }
}

#[async_trait]
impl WorkerStore for RedisStore {
    async fn client_description(&self, connection: &ConnectionId) -> Result<Option<Bytes>> {
        self.description_of(connection).await
    }

    async fn register(&self, agent: &AgentCard, worker: &WorkerId, lasts: Duration) -> Result<()> {
        self.register_agent(agent, worker, lasts).await
    }

    async fn claim(&self, session: &SessionId, claimant: &Claimant) -> Result<Option<Claim>> {
        let k = &self.keys;
        let call = ScriptCall::new(&scripts().claim)
            .key(k.session(session))
            .key(k.inbox(session))
            .key(k.due(session.partition(), &claimant.agent))
            .arg(session.as_str())
            .arg(&claimant.agent)
            .arg(&*claimant.token.0)
            .arg(&*claimant.worker.0)
            .num(claimant.lease.as_millis() as u64)
            .num(may_take_over_until(claimant))
            .num(self.client.waits_for_replicas().into());
        let mut items = self.run_durably(call).await?.items()?;
        if items.is_empty() {
            return Ok(None);
        }
        if self.client.waits_for_replicas() {
            let call = ScriptCall::new(&scripts().confirm_claim)
                .key(k.session(session))
                .arg(&*claimant.token.0);
            // Without it, a holder that vanishes now does not count: a request that stops workers
            // is found out later.
            if let Err(error) = self.client.run_briefly(call).await {
                tracing::debug!(%error, session.id = %session, "could not confirm a claim");
            }
        }
        items.claim(session, claimant).map(Some)
    }

    async fn due(&self, partition: Partition, agent: &str, limit: usize) -> Result<DueSessions> {
        self.due_sessions(partition, agent, limit).await
    }

    async fn renew(
        &self,
        claims: &[(SessionId, ClaimToken)],
        lease: Duration,
    ) -> Result<Vec<SessionId>> {
        let mut partitions: HashMap<Partition, Vec<&(SessionId, ClaimToken)>> = HashMap::new();
        for claim in claims {
            partitions
                .entry(claim.0.partition())
                .or_default()
                .push(claim);
        }
        // One node that does not answer must not cost the leases on the others.
        let renewals = partitions
            .into_values()
            .map(|claims| self.renew_partition(claims, lease));
        let mut lost = Vec::new();
        let mut failed = Ok(());
        for renewed in join_all(renewals).await {
            match renewed {
                Ok(sessions) => lost.extend(sessions),
                Err(error) => failed = Err(error),
            }
        }
        if lost.is_empty() {
            failed.map(|()| lost)
        } else {
            Ok(lost)
        }
    }

    async fn inbox(&self, session: &SessionId, known: &[CommandId]) -> Result<Vec<QueuedCommand>> {
        let known: Vec<String> = known.iter().map(CommandId::to_string).collect();
        let mut call = ScriptCall::new(&scripts().inbox)
            .key(self.keys.session(session))
            .key(self.keys.inbox(session));
        for name in &known {
            call = call.arg(name);
        }
        let mut items = self.run(call).await?.items()?;
        let counts = items.counting()?;
        items.queued(&counts)
    }

    async fn waiting_commands(&self, session: &SessionId) -> Result<Vec<CommandId>> {
        let call = ScriptCall::new(&scripts().commands)
            .key(self.keys.session(session))
            .key(self.keys.inbox(session));
        let mut items = self.run(call).await?.items()?;
        let counts = items.counting()?;
        ScriptReply(items.next()?).items()?.commands(&counts)
    }

    async fn append(&self, append: &AppendRequest) -> Result<AppendOutcome> {
        self.append_events(append).await
    }

    async fn release(&self, session: &SessionId, token: &ClaimToken) -> Result<()> {
        let call = ScriptCall::new(&scripts().release)
            .key(self.keys.session(session))
            .key(self.keys.inbox(session))
            .arg(session.as_str())
            .arg(&*token.0);
        self.run(call).await.map(drop)
    }

    async fn tidy(&self, partition: Partition, when: &TidyPolicy) -> Result<TidyOutcome> {
        // They belong to no partition.
        if partition.0 == 0 {
            // Others may have started since, or Redis may have lost it.
            format::check(&self.client, self.keys.format()).await?;
            self.retire_agents(when.unused).await?;
        }
        self.tidy_partition(partition, when).await
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
