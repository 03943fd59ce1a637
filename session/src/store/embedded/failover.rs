//! For tests: what a failover to a replica that lagged does to a session that somebody holds.
//! Everything written after the copy was taken is gone, the log's tail along with the fields beside
//! it.

use std::sync::Arc;

use super::MemoryStore;
use super::backend::{StorageBackend as _, StoreChange};
use super::outbox::Outbox;
use super::session::StoredSession;
use crate::event::Frame;
use crate::id::{ConnectionId, LogId, SessionId};
use crate::store::{Result, Signal};

/// A session as a replica had it.
pub struct SessionReplica {
    id: SessionId,
    session: StoredSession,
    frames: Vec<Arc<Frame>>,
}

/// An outbox as a replica had it.
pub struct OutboxReplica {
    id: ConnectionId,
    outbox: Outbox,
    entries: Vec<Arc<Frame>>,
}

impl MemoryStore {
    pub fn outbox_replica(&self, id: &ConnectionId) -> Result<OutboxReplica> {
        let mut state = self.state()?;
        let log = LogId::Outbox(id.clone());
        Ok(OutboxReplica {
            id: id.clone(),
            outbox: state.outbox(&self.backend, id)?.clone(),
            entries: self.all(&log)?,
        })
    }

    /// The replica takes over, unnoticed.
    pub fn promote_outbox(&self, replica: &OutboxReplica) -> Result<()> {
        let log = LogId::Outbox(replica.id.clone());
        self.backend.rewind(&log, &replica.entries);
        *self.state()?.outbox(&self.backend, &replica.id)? = replica.outbox.clone();
        Ok(())
    }

    /// `None` if there is no such session.
    pub fn replica(&self, id: &SessionId) -> Result<Option<SessionReplica>> {
        let mut state = self.state()?;
        let Some(session) = state.session(&self.backend, id)? else {
            return Ok(None);
        };
        Ok(Some(SessionReplica {
            id: id.clone(),
            session: session.clone(),
            frames: self.all(&LogId::Session(id.clone()))?,
        }))
    }

    /// The replica takes over, unnoticed.
    pub fn promote(&self, replica: &SessionReplica) -> Result<()> {
        let mut state = self.state()?;
        let log = LogId::Session(replica.id.clone());
        self.backend.rewind(&log, &replica.frames);
        let now = replica.session.place(&replica.id);
        let before = match state.session(&self.backend, &replica.id)? {
            Some(session) => session.place(&replica.id),
            None => None,
        };
        self.save(&[StoreChange::Listed(&replica.session, before, now)])?;
        state.insert(replica.id.clone(), replica.session.clone());
        Ok(())
    }

    fn all(&self, log: &LogId) -> Result<Vec<Arc<Frame>>> {
        let mut frames = Vec::new();
        self.backend
            .each_page(log, 1, |page| frames.extend_from_slice(page))?;
        Ok(frames)
    }

    /// Every push connection broke, as it does when a primary goes.
    pub fn interrupt(&self) {
        self.signal_hub.broadcast(Signal::Lost);
    }
}
