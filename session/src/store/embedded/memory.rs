//! The backend in memory: frames and what finds them, as everything else stays in the store's own
//! maps.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};

use super::backend::{ExpiryKind, StorageBackend, StoreChange};
use super::lineage::LineageSegment;
use super::list::ListKey;
use super::outbox::Outbox;
use super::session::StoredSession;
use crate::event::Frame;
use crate::id::{ConnectionId, LogId, SessionId};
use crate::revocation::Revocation;
use crate::store::{ListPosition, Result, page};
use crate::sync::MutexExt as _;

#[derive(Clone, Default)]
pub struct MemoryBackend(Arc<Mutex<MemoryData>>);

#[derive(Default)]
struct MemoryData {
    logs: HashMap<LogId, Vec<Arc<Frame>>>,
    used: BTreeMap<(ExpiryKind, u64), Vec<LogId>>,
    listed: HashMap<ListKey, BTreeSet<ListPosition>>,
    stored: HashMap<String, HashMap<SessionId, u64>>,
    lineages: HashMap<SessionId, Arc<[LineageSegment]>>,
    /// Which forks share a session's log, and up to where.
    sharers: HashMap<SessionId, HashMap<SessionId, u64>>,
    /// Forgotten but for what is shared.
    gone: HashSet<SessionId>,
}

impl MemoryData {
    fn forget(&mut self, id: &SessionId) {
        self.gone.insert(id.clone());
        self.trim(id);
        let lineage = self.lineages.remove(id).unwrap_or_default();
        for segment in lineage.iter() {
            if let Some(sharers) = self.sharers.get_mut(&segment.session) {
                sharers.remove(id);
            }
            if self.gone.contains(&segment.session) {
                self.trim(&segment.session);
            }
        }
    }

    /// Only what is shared is left.
    fn trim(&mut self, id: &SessionId) {
        let log = LogId::Session(id.clone());
        let sharers = self.sharers.get(id);
        match sharers.and_then(|sharers| sharers.values().max()) {
            Some(upto) => {
                if let Some(frames) = self.logs.get_mut(&log) {
                    frames.retain(|frame| frame.first <= *upto);
                }
            }
            None => {
                self.logs.remove(&log);
                self.sharers.remove(id);
                self.gone.remove(id);
            }
        }
    }
}

impl MemoryBackend {
    fn kept(&self) -> MutexGuard<'_, MemoryData> {
        self.0.locked()
    }

    /// The log is as it was when it had only these frames.
    #[cfg(any(test, feature = "conformance"))]
    pub fn rewind(&self, log: &LogId, frames: &[Arc<Frame>]) {
        self.kept().logs.insert(log.clone(), frames.to_vec());
    }
}

impl StorageBackend for MemoryBackend {
    const FINDS_AGAIN: bool = false;
    const WRITES: bool = false;

    fn save(&self, changes: &[StoreChange<'_>]) -> Result<()> {
        let mut kept = self.kept();
        for change in changes {
            match change {
                StoreChange::Frame(log, frame) => {
                    let frames = kept.logs.entry((*log).clone()).or_default();
                    frames.push((*frame).clone());
                }
                StoreChange::Stored(principal, id, bytes) => {
                    let account = kept.stored.entry((*principal).to_owned()).or_default();
                    match bytes {
                        Some(bytes) => account.insert((*id).clone(), *bytes),
                        None => account.remove(*id),
                    };
                    if account.is_empty() {
                        kept.stored.remove(*principal);
                    }
                }
                StoreChange::Trimmed(log, _, last) => {
                    if let Some(frames) = kept.logs.get_mut(*log) {
                        let gone = frames.partition_point(|frame| frame.last() <= *last);
                        frames.drain(..gone);
                    }
                }
                StoreChange::Used(kind, log, before, now) => {
                    if let Some(noted) = before.and_then(|at| kept.used.get_mut(&(*kind, at))) {
                        noted.retain(|noted| noted != *log);
                    }
                    if let Some(now) = now {
                        let noted = kept.used.entry((*kind, *now)).or_default();
                        noted.push((*log).clone());
                    }
                }
                StoreChange::Listed(session, before, now) => {
                    for under in ListKey::all_of(session) {
                        let places = kept.listed.entry(under).or_default();
                        if let Some(before) = before {
                            places.remove(before);
                        }
                        places.extend(now.clone());
                        if places.is_empty() {
                            kept.listed.remove(&under);
                        }
                    }
                }
                StoreChange::Shares(id, lineage) => {
                    for LineageSegment { session, upto } in *lineage {
                        let sharers = kept.sharers.entry(session.clone()).or_default();
                        sharers.insert((*id).clone(), *upto);
                    }
                    kept.lineages.insert((*id).clone(), (*lineage).into());
                }
                StoreChange::Forget(LogId::Session(id)) => kept.forget(id),
                StoreChange::Forget(log) => {
                    kept.logs.remove(*log);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn write(&self) -> Result<()> {
        Ok(())
    }

    fn session(&self, _: &SessionId) -> Result<Option<StoredSession>> {
        Ok(None)
    }

    fn outbox(&self, _: &ConnectionId) -> Result<Option<Outbox>> {
        Ok(None)
    }

    fn read(&self, log: &LogId, from: u64, limit: usize) -> Result<Vec<Arc<Frame>>> {
        let kept = self.kept();
        let Some(frames) = kept.logs.get(log) else {
            return Ok(Vec::new());
        };
        let start = frames.partition_point(|frame| frame.last() < from);
        page::fill(frames[start..].iter().take(limit).cloned().map(Ok))
    }

    fn lineage(&self, id: &SessionId) -> Result<Arc<[LineageSegment]>> {
        Ok(self.kept().lineages.get(id).cloned().unwrap_or_default())
    }

    fn shared_upto(&self, id: &SessionId, but_not: &SessionId) -> Result<u64> {
        let kept = self.kept();
        let sharers = kept.sharers.get(id).into_iter().flatten();
        let others = sharers.filter(|(sharer, _)| *sharer != but_not);
        Ok(others.map(|(_, upto)| *upto).max().unwrap_or(0))
    }

    fn stored(&self, principal: &str) -> Result<Vec<(SessionId, u64)>> {
        let kept = self.kept();
        let account = kept.stored.get(principal).into_iter().flatten();
        Ok(account.map(|(id, bytes)| (id.clone(), *bytes)).collect())
    }

    fn listed(
        &self,
        under: &ListKey,
        after: Option<&ListPosition>,
        limit: usize,
    ) -> Result<Vec<ListPosition>> {
        let kept = self.kept();
        let end = after.map_or(Bound::Unbounded, Bound::Excluded);
        let places = kept.listed.get(under);
        let places = places
            .into_iter()
            .flat_map(|all| all.range((Bound::Unbounded, end)).rev());
        Ok(places.take(limit).cloned().collect())
    }

    fn waiting(&self) -> Result<Vec<SessionId>> {
        Ok(Vec::new())
    }

    fn revoked(&self) -> Result<Vec<Revocation>> {
        Ok(Vec::new())
    }

    fn spent(&self) -> Result<Vec<(String, u64)>> {
        Ok(Vec::new())
    }

    fn unused_since(&self, kind: ExpiryKind, time: u64, limit: usize) -> Result<Vec<(u64, LogId)>> {
        let mut kept = self.kept();
        kept.used.retain(|_, noted| !noted.is_empty());
        let old = kept.used.range((kind, 0)..(kind, time));
        let each = old.flat_map(|((_, at), noted)| noted.iter().map(|log| (*at, log.clone())));
        Ok(each.take(limit).collect())
    }
}
