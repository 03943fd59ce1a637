//! The agent's names for sessions, as far as they are in use here. No two sessions are ever at one
//! name: each would hear what is said to the other, and speak in its place.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use baton_session::id::SessionId;
use baton_session::sync::MutexExt as _;

/// Of all processes of one agent. They may keep sessions in one place, so that each could bring
/// back those of the others.
#[derive(Default)]
pub struct AgentSessionNames(Mutex<HashMap<String, Vec<SessionId>>>);

/// In use until this is dropped.
pub struct HeldName {
    names: Arc<AgentSessionNames>,
    name: String,
    session: SessionId,
}

impl AgentSessionNames {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Vec<SessionId>>> {
        self.0.locked()
    }

    /// For a session that is to be brought back; `None` if another one is at that name. The same
    /// session may be there twice, while it moves from a process that has ended to the next.
    pub fn claim(self: &Arc<Self>, name: &str, session: &SessionId) -> Option<HeldName> {
        let mut all = self.all();
        let users = all.entry(name.to_owned()).or_default();
        if users.iter().any(|user| user != session) {
            return None;
        }
        users.push(session.clone());
        Some(self.held(name, session))
    }

    /// For one that the agent has just named. Processes that know nothing of each other may come to
    /// the same name, each for a session of its own.
    pub fn note(self: &Arc<Self>, name: &str, session: &SessionId) -> HeldName {
        let mut all = self.all();
        all.entry(name.to_owned())
            .or_default()
            .push(session.clone());
        self.held(name, session)
    }

    fn held(self: &Arc<Self>, name: &str, session: &SessionId) -> HeldName {
        HeldName {
            names: self.clone(),
            name: name.to_owned(),
            session: session.clone(),
        }
    }
}

impl Drop for HeldName {
    fn drop(&mut self) {
        let mut all = self.names.all();
        let Some(users) = all.get_mut(&self.name) else {
            return;
        };
        if let Some(at) = users.iter().position(|user| *user == self.session) {
            users.swap_remove(at);
        }
        if users.is_empty() {
            all.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use baton_session::id::Partition;

    use super::*;

    #[test]
    fn a_name_has_one_session_until_that_leaves() {
        let names = Arc::new(AgentSessionNames::default());
        let [alice, bob] = [1, 2].map(|number| SessionId::mint(Partition(number)));
        let first = names.claim("inner", &alice);
        assert!(first.is_some() && names.claim("inner", &bob).is_none());
        let again = names.claim("inner", &alice);
        drop(first);
        assert!(again.is_some() && names.claim("inner", &bob).is_none());
        drop(again);
        let noted = names.note("inner", &alice);
        let theirs = names.note("inner", &bob);
        assert!(names.claim("inner", &bob).is_none());
        drop(noted);
        assert!(names.claim("inner", &bob).is_some());
        drop(theirs);
        assert!(names.all().is_empty());
    }
}
