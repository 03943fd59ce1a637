//! The session that a message is about, and whether the caller may use it.

use baton_protocol::ErrorCode;
use baton_protocol::limits::echo;
use baton_session::id::SessionId;
use baton_session::token::{ConnectionToken, TokenScope};

use super::{MethodCall, MethodError, invalid};
use crate::access::PresentedToken;

impl MethodCall<'_> {
    /// The session the message is about, if its agent is one for the caller.
    pub(super) async fn session(&self) -> Result<SessionId, MethodError> {
        let session = self.named_session()?;
        if self.may_use(&session).await? {
            Ok(session)
        } else {
            Err(unknown_session(session.as_str()))
        }
    }

    pub(super) async fn may_use(&self, session: &SessionId) -> Result<bool, MethodError> {
        let (rights, owner) = (self.access.caller.rights(), &self.connection.principal);
        Ok(self.services.agents.may_use(rights, session, owner).await?)
    }

    /// An observer may only read, and a token is valid for its own session only.
    pub(super) fn may_answer(&self, session: &SessionId) -> bool {
        match &self.access.grant {
            _ if self.access.scope() == TokenScope::Observe => false,
            PresentedToken::Absent => true,
            PresentedToken::Invalid => false,
            PresentedToken::Valid(grant) => grant.session == *session,
        }
    }

    /// The session that is named. Header, payload and token must agree.
    fn named_session(&self) -> Result<SessionId, MethodError> {
        let named_session = self.message.inbound.session_id();
        if let (Some(named_session), Some(header)) = (named_session, self.message.session_header)
            && named_session != header
        {
            return Err(invalid(format!(
                "Acp-Session-Id is {}, but params.sessionId is {}",
                echo(header),
                echo(named_session)
            )));
        }
        let granted = match &self.access.grant {
            PresentedToken::Valid(grant) => Some(grant.session.as_str()),
            PresentedToken::Absent | PresentedToken::Invalid => None,
        };
        let text = named_session.or(self.message.session_header);
        let text = text.or(granted.filter(|_| self.access.without_connection));
        let text = text.ok_or_else(|| {
            invalid("params.sessionId is missing: send the id that session/new returned")
        })?;
        let fits = self.access.grant != PresentedToken::Invalid
            && granted.is_none_or(|granted| granted == text);
        let session = SessionId::parse(text).filter(|_| fits);
        let known = session.filter(|session| !self.is_revoked(session));
        known.ok_or_else(|| unknown_session(text))
    }

    /// A connection that was opened before the session was revoked cannot use it any more.
    pub(super) fn is_revoked(&self, session: &SessionId) -> bool {
        let ConnectionToken {
            id,
            principal,
            issued,
            ..
        } = self.connection;
        let revocations = &self.services.issuer.revocations;
        revocations.is_revoked(principal, Some((id, *issued)), Some((session, *issued)))
    }

    /// The session that an id of the agent's names, if the caller has a say in it.
    pub(super) async fn routed_session(
        &self,
        id: Option<String>,
    ) -> Result<Option<SessionId>, MethodError> {
        let session = id.and_then(|id| SessionId::parse(id.split_once(':')?.0));
        let session =
            session.filter(|session| !self.is_revoked(session) && self.may_answer(session));
        match session {
            Some(session) if self.may_use(&session).await? => Ok(Some(session)),
            _ => Ok(None),
        }
    }
}

pub(super) fn unknown_session(id: &str) -> MethodError {
    MethodError::Rpc(
        ErrorCode::ResourceNotFound,
        format!(
            "there is no session {}: create one with session/new",
            echo(id)
        ),
    )
}
