//! Signals that a store pushes to listeners. They are hints: a missed one is found by reading.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Result, WorkerId};
use crate::command::QueuedCommand;
use crate::event::Frame;
use crate::id::{ConnectionId, LogId, Partition, SessionId};
use crate::revocation::Revocation;

#[async_trait]
pub trait SignalListener: Send + Sync {
    /// Returns once the store has confirmed: what is written from now on is signalled.
    async fn subscribe(&self, topic: &Topic) -> Result<()>;
    async fn unsubscribe(&self, topic: &Topic);
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    Log(LogId),
    /// Commands for sessions this worker holds.
    Inbox(Partition, WorkerId),
    /// Sessions for this worker to take, and commands themselves for those it holds.
    Handed(Partition, WorkerId),
    /// Sessions that want a worker.
    Ready(Partition, String),
    Revocations,
}

#[derive(Clone, Debug)]
pub enum Signal {
    Frame(LogId, Arc<Frame>),
    /// The log has grown to this number; the frame was too large to be sent along.
    Grown(LogId, u64),
    /// A connection was attached to the session.
    Attached(SessionId, ConnectionId),
    /// A stream has a new holder.
    Taken {
        log: LogId,
        connection: ConnectionId,
        holder: String,
    },
    Inbox(SessionId),
    /// A command for a session that is held here. Unless it follows the last one that was read,
    /// the inbox has more.
    Command(SessionId, Box<QueuedCommand>),
    /// A session that is held here has other settings from now on. Told before any command that
    /// came later.
    SetupChanged(SessionId),
    /// A session wants a worker, and every worker was told.
    Ready(SessionId),
    /// A session wants a worker, and only this one was told.
    Handed(SessionId),
    Revoked(Revocation),
    /// Signals may have been missed: look at everything again.
    Lost,
}
