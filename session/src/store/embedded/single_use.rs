//! Single-use names. They are stored in the backend as well: a restarted process still refuses
//! those that were used before.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::EmbeddedStore;
use super::backend::{StorageBackend, StoreChange};
use super::state::StoreState;
use crate::clock::unix_millis;
use crate::store::{Error, Result};

/// Some 200 MB. Nothing is forgotten early to make room: it would be good once more.
const ROOM: usize = 1 << 20;

#[derive(Default)]
pub struct SpentNames {
    /// With when each is forgotten, in milliseconds since 1970.
    names: HashMap<Arc<str>, u64>,
    /// The same, by when.
    ends: BTreeSet<(u64, Arc<str>)>,
}

impl SpentNames {
    pub fn of(names: impl IntoIterator<Item = (String, u64)>) -> Self {
        let mut spent = Self::default();
        for (name, until) in names {
            spent.add(name.into(), until);
        }
        spent
    }

    fn add(&mut self, name: Arc<str>, until: u64) {
        self.names.insert(name.clone(), until);
        self.ends.insert((until, name));
    }

    /// Those whose time is over; they are forgotten.
    fn ended(&mut self, now: u64) -> Vec<Arc<str>> {
        let mut ended = Vec::new();
        while let Some((until, name)) = self.ends.pop_first() {
            if until > now {
                self.ends.insert((until, name));
                break;
            }
            self.names.remove(&name);
            ended.push(name);
        }
        ended
    }
}

impl<S: StorageBackend> EmbeddedStore<S> {
    pub(super) fn spend_name(
        &self,
        state: &mut StoreState,
        name: &str,
        lasts: Duration,
    ) -> Result<bool> {
        let now = unix_millis();
        let ended = state.spent.ended(now);
        // A batch must not hold two changes of one name.
        let gone = ended.iter().filter(|ended| ***ended != *name);
        let mut changes: Vec<_> = gone.map(|name| StoreChange::Unspent(name)).collect();
        let is_known = state.spent.names.contains_key(name);
        let is_full = state.spent.names.len() >= ROOM;
        let until = now.saturating_add((lasts.as_millis() as u64).max(1));
        if !is_known && !is_full {
            changes.push(StoreChange::Spent(name, until));
            state.spent.add(name.into(), until);
        }
        if !changes.is_empty() {
            self.save(&changes)?;
        }
        if is_known || !is_full {
            Ok(!is_known)
        } else {
            Err(Error::Unavailable(
                "too much that may be used once was used within minutes".into(),
            ))
        }
    }
}
