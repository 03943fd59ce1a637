//! Which agent a session is for, so that only those use it who may use the agent. A session never
//! changes its agent, so the store is asked once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use baton_session::id::SessionId;
use baton_session::sync::MutexExt as _;

/// More than these are forgotten and asked for anew.
const ROOM: usize = 1 << 16;

#[derive(Default)]
pub struct SessionAgents(Mutex<HashMap<SessionId, Arc<str>>>);

impl SessionAgents {
    pub fn get(&self, session: &SessionId) -> Option<Arc<str>> {
        let known = self.0.locked();
        known.get(session).cloned()
    }

    pub fn put(&self, session: &SessionId, agent: Arc<str>) {
        let mut known = self.0.locked();
        if known.len() >= ROOM {
            known.clear();
        }
        known.insert(session.clone(), agent);
    }
}
