//! The store: what every step promises, whoever keeps the data.
//!
//! Steps are atomic and idempotent: a caller that never saw the reply repeats the call and gets
//! the same outcome. Signals are hints and may be lost; logs and inboxes are the truth.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::command::{Command, CommandId, IdempotencyKey, QueuedCommand};
use crate::event::{Event, Frame};
use crate::id::{ConnectionId, LogId, Nonce, Partition, SessionId, random_text};
use crate::revocation::Revocation;
use crate::route::{DeliveryPath, Route};
use crate::token::CONNECTION_LIFETIME;

mod agent;
mod embedded;
mod enqueue;
mod lifecycle;
mod page;
pub mod redis;
mod signal_sink;
mod signals;

pub use agent::{AgentCard, MAX_AGENT_NAME};
pub use embedded::{
    BackupSnapshot, DirectoryError, FileStore, MemoryStore, RestoreError, admin_of, identity,
    restore,
};
#[cfg(any(test, feature = "conformance"))]
pub use embedded::{OutboxReplica, SessionReplica};
pub use enqueue::{EnqueueOutcome, EnqueueRequest, InboxAdmission};
pub use lifecycle::{
    AdoptRequest, ForkOutcome, ForkPoint, ForkRequest, ListPosition, ListRequest, PrincipalUsage,
    SessionRecord, SessionSetup, SessionSummary,
};
pub use signals::{Signal, SignalListener, Topic};

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing was acknowledged; the same call may be made again.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// A fault of ours or of the data; trying again will not help.
    #[error("the store answered with something unexpected: {0}")]
    Broken(String),
}

