//! How much is kept of a session.

use std::sync::Arc;

use super::super::backend::StoreChange;
use super::StoredSession;
use crate::event::Frame;
use crate::id::SessionId;

impl StoredSession {
    /// These frames are in its log, too.
    pub fn wrote(&mut self, frames: &[Arc<Frame>]) {
        let bytes: u64 = frames.iter().map(|frame| frame.weight()).sum();
        self.log_bytes += bytes;
    }

    /// The size that counts for its principal between turns.
    pub fn weight(&self) -> u64 {
        let before = self.before.as_ref();
        let before = before.map_or(0, |known| known.state.len() + known.view.len());
        let setup = [&self.setup.mcp_servers, &self.setup.directories];
        let setup: usize = setup.into_iter().flatten().map(|value| value.len()).sum();
        let fields = [
            self.cwd.len(),
            self.params.len(),
            self.state.len(),
            self.view.len(),
            self.title.len(),
            self.usage.len(),
            self.bound.len(),
            before,
            setup,
        ];
        self.log_bytes + fields.into_iter().sum::<usize>() as u64
    }

    /// That on the account of its principal, if it is one's.
    pub fn stored<'a>(&'a self, id: &'a SessionId) -> Option<StoreChange<'a>> {
        let weight = self.weight();
        self.is_seen()
            .then(|| StoreChange::Stored(&self.principal, id, Some(weight)))
    }

    /// The size of the commands that wait.
    pub fn inbox_bytes(&self) -> u64 {
        self.inbox_bytes
    }
}
