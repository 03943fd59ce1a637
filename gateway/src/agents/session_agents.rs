//! Which agent a session is for, so that only those use it who may use the agent. A session never
//! changes its agent, so the store is asked once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use baton_session::id::SessionId;
use baton_session::store;
use baton_session::sync::MutexExt as _;

use crate::app::App;
use crate::auth::CallerRights;

/// More than these are forgotten and asked for anew.
const ROOM: usize = 1 << 16;

#[derive(Default)]
pub struct SessionAgents(Mutex<HashMap<SessionId, Arc<str>>>);

impl SessionAgents {
    fn get(&self, session: &SessionId) -> Option<Arc<str>> {
        let known = self.0.locked();
        known.get(session).cloned()
    }

    fn put(&self, session: &SessionId, agent: Arc<str>) {
        let mut known = self.0.locked();
        if known.len() >= ROOM {
            known.clear();
        }
        known.insert(session.clone(), agent);
    }
}

/// Whether somebody with these rights may use a session of the principal, as far as its agent is
/// concerned.
pub async fn allowed(
    app: &App,
    rights: &CallerRights,
    session: &SessionId,
    principal: &str,
) -> store::Result<bool> {
    if !rights.are_about_agents() {
        return Ok(true);
    }
    if let Some(agent) = app.session_agents.get(session) {
        return Ok(rights.allow(&agent));
    }
    let Some(record) = app.store.record(session, principal).await? else {
        return Ok(false);
    };
    let agent: Arc<str> = record.agent.into();
    app.session_agents.put(session, agent.clone());
    Ok(rights.allow(&agent))
}