#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// How many partitions new sessions and connections are spread over.
    fn partitions(&self) -> u16;

    /// The nonce drawn when the store was last restored from a backup, if it ever was: numbers that
    /// were given after that backup are given again, to something else. Names that are made of
    /// numbers alone contain this nonce, too.
    fn restored(&self) -> Option<Nonce>;

    /// Answers when the store does.
    async fn ping(&self) -> Result<()>;

    /// Whether there is room for new sessions. It ends before the store is so full that running ones
    /// cannot go on.
    async fn has_room(&self) -> Result<bool> {
        Ok(true)
    }

    // ---- agents ----

    /// A worker says what it runs and that it lives, for as long as this `lasts`; to be repeated every
    /// [`HEARTBEAT`].
    async fn register(&self, agent: &AgentCard, worker: &WorkerId, lasts: Duration) -> Result<()>;

    /// All agents that are known, by name, with the number of workers alive. Where these differ in their
    /// cards, as during an upgrade, it is that of the one that came last of those alive. Housekeeping
    /// forgets an agent when no worker has run it for [`TidyPolicy::unused`].
    async fn agents(&self) -> Result<Vec<(AgentCard, usize)>>;

    /// Names of agents that have no worker alive, although sessions may wait for one.
    async fn deserted(&self) -> Result<Vec<String>>;

    /// How many of an agent's sessions have work that no worker has taken up.
    async fn waiting(&self, agent: &str) -> Result<u64>;

    // ---- connections ----

    /// Appends to a connection's outbox, once per key. Delivered entries are removed in time, see
    /// [`OutboxProgress`].
    async fn post(
        &self,
        to: &ConnectionId,
        event: Event,
        key: &IdempotencyKey,
    ) -> Result<PostOutcome>;

    /// Whether the connection's client reads what it is told: half of [`OUTBOX_BYTES`] is free. To be asked
    /// before work whose answer goes there.
    async fn has_outbox_room(&self, connection: &ConnectionId) -> Result<bool>;

    /// The sessions of [`Event::Watch`] entries that have left the outbox, each with the number of its first
    /// such entry, in the order of these.
    async fn watches(&self, connection: &ConnectionId) -> Result<Vec<(u64, SessionId)>>;

    // ---- sessions, from the client's side ----

    /// Creates the session with its first command in the inbox and its creator attached. Creating
    /// the same id again changes nothing.
    async fn create(&self, new: &NewSession, first: &Command, key: &IdempotencyKey) -> Result<()>;

    /// Puts a command into the inbox, once per key, and wakes a worker.
    async fn enqueue(&self, request: &EnqueueRequest) -> Result<EnqueueOutcome>;

    /// The session that a request of a connection went to, by its idempotency key, for each that waits or
    /// runs and is [`findable`](Enqueue::findable). It may be told of one that is done, too.
    async fn session_of(&self, connection: &ConnectionId, key: &str) -> Result<Option<SessionId>>;

    /// Attaches a connection (`session/load`, `session/resume`) and makes it the controller.
    async fn attach(&self, request: &AttachParams) -> Result<AttachOutcome>;

    /// Returns the session's view of a connection; `None` if there is no such session for the
    /// principal. A deleted session is there for streams until it is removed.
    async fn attachment(
        &self,
        session: &SessionId,
        connection: &ConnectionId,
        principal: &str,
    ) -> Result<Option<Attachment>>;

    /// For the holder of a connection's stream that has delivered everything of a session that the connection has closed: from here on it
    /// is told anew to watch it ([`AttachOutcome::Unwatched`]). False if the session is open, somebody else has closed it,
    /// there is more to come, or something may be on its way: then it goes on watching. To be called by who has heard of
    /// no entry of the outbox after `watch` that tells the same.
    async fn unwatch(
        &self,
        session: &SessionId,
        connection: &ConnectionId,
        watch: u64,
        seen: SeenPosition,
    ) -> Result<bool>;

    /// For the holder of a connection's stream that reads a session there no more: entries of the outbox up to `told`, the
    /// last that told to watch the session, stop counting. Without this each session that the connection ever opened would
    /// take one of [`OUTBOX_WATCHES`].
    async fn forget_watch(
        &self,
        connection: &ConnectionId,
        session: &SessionId,
        told: u64,
    ) -> Result<()>;

    // ---- sessions as wholes ----

    /// Makes a child that shares the parent's log up to a point and then goes its own way: nothing is
    /// copied, and nothing that happens to the parent reaches it. Its log reads as its own, with its
    /// own id in every message. Forking to the same child again changes nothing.
    async fn fork(&self, fork: &ForkRequest) -> Result<ForkOutcome>;

    /// Sessions of a principal by when they were last changed, newest first.
    async fn list(&self, listing: &ListRequest) -> Result<Vec<SessionSummary>>;

    /// How much a principal has now. Of more than `most` sessions it may say that there are as many.
    async fn usage(&self, principal: &str, most: u64) -> Result<PrincipalUsage>;

    /// From here on there is no such session for anybody; false if there was none before. If somebody
    /// works on it, has asked something of it, or something is bound to it, `end` goes into its inbox
    /// so that a worker brings it to an end. Housekeeping forgets it [`DELETED_FOR`] later; its log stays
    /// as long as forks need it.
    async fn delete(&self, session: &SessionId, principal: &str, end: &Command) -> Result<bool>;

    /// The session between two turns: if one runs, as it was before. `None` if the principal has none
    /// such.
    async fn record(&self, session: &SessionId, principal: &str) -> Result<Option<SessionRecord>>;

    /// Begins to take in a session from elsewhere: the caller holds it and appends its log. Nobody
    /// else sees it before it is published, and if it never is, housekeeping forgets it. False if the
    /// id is taken.
    async fn adopt(&self, adoption: &AdoptRequest, claimant: &Claimant) -> Result<bool>;

    /// The session is complete: it becomes visible, and is released. False if it is not the
    /// caller's any more.
    async fn publish(&self, session: &SessionId, token: &ClaimToken) -> Result<bool>;

    // ---- streams ----

    /// Registers the holder of a stream; an earlier holder is told that it lost it. `None` if the
    /// principal has no such session.
    async fn open_stream(
        &self,
        stream: &StreamId,
        principal: &str,
        holder: &str,
    ) -> Result<Option<OpenedStream>>;

    /// For the holder that has just opened a stream, and waits for the last word of an earlier one. `None` if somebody else
    /// holds it by now.
    async fn last_written(&self, stream: &StreamId, holder: &str) -> Result<Option<LastWritten>>;

    /// Keeps registrations alive and records what was written. Returns the holders that are no longer
    /// the ones, because a newer one took their stream.
    async fn touch_streams(&self, touches: &[StreamTouch]) -> Result<Vec<String>>;

    /// Ends the registration. If another holder has taken the stream over, it begins where this one has ended, unless it
    /// has written something already.
    async fn close_stream(&self, touch: &StreamTouch) -> Result<()>;

    // ---- logs ----

    /// Frames from the one that contains `from` on: at most `limit`, and no more than [`PAGE_BYTES`] unless it
    /// is a single one. So there may be more.
    async fn read(&self, log: &LogId, from: u64, limit: usize) -> Result<Vec<Arc<Frame>>>;

    /// As [`Self::read`], for those who show what they read: nothing that a failover could take back although others act
    /// on it. Where that begins the log seems to end; it is signalled ([`Signal::Grown`]) when it can be read.
    async fn read_confirmed(
        &self,
        log: &LogId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Arc<Frame>>> {
        self.read(log, from, limit).await
    }

    /// As [`Self::read`], and no frame that begins after `upto`, as far as the store can tell. Few at a time.
    async fn read_between(&self, log: &LogId, from: u64, upto: u64) -> Result<Vec<Arc<Frame>>> {
        let few = usize::try_from(upto - from + 1).unwrap_or(usize::MAX);
        self.read(log, from, few.min(32)).await
    }

    /// The number of the last event of each log, 0 for an empty or unknown one.
    async fn heads(&self, logs: &[LogId]) -> Result<Vec<u64>>;

    // ---- sessions, from the worker's side ----

    /// Takes the session if nobody holds it and it has work, or if its lease ran out and the claimant may
    /// take it over.
    async fn claim(&self, session: &SessionId, claimant: &Claimant) -> Result<Option<Claim>>;

    /// Sessions of the partition that wait for a worker of this agent or whose lease ran out, oldest first as
    /// far as the store can tell, at most `limit`. To be claimed one by one: others may be faster.
    async fn due(&self, partition: Partition, agent: &str, limit: usize) -> Result<DueSessions>;

    /// Extends leases; returns the sessions that are no longer the caller's.
    async fn renew(
        &self,
        claims: &[(SessionId, ClaimToken)],
        lease: Duration,
    ) -> Result<Vec<SessionId>>;

    /// Commands that wait, in order, but for those that the caller knows.
    async fn inbox(&self, session: &SessionId, known: &[CommandId]) -> Result<Vec<QueuedCommand>>;

    /// The names of all commands that wait, in order.
    async fn waiting_commands(&self, session: &SessionId) -> Result<Vec<CommandId>>;

    /// The one way to write a session's log.
    async fn append(&self, append: &AppendRequest) -> Result<AppendOutcome>;

    /// Gives the session up, so that another worker can go on at once.
    async fn release(&self, session: &SessionId, token: &ClaimToken) -> Result<()>;

    // ---- revocations ----

    /// From here on it is listed and everybody who listens is told. For one subject the later `before`
    /// wins. Callers have budgets for what they ask for, see [`RevocationCause`](crate::revocation::RevocationCause): too many
    /// logouts become one for all logins of the principal. False if it was not taken for lack of budget.
    async fn revoke(&self, revocation: &Revocation) -> Result<bool>;

    /// All that still matter; what has ended is forgotten on the way.
    async fn revocations(&self) -> Result<Vec<Revocation>>;

    // ---- what may be used once ----

    /// True for the first caller of all, false for everybody after it while it `lasts`: through
    /// restarts, on whichever replica. A caller that saw no reply and calls again gets false; that
    /// is safe.
    async fn spend(&self, name: &str, lasts: Duration) -> Result<bool>;

    // ---- housekeeping ----

    /// Compacts idle sessions and removes expired ones. A few sessions at a time: to be repeated.
    async fn tidy(&self, partition: Partition, when: &TidyPolicy) -> Result<TidyOutcome>;

    // ---- signals ----

    /// Opens the caller's one push connection. Signals go to `sink`; when it is full they are
    /// dropped and a [`Signal::Lost`] follows.
    async fn listen(&self, sink: mpsc::Sender<Signal>) -> Result<Arc<dyn SignalListener>>;
}

