//! Logs that forks share: they stay as long, and as far, as somebody needs them.

use std::sync::Arc;

use super::super::lineage::LineageSegment;
use super::pending::PendingBatch;
use super::values::{record, spoiled, unrecord};
use super::{DatabaseFiles, keys, unreadable};
use crate::id::{LogId, SessionId};
use crate::store::Result;

impl DatabaseFiles {
    pub fn lineage(&self, id: &SessionId) -> Result<Arc<[LineageSegment]>> {
        let found = self.lineages.get(id.as_str()).map_err(unreadable)?;
        let lineage = found.map(|value| unrecord::<Vec<LineageSegment>>(&value));
        Ok(lineage.transpose()?.unwrap_or_default().into())
    }

    pub fn share(
        &self,
        batch: &mut PendingBatch,
        fork: &SessionId,
        lineage: &[LineageSegment],
    ) -> Result<()> {
        for LineageSegment { session, upto } in lineage {
            let key = keys::sharer(session, fork);
            batch.insert(&self.sharers, key, upto.to_be_bytes());
        }
        if !lineage.is_empty() {
            batch.insert(&self.lineages, fork.as_str(), record(&lineage)?);
        }
        Ok(())
    }

    /// The session goes, and with it what only it has needed of others that are gone.
    pub fn forget(&self, batch: &mut PendingBatch, id: &SessionId) -> Result<()> {
        batch.remove(&self.sessions, id.as_str());
        batch.remove(&self.lineages, id.as_str());
        let log = LogId::Session(id.clone());
        self.cut_off(batch, &log, self.needed_by_others(id, id)?)?;
        for LineageSegment { session, .. } in self.lineage(id)?.iter() {
            batch.remove(&self.sharers, keys::sharer(session, id));
            let lives = self.sessions.contains_key(session.as_str());
            if !lives.map_err(unreadable)? {
                let log = LogId::Session(session.clone());
                self.cut_off(batch, &log, self.needed_by_others(session, id)?)?;
            }
        }
        Ok(())
    }

    /// Up to where a session's log is shared by others than this one.
    pub fn needed_by_others(&self, session: &SessionId, not: &SessionId) -> Result<u64> {
        let mut needed = 0;
        let not = keys::sharer(session, not);
        for sharer in self.sharers.prefix(session.as_str()) {
            let (key, upto) = sharer.into_inner().map_err(unreadable)?;
            if *key != *not {
                let upto = keys::number(&upto).ok_or_else(|| spoiled("mark of a shared log"))?;
                needed = needed.max(upto);
            }
        }
        Ok(needed)
    }

    /// Removes what comes after the frame that holds event `upto`.
    pub fn cut_off(&self, batch: &mut PendingBatch, log: &LogId, upto: u64) -> Result<()> {
        let rest = keys::frame(log, upto)..=keys::frame(log, u64::MAX);
        let kept = usize::from(upto > 0);
        for frame in self.frames.range(rest).skip(kept) {
            batch.remove(&self.frames, frame.key().map_err(unreadable)?);
        }
        Ok(())
    }
}
