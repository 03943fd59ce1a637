//! Makes session tokens. Each is dated after whatever was revoked, be it in the same second.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use baton_protocol::meta;
use baton_session::id::SessionId;
use baton_session::secret::Secret;
use baton_session::token::{SESSION_LIFETIME, SessionGrant, SigningKeys, TokenScope};
use serde_json::{Value, json};

use crate::auth::revocations::KnownRevocations;

#[derive(Clone)]
pub struct TokenIssuer {
    pub keys: SigningKeys,
    pub revocations: Arc<KnownRevocations>,
}

impl TokenIssuer {
    pub fn grant(&self, session: &SessionId, principal: &str, scope: TokenScope) -> SessionGrant {
        let mut grant =
            SessionGrant::new(session.clone(), principal.into(), scope, SESSION_LIFETIME);
        let earliest = self.revocations.issue_time(principal, Some(session));
        grant.expires += earliest.saturating_sub(grant.issued);
        grant.issued = grant.issued.max(earliest);
        grant
    }

    pub fn sign(&self, grant: &SessionGrant) -> Secret {
        self.keys.ring().sign_session(grant)
    }

    /// `_meta` of the answer to a client that has opened a session, to come back with. An observer
    /// gets no token that would outlast its own.
    pub fn meta(&self, session: &SessionId, principal: &str, scope: TokenScope) -> Option<Value> {
        if scope == TokenScope::Observe {
            return None;
        }
        let grant = self.grant(session, principal, scope);
        let expires = UNIX_EPOCH + Duration::from_secs(grant.expires);
        Some(json!({
            meta::SESSION: {
                "token": self.sign(&grant).expose(),
                "expiresAt": humantime::format_rfc3339_seconds(expires).to_string(),
                "gen": grant.generation,
            }
        }))
    }
}
