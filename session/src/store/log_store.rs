//! The part of a store that gateways and workers share: logs, and whether it is there.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::{Result, Signal, SignalListener};
use crate::event::Frame;
use crate::id::{LogId, Nonce};

/// Logs, signals, and the state of the store itself.
#[async_trait]
pub trait LogStore: Send + Sync + 'static {
    /// How many partitions new sessions and connections are spread over.
    fn partitions(&self) -> u16;

    /// The nonce drawn when the store was last restored from a backup, if it ever was: numbers that
    /// were given after that backup are given again, to something else. Names that are made of
    /// numbers alone contain this nonce, too.
    fn restored(&self) -> Option<Nonce>;

    /// Answers when the store does.
    async fn ping(&self) -> Result<()>;

    /// Whether there is room for new sessions. It ends before the store is so full that running
    /// ones cannot go on.
    async fn has_room(&self) -> Result<bool> {
        Ok(true)
    }

    /// Frames from the one that contains `from` on: at most `limit`, and no more than
    /// [`PAGE_BYTES`](super::PAGE_BYTES) unless it is a single one. So there may be more.
    async fn read(&self, log: &LogId, from: u64, limit: usize) -> Result<Vec<Arc<Frame>>>;

    /// As [`Self::read`], for those who show what they read: nothing that a failover could take
    /// back although others act on it. Where that begins the log seems to end; it is signalled
    /// ([`Signal::Grown`]) when it can be read.
    async fn read_confirmed(
        &self,
        log: &LogId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Arc<Frame>>> {
        self.read(log, from, limit).await
    }

    /// As [`Self::read`], and no frame that begins after `upto`, as far as the store can tell. Few
    /// at a time.
    async fn read_between(&self, log: &LogId, from: u64, upto: u64) -> Result<Vec<Arc<Frame>>> {
        let few = usize::try_from(upto - from + 1).unwrap_or(usize::MAX);
        self.read(log, from, few.min(32)).await
    }

    /// The number of the last event of each log, 0 for an empty or unknown one.
    async fn heads(&self, logs: &[LogId]) -> Result<Vec<u64>>;

    /// Opens the caller's one push connection. Signals go to `sink`; when it is full they are
    /// dropped and a [`Signal::Lost`] follows.
    async fn listen(&self, sink: mpsc::Sender<Signal>) -> Result<Arc<dyn SignalListener>>;
}
