//! The gateway's side of a store: connections, streams and sessions.

use async_trait::async_trait;
use bytes::Bytes;

use super::{
    AdoptRequest, AgentCard, AttachOutcome, AttachParams, Attachment, ClaimToken, Claimant,
    EnqueueOutcome, EnqueueRequest, ForkOutcome, ForkRequest, LastWritten, ListRequest, NewSession,
    OpenedStream, PostOutcome, PrincipalUsage, Result, SeenPosition, SessionRecord, SessionSummary,
    StreamId, StreamTouch,
};
use crate::command::{Command, IdempotencyKey};
use crate::event::Event;
use crate::id::{ConnectionId, SessionId};

/// Connections, streams, and sessions from the client's side.
#[async_trait]
pub trait GatewayStore: Send + Sync + 'static {
    /// All agents that are known, by name, with the number of workers alive. Where these differ in
    /// their cards, as during an upgrade, it is that of the one that came last of those alive.
    /// Housekeeping forgets an agent when no worker has run it for
    /// [`TidyPolicy::unused`](super::TidyPolicy::unused).
    async fn agents(&self) -> Result<Vec<(AgentCard, usize)>>;

    /// Names of agents that have no worker alive, although sessions may wait for one.
    async fn deserted(&self) -> Result<Vec<String>>;

    /// How many of an agent's sessions have work that no worker has taken up.
    async fn waiting(&self, agent: &str) -> Result<u64>;

    /// Appends to a connection's outbox, once per key. Delivered entries are removed in time, see
    /// [`OutboxProgress`](super::OutboxProgress).
    async fn post(
        &self,
        to: &ConnectionId,
        event: Event,
        key: &IdempotencyKey,
    ) -> Result<PostOutcome>;

    /// Whether the connection's client reads what it is told: half of
    /// [`OUTBOX_BYTES`](super::OUTBOX_BYTES) is free. To be asked before work whose answer goes
    /// there.
    async fn has_outbox_room(&self, connection: &ConnectionId) -> Result<bool>;

    /// The sessions of [`Event::Watch`] entries that have left the outbox, each with the number of
    /// its first such entry, in the order of these.
    async fn watches(&self, connection: &ConnectionId) -> Result<Vec<(u64, SessionId)>>;

    /// Keeps the client's description of itself for workers, for as long as the connection's token
    /// is good. A second call replaces it.
    async fn describe_client(&self, connection: &ConnectionId, description: &Bytes) -> Result<()>;

    /// Creates the session with its first command in the inbox and its creator attached. Creating
    /// the same id again changes nothing.
    async fn create(&self, new: &NewSession, first: &Command, key: &IdempotencyKey) -> Result<()>;

    /// Puts a command into the inbox, once per key, and wakes a worker.
    async fn enqueue(&self, request: &EnqueueRequest) -> Result<EnqueueOutcome>;

    /// The session that a request of a connection went to, by its idempotency key, for each that
    /// waits or runs and is [`findable`](super::EnqueueRequest::findable). It may be told of one
    /// that is done, too.
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

    /// For the holder of a connection's stream that has delivered everything of a session that the
    /// connection has closed: from here on it is told anew to watch it
    /// ([`AttachOutcome::Unwatched`]). False if the session is open, somebody else has closed it,
    /// there is more to come, or something may be on its way: then it goes on watching. To be
    /// called by who has heard of no entry of the outbox after `watch` that tells the same.
    async fn unwatch(
        &self,
        session: &SessionId,
        connection: &ConnectionId,
        watch: u64,
        seen: SeenPosition,
    ) -> Result<bool>;

    /// For the holder of a connection's stream that reads a session there no more: entries of the
    /// outbox up to `told`, the last that told to watch the session, stop counting. Without this
    /// each session that the connection ever opened would take one of
    /// [`OUTBOX_WATCHES`](super::OUTBOX_WATCHES).
    async fn forget_watch(
        &self,
        connection: &ConnectionId,
        session: &SessionId,
        told: u64,
    ) -> Result<()>;

    /// Makes a child that shares the parent's log up to a point and then goes its own way: nothing
    /// is copied, and nothing that happens to the parent reaches it. Its log reads as its own, with
    /// its own id in every message. Forking to the same child again changes nothing.
    async fn fork(&self, fork: &ForkRequest) -> Result<ForkOutcome>;

    /// Sessions of a principal by when they were last changed, newest first.
    async fn list(&self, listing: &ListRequest) -> Result<Vec<SessionSummary>>;

    /// How much a principal has now. Of more than `most` sessions it may say that there are as
    /// many.
    async fn usage(&self, principal: &str, most: u64) -> Result<PrincipalUsage>;

    /// From here on there is no such session for anybody; false if there was none before. If
    /// somebody works on it, has asked something of it, or something is bound to it, `end` goes
    /// into its inbox so that a worker brings it to an end. Housekeeping forgets it
    /// [`DELETED_FOR`](super::DELETED_FOR) later; its log stays as long as forks need it.
    async fn delete(&self, session: &SessionId, principal: &str, end: &Command) -> Result<bool>;

    /// The session between two turns: if one runs, as it was before. `None` if the principal has
    /// none such.
    async fn record(&self, session: &SessionId, principal: &str) -> Result<Option<SessionRecord>>;

    /// Begins to take in a session from elsewhere: the caller holds it and appends its log. Nobody
    /// else sees it before it is published, and if it never is, housekeeping forgets it. False if
    /// the id is taken, or the principal has no session whose log could be shared so far.
    async fn adopt(&self, adoption: &AdoptRequest, claimant: &Claimant) -> Result<bool>;

    /// The session is complete: it becomes visible, and is released. False if it is not the
    /// caller's any more.
    async fn publish(&self, session: &SessionId, token: &ClaimToken) -> Result<bool>;

    /// Registers the holder of a stream; an earlier holder is told that it lost it. `None` if the
    /// principal has no such session.
    async fn open_stream(
        &self,
        stream: &StreamId,
        principal: &str,
        holder: &str,
    ) -> Result<Option<OpenedStream>>;

    /// For the holder that has just opened a stream, and waits for what an earlier one records
    /// last. `None` if somebody else holds it by now.
    async fn last_written(&self, stream: &StreamId, holder: &str) -> Result<Option<LastWritten>>;

    /// Keeps registrations alive and records what was written. Returns the holders that are no
    /// longer the ones, because a newer one took their stream.
    async fn touch_streams(&self, touches: &[StreamTouch]) -> Result<Vec<String>>;

    /// Ends the registration. If another holder has taken the stream over, it begins where this one
    /// has ended, unless it has written something already.
    async fn close_stream(&self, touch: &StreamTouch) -> Result<()>;
}