/// The maximum size of the frames of one [`Store::read`], unless it is a single one.
pub const PAGE_BYTES: u64 = 1 << 20;
/// How often a worker repeats [`Store::register`].
pub const HEARTBEAT: Duration = Duration::from_secs(3);
/// How long it counts as alive after that.
pub const ALIVE: Duration = Duration::from_secs(3 * HEARTBEAT.as_secs());
/// How long after that it keeps its place in the order in which workers came, should it wake.
const PLACE_KEPT: Duration = Duration::from_secs(180);
/// How long a connection's outbox is kept without being used: an hour longer than its token is good.
pub const OUTBOX_TTL: Duration = Duration::from_secs(CONNECTION_LIFETIME.as_secs() + 3600);
/// The maximum size of an outbox. A client that does not read it gets no further answers.
pub const OUTBOX_BYTES: u64 = 8 << 20;
/// Delivered entries that stay in an outbox: a client that lost its connection may be this far
/// behind.
pub const OUTBOX_WINDOW_BYTES: u64 = 64 << 10;
pub const OUTBOX_WINDOW_ENTRIES: u64 = 256;
/// The same for [`Event::Positions`], which count for themselves: gateways write them, and no client can do anything
/// about them.
pub const OUTBOX_WINDOW_POSITIONS: u64 = 256 << 10;
/// The size of an outbox entry beside its frame.
const OUTBOX_ENTRY: u64 = 64;
/// Entries that leave an outbox in one step at most.
const OUTBOX_TRIMMED_AT_ONCE: usize = 256;
/// Sessions that one connection may watch beyond those in its outbox.
pub const OUTBOX_WATCHES: u64 = 8192;
/// How long a stream counts as open after its last touch.
pub const STREAM_TTL: Duration = Duration::from_secs(20);
/// Commands that may wait in one inbox unless the gateway says otherwise; twice as many if they end
/// something.
pub const INBOX_LIMIT: u64 = 256;
/// How long a deleted session is kept, so that streams can deliver its last words.
pub const DELETED_FOR: Duration = Duration::from_secs(60);
/// So many ancestors a session may have.
pub const MAX_FORK_DEPTH: usize = 64;
/// The maximum size of the commands in one inbox, unless it is a single one.
pub const INBOX_BYTES: u64 = 32 << 20;
/// Loads and resumes of one connection that are remembered until they are answered.
pub const KEPT_ATTACH_REQUESTS: usize = 16;
/// Connections that a session knows before those that have ended long ago are forgotten.
pub const KEPT_PARTIES: usize = 32;
/// How many idempotency keys of one connection a session remembers, and the connection itself. Those of commands that
/// still wait are never the ones to be forgotten.
pub const REMEMBERED_KEYS: u64 = 16;
/// How many of all its connections together a session remembers.
pub const REMEMBERED_KEYS_IN_ALL: u64 = 64;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WorkerId(pub Arc<str>);

