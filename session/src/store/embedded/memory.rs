//! The shelf in memory: frames only, as everything else stays in the store's own maps.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use super::outbox::Outbox;
use super::session::Session;
use super::shelf::{Change, Kind, Shelf};
use crate::event::Frame;
use crate::id::{ConnectionId, LogId, SessionId};
use crate::store::Result;

#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    logs: HashMap<LogId, Vec<Arc<Frame>>>,
    used: BTreeMap<(Kind, u64), Vec<LogId>>,
}

impl Memory {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().expect("held for moments only")
    }
}

impl Shelf for Memory {
    const FINDS_AGAIN: bool = false;

    fn save(&self, changes: &[Change<'_>]) -> Result<()> {
        let mut kept = self.kept();
        for change in changes {
            match change {
                Change::Frame(log, frame) => {
                    let frames = kept.logs.entry((*log).clone()).or_default();
                    frames.push((*frame).clone());
                }
                Change::Used(log, before, now) => {
                    let kind = Kind::of(log);
                    if let Some(noted) = before.and_then(|at| kept.used.get_mut(&(kind, at))) {
                        noted.retain(|noted| noted != *log);
                    }
                    if let Some(now) = now {
                        let noted = kept.used.entry((kind, *now)).or_default();
                        noted.push((*log).clone());
                    }
                }
                Change::Forget(log) => {
                    kept.logs.remove(*log);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn session(&self, _: &SessionId) -> Result<Option<Session>> {
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
        Ok(frames[start..].iter().take(limit).cloned().collect())
    }

    fn waiting(&self) -> Result<Vec<SessionId>> {
        Ok(Vec::new())
    }

    fn unused_since(&self, kind: Kind, time: u64, limit: usize) -> Result<Vec<(u64, LogId)>> {
        let mut kept = self.kept();
        kept.used.retain(|_, noted| !noted.is_empty());
        let old = kept.used.range((kind, 0)..(kind, time));
        let each = old.flat_map(|((_, at), noted)| noted.iter().map(|log| (*at, log.clone())));
        Ok(each.take(limit).collect())
    }
}
