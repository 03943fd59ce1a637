//! Which session a request went to, for those that wait or run.

use std::collections::HashMap;

use super::backend::StorageBackend;
use super::state::StoreState;
use crate::id::SessionId;
use crate::store::Result;

/// So many are kept before those that are done with are looked for.
const ROOM: usize = 1024;

#[derive(Default)]
pub struct RequestIndex {
    /// By idempotency key, which no two connections share.
    sessions: HashMap<String, SessionId>,
    /// How many of them waited or ran when that was last looked at.
    left: usize,
}

impl StoreState {
    pub fn note_request(&mut self, key: &str, session: &SessionId) {
        if key.is_empty() {
            return;
        }
        let requests = &mut self.requests;
        requests.sessions.insert(key.to_owned(), session.clone());
        if requests.sessions.len() > ROOM.max(requests.left * 2) {
            let mut sessions = std::mem::take(&mut requests.sessions);
            // A session with work is never put away.
            sessions.retain(|key, id| self.sessions.get(id).is_some_and(|it| it.awaits(key)));
            self.requests.left = sessions.len();
            self.requests.sessions = sessions;
        }
    }

    pub fn session_of<S: StorageBackend>(
        &mut self,
        backend: &S,
        key: &str,
    ) -> Result<Option<SessionId>> {
        let Some(id) = self.requests.sessions.get(key).cloned() else {
            return Ok(None);
        };
        let session = self.session(backend, &id)?;
        Ok(session
            .is_some_and(|session| session.awaits(key))
            .then_some(id))
    }
}
