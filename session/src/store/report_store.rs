//! What processes say of themselves, for people who operate them: figures and state, no sessions.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::{Result, WorkerId};
use crate::id::SessionId;

/// So many processes have a report. Those beyond have none until others end.
pub const MOST_REPORTS: usize = 512;

/// What a server of the store has of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreMemory {
    /// Its address, if there are several.
    pub server: String,
    pub used: u64,
    /// None, if it may take all there is.
    pub limit: Option<u64>,
}

/// Reports of processes, and what these are asked to do.
#[async_trait]
pub trait ReportStore: Send + Sync + 'static {
    /// Takes the place of what the process has said before, and counts while it `lasts`. Returns
    /// the order that is open for it: the same one again until that has ended.
    async fn report(
        &self,
        process: &str,
        report: &Bytes,
        lasts: Duration,
    ) -> Result<Option<String>>;

    /// All that count, by process.
    async fn reports(&self) -> Result<Vec<(String, Bytes)>>;

    /// Asks a process to do something; false if there is no such process. It hears of it with its
    /// next report, as long as the order `lasts`.
    async fn order(&self, process: &str, order: &str, lasts: Duration) -> Result<bool>;

    /// The worker that holds a session of this principal now, if one does.
    async fn worker_of(&self, session: &SessionId, principal: &str) -> Result<Option<WorkerId>>;

    /// Of each of the store's servers that can be written to; none if it is part of the process.
    async fn memory(&self) -> Result<Vec<StoreMemory>>;
}
