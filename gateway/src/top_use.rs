//! Which sessions and callers send most to this gateway: a few, found without counting all. A
//! newcomer takes the place of the one with the least, and its count: so whoever sends much is
//! there, and a flood of names pushes out nobody who does.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

use baton_session::id::SessionId;
use baton_session::sync::MutexExt as _;
use serde_json::{Value, json};

/// So many are counted of each kind, and so many of them are shown.
const COUNTED: usize = 64;
const SHOWN: usize = 12;
/// Counts are halved when so many messages have come: what counts is the last while.
const HALVED_AFTER: u64 = 10_000;

#[derive(Default)]
pub struct TopUse(Mutex<UseCounts>);

#[derive(Default)]
struct UseCounts {
    callers: TopCounts<Arc<str>>,
    sessions: TopCounts<(SessionId, Arc<str>)>,
    messages: u64,
}

struct TopCounts<K>(HashMap<K, u64>);

impl<K> Default for TopCounts<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Clone + Eq + Hash> TopCounts<K> {
    fn add(&mut self, key: &K) {
        if let Some(count) = self.0.get_mut(key) {
            *count += 1;
            return;
        }
        let mut count = 0;
        if self.0.len() >= COUNTED {
            let least = self.0.iter().min_by_key(|(_, count)| **count);
            if let Some((least, its)) = least.map(|(key, count)| (key.clone(), *count)) {
                self.0.remove(&least);
                count = its;
            }
        }
        self.0.insert(key.clone(), count + 1);
    }

    fn halve(&mut self) {
        self.0.values_mut().for_each(|count| *count /= 2);
        self.0.retain(|_, count| *count > 0);
    }

    fn top(&self) -> Vec<(&K, u64)> {
        let mut all: Vec<_> = self.0.iter().map(|(key, count)| (key, *count)).collect();
        all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        all.truncate(SHOWN);
        all
    }
}

/// Names are for those who may see them.
impl std::fmt::Debug for TopUse {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("TopUse")
    }
}

impl TopUse {
    /// A message of a caller, about a session of an owner if it is about one.
    pub fn count(&self, caller: &Arc<str>, session: Option<&SessionId>) {
        let mut counts = self.0.locked();
        counts.callers.add(caller);
        if let Some(session) = session {
            counts.sessions.add(&(session.clone(), caller.clone()));
        }
        counts.messages += 1;
        if counts.messages.is_multiple_of(HALVED_AFTER) {
            counts.callers.halve();
            counts.sessions.halve();
        }
    }

    pub fn shown(&self) -> Value {
        let counts = self.0.locked();
        let callers = counts.callers.top().into_iter();
        let callers =
            callers.map(|(caller, count)| json!({ "caller": &**caller, "messages": count }));
        let sessions = counts.sessions.top().into_iter();
        let sessions = sessions.map(|((session, caller), count)| {
            json!({ "session": session, "caller": &**caller, "messages": count })
        });
        json!({
            "callers": callers.collect::<Vec<_>>(),
            "sessions": sessions.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use baton_session::id::Partition;

    use super::*;

    #[test]
    fn who_sends_much_is_shown_whatever_flood_of_names_comes() {
        let top = TopUse::default();
        let (alice, session) = (Arc::from("alice"), SessionId::mint(Partition(3)));
        for number in 0..5_000 {
            let stranger: Arc<str> = format!("stranger {number}").into();
            top.count(&stranger, None);
            if number % 4 == 0 {
                top.count(&alice, Some(&session));
            }
        }
        let shown = top.shown();
        assert_eq!(shown["callers"][0]["caller"], "alice");
        assert_eq!(shown["callers"].as_array().unwrap().len(), SHOWN);
        assert_eq!(shown["sessions"][0]["session"], json!(session));
        assert!(top.0.locked().callers.0.len() <= COUNTED);
        // Whoever has left makes room.
        for _ in 0..20 * HALVED_AFTER {
            top.count(&Arc::from("bob"), None);
        }
        assert_eq!(top.shown()["callers"].as_array().unwrap().len(), 1);
    }
}