/// A random name of one claim: only its holder can append.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClaimToken(pub Arc<str>);

impl ClaimToken {
    pub fn random() -> Self {
        Self(random_text(22).into())
    }
}

#[derive(Clone, Debug)]
pub struct NewSession {
    pub id: SessionId,
    pub principal: String,
    pub agent: String,
    pub cwd: String,
    /// The params of `session/new`, for whichever worker opens the session later.
    pub params: Bytes,
    /// `additionalDirectories` as JSON, empty for none.
    pub directories: Bytes,
    pub one_shot: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub enum PostOutcome {
    /// It is this entry of the outbox.
    New { number: u64, nonce: Nonce },
    /// The key was used before, for this event.
    Known(Event),
    /// The key was used before; what it was used for was delivered, and is not kept any more.
    Delivered,
    /// The key was used before, with another fingerprint.
    Conflict,
    /// Nothing was taken: the client has to read first, see [`OUTBOX_BYTES`].
    Full,
}

#[derive(Clone, Debug)]
pub struct AttachParams {
    pub session: SessionId,
    pub principal: String,
    pub connection: ConnectionId,
    pub request: Arc<str>,
    pub cwd: String,
    /// `session/load` replays, `session/resume` doesn't.
    pub replay: bool,
    pub one_shot: bool,
    pub watched: bool,
    /// Settings of the session from now on.
    pub setup: SessionSetup,
    /// Only to read along: who controls it, its setup and whether it is closed stay as they are. An
    /// empty `cwd` is not compared, and after an empty `request` nobody is answered.
    pub observe: bool,
    /// Not if it is closed, and this would open it.
    pub only_open: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub enum AttachOutcome {
    Done(Box<Attachment>),
    NotFound,
    /// It is closed, and was to be open.
    Closed,
    /// The session lives in another directory.
    WrongCwd(String),
    Unwatched {
        head: u64,
    },
}

/// The session's view of one connection, for the holder of its stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    pub head: u64,
    pub route: Route,
    pub controller: Option<ConnectionId>,
    /// The last loads and resumes, oldest first. Each is answered by the holder of its stream.
    pub directives: Vec<AttachRequest>,
    /// The result of a load or resume: modes and config options as they are now.
    pub view: Bytes,
    /// Numbers of the agent's requests that nobody has answered yet.
    pub pending: Vec<u64>,
    /// The session was deleted: streams bring its last words, then it is forgotten.
    pub deleted: bool,
    /// This connection has closed it. Others that read it are there if it is opened again.
    pub closed: bool,
    /// The entry of its outbox that had told to watch it, and does not count any more: see [`Store::unwatch`].
    pub left: u64,
}

impl Attachment {
    /// The last load or resume.
    pub fn latest(&self) -> Option<AttachRequest> {
        self.directives.last().cloned()
    }
}

/// How far a connection has read a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenPosition {
    pub upto: u64,
    /// The last load or resume that was answered, 0 for none.
    pub directive: u64,
}

