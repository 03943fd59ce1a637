//! `$/cancel_request`: it names a request and no session, so the session has to be found.

use baton_protocol::ErrorCode;
use baton_session::command::{CommandKind, IdempotencyKey};
use baton_session::id::SessionId;

use super::{MethodCall, MethodError, MethodOutcome, params};
use crate::access::PresentedToken;

impl MethodCall<'_> {
    pub(super) async fn cancel_request(&self) -> Result<MethodOutcome, MethodError> {
        if self.request().is_some() {
            let text = "$/cancel_request is a notification: send it without an id";
            return Err(MethodError::Rpc(ErrorCode::InvalidRequest, text.into()));
        }
        let Some(request) = params::request_id(self.message.inbound) else {
            return Ok(MethodOutcome::Taken);
        };
        let about = IdempotencyKey::of(&self.connection.id, Some(request), b"").key;
        if let Some(session) = self.session_of(&about).await? {
            let mut enqueue = self.enqueue_request(CommandKind::CancelRequest, session);
            enqueue.about = Some(about);
            self.services.store.enqueue(&enqueue).await?;
        }
        // A request that is not found is done, or never existed.
        Ok(MethodOutcome::Taken)
    }

    /// Where the request went, if the caller has a say there. A token is good for its own session.
    async fn session_of(&self, request: &str) -> Result<Option<SessionId>, MethodError> {
        let session = match &self.access.grant {
            PresentedToken::Valid(grant) => Some(grant.session.clone()),
            PresentedToken::Absent => {
                let connection = &self.connection.id;
                self.services.store.session_of(connection, request).await?
            }
            PresentedToken::Invalid => None,
        };
        let session = session.filter(|session| !self.is_revoked(session));
        match session {
            Some(session) if self.may_use(&session).await? => Ok(Some(session)),
            _ => Ok(None),
        }
    }
}
