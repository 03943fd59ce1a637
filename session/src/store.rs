//! The store: what every step promises, whoever keeps the data.
//!
//! Steps are atomic and idempotent: a caller that never saw the reply repeats the call and gets
//! the same outcome. Signals are hints and may be lost; logs and inboxes are the truth.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::command::{Command, CommandId, IdempotencyKey, QueuedCommand};
use crate::event::Event;
use crate::id::{ConnectionId, LogId, Nonce, SessionId, random_text};
use crate::route::{DeliveryPath, Route};
use crate::token::CONNECTION_LIFETIME;

mod agent;
mod credential_store;
mod embedded;
mod enqueue;
mod gateway_store;
mod lifecycle;
mod log_store;
mod page;
pub mod redis;
mod report_store;
mod signal_sink;
mod signals;
mod worker_store;

pub use agent::{AgentCard, MAX_AGENT_NAME};
pub use credential_store::CredentialStore;
pub use embedded::{
    BackupSnapshot, DirectoryError, FileStore, MemoryStore, RestoreError, admin_of, identity,
    restore,
};
#[cfg(any(test, feature = "conformance"))]
pub use embedded::{OutboxReplica, SessionReplica};
pub use enqueue::{EnqueueOutcome, EnqueueRequest, InboxAdmission};
pub use gateway_store::GatewayStore;
pub use lifecycle::{
    AdoptRequest, ForkOutcome, ForkPoint, ForkRequest, ListRequest, PrincipalUsage, SessionRecord,
    SessionSetup, SessionSummary, SharedLog,
};
pub use log_store::LogStore;
pub use report_store::{ReportStore, StoreMemory};
pub use signals::{Signal, SignalListener, Topic};
pub use worker_store::WorkerStore;

pub use crate::event::PAGE_BYTES;
pub use crate::list_position::ListPosition;

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

/// All that is asked of a store, by who asks it.
///
/// | trait | for |
/// |---|---|
/// | [`LogStore`] | gateways and workers: logs, signals, and the store itself |
/// | [`GatewayStore`] | gateways: connections, streams, and sessions from the client's side |
/// | [`WorkerStore`] | workers: sessions from the worker's side, and housekeeping |
/// | [`CredentialStore`] | gateways: revocations, and what may be used once |
/// | [`ReportStore`] | all processes: what they say of themselves |
pub trait Store: LogStore + GatewayStore + WorkerStore + CredentialStore + ReportStore {}

impl<S: LogStore + GatewayStore + WorkerStore + CredentialStore + ReportStore> Store for S {}

/// How often a worker repeats [`WorkerStore::register`].
pub const HEARTBEAT: Duration = Duration::from_secs(3);
/// How long it counts as alive after that.
pub const ALIVE: Duration = Duration::from_secs(3 * HEARTBEAT.as_secs());
/// How long after that it keeps its place in the order in which workers came, should it wake.
const PLACE_KEPT: Duration = Duration::from_secs(180);
/// How long a connection's outbox is kept without being used: an hour longer than its token is
/// good.
pub const OUTBOX_TTL: Duration = Duration::from_secs(CONNECTION_LIFETIME.as_secs() + 3600);
/// The maximum size of an outbox. A client that does not read it gets no further answers.
pub const OUTBOX_BYTES: u64 = 8 << 20;
/// Delivered entries that stay in an outbox: a client that lost its connection may be this far
/// behind.
pub const OUTBOX_WINDOW_BYTES: u64 = 64 << 10;
pub const OUTBOX_WINDOW_ENTRIES: u64 = 256;
/// The same for [`Event::Positions`], which count for themselves: gateways write them, and no
/// client can do anything about them.
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
/// How many idempotency keys of one connection a session remembers, and the connection itself.
/// Those of commands that still wait are never the ones to be forgotten.
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
    /// The entry of its outbox that had told to watch it, and does not count any more: see
    /// [`GatewayStore::unwatch`].
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
    /// False as long as an earlier holder may have written more: it is recorded when that one ends
    /// the stream.
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

/// Entries of an outbox by number: the first that cursors need, be it the last entry that was
/// delivered or one that holds positions. Those before it leave the outbox, but for a window
/// ([`OUTBOX_WINDOW_BYTES`]); the entry itself stays, so that a cursor that names it can be
/// checked.
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
    /// May take a session over whose lease ran out. It says when the session was found due: a claim
    /// that the store gets to only [`TAKEOVER_WINDOW`] later is refused, since the holder may have
    /// been unable to renew for as long as the claim was unable to arrive.
    pub takes_over: Option<StoreTime>,
}

/// A moment by the store's clock, in milliseconds.
pub type StoreTime = u64;

/// How long after it was found due a session may be taken over.
pub const TAKEOVER_WINDOW: Duration = Duration::from_secs(1);

/// The sessions that [`WorkerStore::due`] found, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DueSessions {
    pub at: StoreTime,
    pub sessions: Vec<SessionId>,
    /// The answer came over another connection than the last one, perhaps from another server. The
    /// store may have been away in between, or know less than before: leases that ran out say
    /// nothing about their holders.
    pub reconnected: bool,
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

/// Holders in a row that vanished at the same event: neither released the session nor wrote
/// anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VanishedHolders {
    /// Of these, the last ones that had no question open and did not live long enough to renew
    /// their lease.
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
    /// It has to last like an answer, whatever it says: so much was said since the last that did
    /// that its writer cannot keep more.
    pub confirmed: bool,
}

impl AppendRequest {
    /// Events, and nothing else.
    pub fn new(
        session: SessionId,
        token: ClaimToken,
        nonce: Nonce,
        first: u64,
        events: Vec<Event>,
    ) -> Self {
        Self {
            session,
            token,
            nonce,
            first,
            events,
            acks: Vec::new(),
            requests: Vec::new(),
            state: None,
            view: None,
            pending: None,
            title: None,
            usage: None,
            bound: None,
            release: false,
            confirmed: false,
        }
    }
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