/// Tells the holder of a stream how to answer a load or resume: history 1…`upto` if `replay`, then
/// the answer to `request`, then live from `upto` + 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachRequest {
    pub number: u64,
    pub upto: u64,
    pub replay: bool,
    pub via: DeliveryPath,
    pub request: Arc<str>,
}

/// One stream of a connection: a session's, or the connection's own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StreamId {
    pub connection: ConnectionId,
    pub session: Option<SessionId>,
}

impl StreamId {
    pub fn log(&self) -> LogId {
        match &self.session {
            Some(session) => LogId::Session(session.clone()),
            None => LogId::Outbox(self.connection.clone()),
        }
    }
}

/// How far earlier holders of a stream have written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastWritten {
    /// As it was last recorded.
    pub cursor: Option<String>,
    /// False as long as an earlier holder may have written more: it is recorded when that one ends the stream.
    pub is_final: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedStream {
    pub written: LastWritten,
    /// For a session stream.
    pub attachment: Option<Attachment>,
}

#[derive(Clone, Debug)]
pub struct StreamTouch {
    pub stream: StreamId,
    pub holder: String,
    /// The cursor last written, if it has changed.
    pub written: Option<String>,
    /// Of a connection's stream: how far its outbox is done with.
    pub delivered: Option<OutboxProgress>,
}

/// Entries of an outbox by number: the first that cursors need, be it the last entry that was delivered or one that holds
/// positions. Those before it leave the outbox, but for a window ([`OUTBOX_WINDOW_BYTES`]); the entry itself stays, so
/// that a cursor that names it can be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboxProgress {
    /// Entries written to the client. Entries before it are removed only when the outbox would be
    /// full otherwise.
    pub upto: u64,
    /// By what was written long enough ago.
    pub settled: u64,
}

#[derive(Clone, Debug)]
pub struct Claimant {
    pub worker: WorkerId,
    pub agent: String,
    pub token: ClaimToken,
    pub lease: Duration,
    /// May take a session over whose lease ran out. It says when the session was found due: a claim that the
    /// store gets to only [`TAKEOVER_WINDOW`] later is refused, since the holder may have been unable to renew
    /// for as long as the claim was unable to arrive.
    pub takes_over: Option<StoreTime>,
}

