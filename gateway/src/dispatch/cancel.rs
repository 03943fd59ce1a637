//! `$/cancel_request`: it names a request and no session, so the session has to be found.

use baton_protocol::ErrorCode;
use baton_session::command::{CommandKind, IdempotencyKey};
use baton_session::id::SessionId;

use super::{Call, Outcome, Problem, params};
use crate::pass::Brought;

impl Call<'_> {
    pub(super) async fn cancel_request(&self) -> Result<Outcome, Problem> {
        if self.request().is_some() {
            let text = "$/cancel_request is a notification: send it without an id";
            return Err(Problem::Rpc(ErrorCode::InvalidRequest, text.into()));
        }
        let Some(request) = params::request_id(self.message.inbound) else {
            return Ok(Outcome::Taken);
        };
        let about = IdempotencyKey::of(&self.connection.id, Some(request), b"").key;
        if let Some(session) = self.session_of(&about).await? {
            let mut enqueue = self.enqueued(CommandKind::CancelRequest, session);
            enqueue.about = Some(about);
            self.app.store.enqueue(&enqueue).await?;
        }
        // A request that is not found is done, or never existed.
        Ok(Outcome::Taken)
    }

    /// Where the request went, if the caller has a say there. A token is good for its own session.
    async fn session_of(&self, request: &str) -> Result<Option<SessionId>, Problem> {
        let session = match &self.pass.grant {
            Brought::Good(grant) => Some(grant.session.clone()),
            Brought::Nothing => {
                let connection = &self.connection.id;
                self.app.store.session_of(connection, request).await?
            }
            Brought::Bad => None,
        };
        let session = session.filter(|session| !self.is_revoked(session));
        match session {
            Some(session) if self.may_use(&session).await? => Ok(Some(session)),
            _ => Ok(None),
        }
    }
}
