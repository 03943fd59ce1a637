//! `$/cancel_request`: it names a request and no session, so the session has to be found.

use baton_session::command::{Idempotency, Kind};
use baton_session::event::Event;
use baton_session::id::{LogId, SessionId};
use baton_session::store::Enqueued;

use super::{Call, Outcome, Problem, params};

/// Entries of the outbox per read.
const PAGE: usize = 256;
/// Among so many sessions, the latest, the request is looked for.
const MAX_SESSIONS: usize = 256;

impl Call<'_> {
    pub(super) async fn cancel_request(&self) -> Result<Outcome, Problem> {
        let Some(request) = params::request_id(self.message.envelope) else {
            return Ok(Outcome::Taken);
        };
        let about = Idempotency::of(&self.connection.id, Some(request), b"").key;
        for session in self.sessions_of_the_connection().await? {
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
        let mut sessions: Vec<SessionId> = Vec::new();
        let log = LogId::Outbox(self.connection.id.clone());
        let mut from = 1;
        loop {
            let frames = self.app.store.read(&log, from, PAGE).await?;
            let Some(last) = frames.last() else { break };
            from = last.last() + 1;
            for event in frames.iter().flat_map(|frame| &frame.events) {
                if let Event::Watch { session, .. } = event {
                    sessions.retain(|known| known != session);
                    sessions.push(session.clone());
                }
            }
        }
        sessions.extend(self.session().ok());
        sessions.retain(|session| !self.is_revoked(session));
        sessions.reverse();
        sessions.truncate(MAX_SESSIONS);
        Ok(sessions)
    }
}