/// A moment by the store's clock, in milliseconds.
pub type StoreTime = u64;

/// How long after it was found due a session may be taken over.
pub const TAKEOVER_WINDOW: Duration = Duration::from_secs(1);

/// The sessions that [`Store::due`] found, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DueSessions {
    pub at: StoreTime,
    pub sessions: Vec<SessionId>,
}

/// A session in a worker's hands, with all it needs to go on.
#[derive(Clone, Debug)]
pub struct Claim {
    pub session: SessionId,
    pub token: ClaimToken,
    /// The owner; empty once the session was deleted.
    pub principal: String,
    pub head: u64,
    pub cwd: String,
    pub params: Bytes,
    /// Replaces values of the params; set by a later load, resume or fork.
    pub setup: SessionSetup,
    /// The agent's state between turns. Empty although there is a log: the session is a fork from
    /// the middle of another, and the agent has to read back its conversation.
    pub state: Bytes,
    /// Identifiers that agents and tools have bound to the session, a JSON object or empty.
    pub bound: Bytes,
    /// The turn that was running when the last holder vanished.
    pub running: Option<RunningTurn>,
    pub vanished: VanishedHolders,
    pub inbox: Vec<QueuedCommand>,
}

/// Holders in a row that vanished at the same event: neither released the session nor wrote anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VanishedHolders {
    /// Of these, the last ones that had no question open and did not live long enough to renew their lease.
    pub at_once: u32,
    /// All but those that had lived longer and waited for somebody's answer.
    pub working: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningTurn {
    pub command: CommandId,
    /// The number of the turn's [`Event::Begin`].
    pub began: u64,
}

#[derive(Clone, Debug)]
pub struct AppendRequest {
    pub session: SessionId,
    pub token: ClaimToken,
    pub nonce: Nonce,
    /// The number of the first event: the head the writer knows, plus one.
    pub first: u64,
    pub events: Vec<Event>,
    /// Commands that are done with; they leave the inbox in the same step.
    pub acks: Vec<CommandId>,
    /// The requests among them. A repeated request joins the first one, even if the store has lost
    /// that it was ever accepted.
    pub requests: Vec<AnsweredRequest>,
    /// New values of the session's fields; `None` leaves them as they are.
    pub state: Option<Bytes>,
    pub view: Option<Bytes>,
    pub pending: Option<Vec<u64>>,
    pub title: Option<String>,
    /// The last `usage_update`, as JSON.
    pub usage: Option<Bytes>,
    pub bound: Option<Bytes>,
    /// Give the session up, unless commands wait.
    pub release: bool,
    /// It has to last like an answer, whatever it says: so much was said since the last that did that its writer cannot
    /// keep more.
    pub confirmed: bool,
}

/// A request whose command is done with.
#[derive(Clone, Debug)]
pub struct AnsweredRequest {
    pub command: CommandId,
    pub connection: ConnectionId,
    pub key: IdempotencyKey,
    pub via: DeliveryPath,
}

impl AnsweredRequest {
    /// `None` if nobody waited for an answer.
    pub fn of(queued: &QueuedCommand) -> Option<Self> {
        let Command {
            connection,
            request,
            message,
            ..
        } = &queued.command;
        Some(Self {
            command: queued.id,
            connection: connection.clone(),
            key: IdempotencyKey::of(connection, Some(request.as_deref()?), message),
            via: queued.via,
        })
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum AppendOutcome {
    /// Written, now or by an earlier try. `released` tells whether the session was released.
    Done { head: u64, released: bool },
    /// The session belongs to somebody else now.
    Fenced,
    /// The log ends before `first` - 1: it lost its tail. Write again from `head` + 1.
    Gap { head: u64 },
}

/// When housekeeping is due.
#[derive(Clone, Copy, Debug)]
pub struct TidyPolicy {
    /// Sessions that nobody has used for so long are made smaller.
    pub rested: Duration,
    /// Those that nobody has used for so long are forgotten, and so are agents that nobody has run.
    pub unused: Duration,
}

/// The result of a round of housekeeping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TidyOutcome {
    pub compacted: usize,
    pub expired: usize,
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
