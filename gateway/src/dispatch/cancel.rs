//! `$/cancel_request`: it names a request and no session, so the session has to be found.

use std::collections::HashSet;

use baton_session::command::{Idempotency, Kind};
use baton_session::event::Event;
use baton_session::id::{LogId, SessionId};
use baton_session::store::Enqueued;

use super::{Call, Outcome, Problem, params};
use crate::rpc;

/// Entries of the outbox per read.
const PAGE: u64 = 256;
/// So many entries back, a session that the connection has opened is found.
const MAX_ENTRIES: u64 = 8192;
/// Among so many sessions, the latest, the request is looked for.
const MAX_SESSIONS: usize = 256;

impl Call<'_> {
    pub(super) async fn cancel_request(&self) -> Result<Outcome, Problem> {
        if self.request().is_some() {
            let text = "$/cancel_request is a notification: send it without an id";
            return Err(Problem::Rpc(rpc::INVALID_REQUEST, text.into()));
        }
        let Some(request) = params::request_id(self.message.envelope) else {
            return Ok(Outcome::Taken);
        };
        let about = Idempotency::of(&self.connection.id, Some(request), b"").key;
        let sessions = match self.app.recent.session_of(&about) {
            Some(session) => vec![session],
            // It came by another gateway, or was never asked.
            None if self.app.recent.may_search(&self.connection.principal) => {
                self.sessions_of_the_connection().await?
            }
            None => Vec::new(),
        };
        for session in sessions {
            let mut enqueue = self.enqueued(Kind::CancelRequest, session);
            enqueue.about = Some(about.clone());
            if let Enqueued::Accepted { .. } = self.app.store.enqueue(&enqueue).await? {
                break;
            }
        }
        // What is not found is done with, or was never asked.
        Ok(Outcome::Taken)
    }

    /// Those it has opened, latest first, after one that the request itself names.
    async fn sessions_of_the_connection(&self) -> Result<Vec<SessionId>, Problem> {
        let mut sessions: Vec<SessionId> = self.session().await.into_iter().collect();
        let mut known: HashSet<SessionId> = sessions.iter().cloned().collect();
        let log = LogId::Outbox(self.connection.id.clone());
        // From the end backwards: an entry is a frame of its own.
        let mut left = self.app.store.heads(std::slice::from_ref(&log)).await?[0];
        let oldest = left.saturating_sub(MAX_ENTRIES);
        while left > oldest && sessions.len() < MAX_SESSIONS {
            let before = left.saturating_sub(PAGE);
            let frames = self.app.store.read(&log, before + 1, PAGE as usize).await?;
            for event in frames.iter().flat_map(|frame| &frame.events).rev() {
                if let Event::Watch { session, .. } = event
                    && known.insert(session.clone())
                {
                    sessions.push(session.clone());
                }
            }
            left = before;
        }
        // Those whose entries have left the outbox.
        for (_, session) in self
            .app
            .store
            .watches(&self.connection.id)
            .await?
            .into_iter()
            .rev()
        {
            if known.insert(session.clone()) {
                sessions.push(session);
            }
        }
        sessions.retain(|session| !self.is_revoked(session));
        sessions.truncate(MAX_SESSIONS);
        let mut allowed = Vec::new();
        for session in sessions {
            if self.may_use(&session).await? {
                allowed.push(session);
            }
        }
        Ok(allowed)
    }
}
