//! Sessions as wholes: forked, listed, moved.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::id::{ConnectionId, SessionId};
use crate::list_position::ListPosition;

/// Settings that a load, resume or fork may change, as JSON; `None` leaves them as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSetup {
    pub mcp_servers: Option<Bytes>,
    pub directories: Option<Bytes>,
}

#[derive(Clone, Debug)]
pub struct ForkRequest {
    pub parent: SessionId,
    /// Minted by the caller, in the parent's partition.
    pub child: SessionId,
    pub principal: String,
    /// Attached to the child from its first own event on, and in control of it. It does not count
    /// as watching: should the caller die before it has posted an
    /// [`Event::Watch`](crate::event::Event), whatever is asked of the child next is told that it
    /// is unwatched.
    pub connection: ConnectionId,
    pub cwd: String,
    /// Changes to the parent's.
    pub setup: SessionSetup,
    /// `None`: after the last finished turn, with all that the agent knew then.
    pub at: Option<ForkPoint>,
    pub inherit_bindings: bool,
    /// Not if the parent is closed.
    pub only_open: bool,
}

/// Where the child leaves its parent's log: after an event that is not part of the running turn.
/// The agent's state at that point is not kept, so the child begins with an empty one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkPoint {
    pub upto: u64,
    /// Modes and config options as they were.
    pub view: Bytes,
}

#[derive(Debug, PartialEq, Eq)]
pub enum ForkOutcome {
    /// The child's log ends with `head`.
    Done { head: u64, view: Bytes },
    /// The principal has no such parent.
    NotFound,
    /// The parent is closed, and was to be open.
    Closed,
    /// The cut is not in the log, or in the turn that runs.
    NoSuchCut,
    /// It has [`MAX_FORK_DEPTH`](super::MAX_FORK_DEPTH) ancestors already.
    TooDeep,
}

#[derive(Clone, Debug)]
pub struct ListRequest {
    pub principal: String,
    pub cwd: Option<String>,
    /// Only what comes after this place.
    pub after: Option<ListPosition>,
    pub limit: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSummary {
    pub place: ListPosition,
    pub cwd: String,
    pub title: String,
    /// `additionalDirectories` as JSON, or empty.
    pub directories: Bytes,
    /// The last `usage_update` as JSON, or empty.
    pub usage: Bytes,
}

/// A session without its log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionRecord {
    pub agent: String,
    pub cwd: String,
    pub params: Bytes,
    pub setup: SessionSetup,
    pub state: Bytes,
    pub view: Bytes,
    /// Where modes and options have changed, see [`settings_history`](crate::settings_history).
    /// Counts for no adoption.
    pub shown: Option<String>,
    pub title: String,
    pub usage: Bytes,
    pub bound: Bytes,
    /// Its log goes up to here.
    pub head: u64,
    pub updated: u64,
    /// The running turn began here, after `head`.
    pub began: Option<u64>,
}

/// A session that comes from elsewhere. `record.head` and `record.began` don't count.
#[derive(Clone, Debug)]
pub struct AdoptRequest {
    pub id: SessionId,
    pub principal: String,
    pub record: SessionRecord,
    /// It continues a part of the log of another session of the principal, which is in the same
    /// partition.
    pub shares: Option<SharedLog>,
}

/// The events that a session has in common with another, up to one that is not part of a running
/// turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedLog {
    pub with: SessionId,
    pub upto: u64,
}

/// How much a principal has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrincipalUsage {
    /// As lists show them.
    pub sessions: u64,
    /// Those of them that somebody works on or that wait for a worker.
    pub turns: u64,
    /// Bytes that are kept: logs, states and whatever else sessions have, and what waits in
    /// inboxes. A fork counts without what it shares; that counts as long as it is kept.
    pub stored: u64,
}
