//! The connection token of a request, which must be its caller's; and the connection of a request
//! that has none.

use axum::http::{HeaderMap, HeaderName};
use baton_protocol::{PROTOCOL_VERSION, header as names};
use baton_session::id::{ConnectionId, Partition};
use baton_session::token::{
    ConnectionToken, MAX_TOKEN_BYTES, SessionGrant, TokenRefusal, TokenScope,
};

use super::{AccessControl, PresentedToken, RequestAccess, presented_token};
use crate::auth::Caller;
use crate::error::GatewayError;
use crate::http::headers::{CONNECTION_ID, single};
use crate::trace;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static(names::IDEMPOTENCY_KEY);

impl AccessControl {
    /// The connection a request belongs to, which must be its caller's.
    pub fn connection(
        &self,
        caller: &Caller,
        headers: &HeaderMap,
    ) -> Result<ConnectionToken, GatewayError> {
        let token = single(headers, &CONNECTION_ID)?.ok_or(GatewayError::Header(
            "the Acp-Connection-Id header is missing: initialize answers with it",
        ))?;
        self.verify_connection(caller, token)
    }

    /// One answer for a token that is forged, expired, revoked, or somebody else's.
    pub fn verify_connection(
        &self,
        caller: &Caller,
        token: &str,
    ) -> Result<ConnectionToken, GatewayError> {
        let connection = self.verify_any_connection(caller, token)?;
        if connection.protocol_version == PROTOCOL_VERSION {
            Ok(connection)
        } else {
            self.metrics.token_refused(TokenRefusal::Kind.reason());
            Err(GatewayError::UnknownConnection)
        }
    }

    /// The session of an MCP client. What either door has opened is nothing at the other.
    pub fn verify_mcp_session(
        &self,
        caller: &Caller,
        token: &str,
    ) -> Result<ConnectionToken, GatewayError> {
        let connection = self.verify_any_connection(caller, token)?;
        if connection.protocol_version == PROTOCOL_VERSION {
            self.metrics.token_refused(TokenRefusal::Kind.reason());
            return Err(GatewayError::UnknownConnection);
        }
        Ok(connection)
    }

    fn verify_any_connection(
        &self,
        caller: &Caller,
        token: &str,
    ) -> Result<ConnectionToken, GatewayError> {
        if token.len() > MAX_TOKEN_BYTES {
            self.metrics.token_refused(TokenRefusal::TooLong.reason());
            return Err(GatewayError::Header(
                "Acp-Connection-Id or Mcp-Session-Id is longer than any token",
            ));
        }
        let refuse = |why: &'static str| {
            self.metrics.token_refused(why);
            GatewayError::UnknownConnection
        };
        // Tokens that were verified with other keys are verified again.
        let keys = &self.issuer.keys;
        let version = keys.version();
        let connection = match self.connection_cache.get(token, version) {
            Some(connection) => connection,
            None => {
                let verified = keys.ring().verify_connection(token);
                let connection = verified.map_err(|why| refuse(why.reason()))?;
                let expires = connection.expires;
                self.connection_cache
                    .put(token, connection.clone(), expires, version);
                connection
            }
        };
        if *connection.principal != *caller.principal {
            return Err(refuse("foreign"));
        }
        // It carries what other rights have opened.
        if connection.rights != caller.rights().mark() {
            return Err(refuse("rights"));
        }
        let named = Some((&connection.id, connection.issued));
        let revocations = &self.issuer.revocations;
        if revocations.is_revoked(&connection.principal, named, None) {
            return Err(refuse("revoked"));
        }
        Ok(connection)
    }

    /// A request without a connection is made on one of its own. With an idempotency key it is the
    /// same one when the request is repeated; a stream is the same one as long as its token is
    /// renewed.
    pub(super) fn synthetic_connection(
        &self,
        caller: &Caller,
        headers: &HeaderMap,
        grant: &SessionGrant,
    ) -> Result<ConnectionToken, GatewayError> {
        let partition = grant.session.partition();
        let id = match single(headers, &IDEMPOTENCY_KEY)? {
            Some(key) => {
                let seed = format!("{}\n{}\n{key}", grant.session, grant.principal);
                ConnectionId::derived(partition, seed.as_bytes())
            }
            // A reader without a connection leaves one synthetic connection, however often it
            // reads; a stream is another one.
            None if grant.scope == TokenScope::Observe || caller.rights().observe => {
                let seed = format!("{}\n{}\nin bodies", grant.session, grant.family);
                ConnectionId::derived(partition, seed.as_bytes())
            }
            None => ConnectionId::mint(Partition::random(self.store.partitions())),
        };
        Ok(ConnectionToken {
            id,
            principal: grant.owner().to_owned(),
            protocol_version: PROTOCOL_VERSION,
            client: Default::default(),
            agent: None,
            rights: None,
            issued: grant.issued,
            expires: grant.expires,
        })
    }
}

impl AccessControl {
    /// The connection of one call of an MCP client: its session's, or one of the call's own. With
    /// an idempotency key it is the same one when the call is repeated, be it by another session.
    pub fn call_connection(
        &self,
        caller: &Caller,
        headers: &HeaderMap,
        session: &ConnectionToken,
    ) -> Result<ConnectionToken, GatewayError> {
        let Some(key) = single(headers, &IDEMPOTENCY_KEY)? else {
            return Ok(session.clone());
        };
        let seed = format!("{}\nan MCP call\n{key}", caller.principal);
        let partition = Partition::derived(seed.as_bytes(), self.store.partitions());
        Ok(ConnectionToken {
            id: ConnectionId::derived(partition, seed.as_bytes()),
            ..session.clone()
        })
    }

    /// The access of such a call. A session token lets it in to the one session that it names,
    /// which may be somebody else's to watch.
    pub fn of_call(
        &self,
        caller: &Caller,
        headers: &HeaderMap,
        mut connection: ConnectionToken,
    ) -> Result<RequestAccess, GatewayError> {
        let token = presented_token(headers, None, None)?;
        let grant = token.map_or(PresentedToken::Absent, |it| self.check_token(caller, it));
        let owner = match &grant {
            PresentedToken::Valid(grant) => grant.owner.clone(),
            PresentedToken::Absent | PresentedToken::Invalid => None,
        };
        let without_connection = owner.is_some();
        if let Some(owner) = owner {
            connection.principal = owner;
        }
        trace::record_ids(self.traces, None, &connection.id);
        Ok(RequestAccess {
            connection,
            grant,
            without_connection,
            caller: caller.clone(),
        })
    }
}

/// The connection on which a stream without a connection reads: the same after every cut.
pub fn reader_connection(grant: &SessionGrant) -> ConnectionId {
    let seed = format!("{}\n{}", grant.session, grant.family);
    ConnectionId::derived(grant.session.partition(), seed.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use baton_session::clock::unix_seconds;
    use baton_session::command::ClientCapabilities;
    use baton_session::id::{ConnectionId, Partition};
    use baton_session::store::MemoryStore;
    use baton_session::token::{KeyRing, SigningKeys, generate};
    use jsonwebtoken::Algorithm;

    use super::*;
    use crate::app::{App, GatewayConfig, StopSignals};
    use crate::auth::AuthMethod;

    fn caller(name: &str) -> Caller {
        Caller::new(name.into(), None)
    }

    #[tokio::test]
    async fn a_connection_is_its_callers_and_no_longer_than_any_token() {
        let keys = KeyRing::parse(&generate(Algorithm::HS256)).unwrap();
        let store = Arc::new(MemoryStore::default());
        let (config, stop) = (GatewayConfig::default(), StopSignals::default());
        let app = App::new(
            config,
            store,
            SigningKeys::fixed(keys),
            AuthMethod::Open,
            stop,
        )
        .await;
        let app = app.unwrap();
        let opened = ConnectionToken {
            id: ConnectionId::mint(Partition(0)),
            principal: "alice".into(),
            protocol_version: 1,
            client: ClientCapabilities::default(),
            agent: None,
            rights: None,
            issued: unix_seconds(),
            expires: 0,
        };
        let ring = app.issuer.keys.ring();
        let token = ring.sign_connection(&opened, Duration::from_secs(100));
        // The second time it is known already.
        for _ in 0..2 {
            let found = app
                .access
                .verify_connection(&caller("alice"), token.expose());
            assert!(found.is_ok_and(|found| found.id == opened.id));
            let found = app.access.verify_connection(&caller("bob"), token.expose());
            assert!(matches!(found, Err(GatewayError::UnknownConnection)));
        }
        let refused = |length: usize| {
            let token = "x".repeat(length);
            app.access.verify_connection(&caller("alice"), &token)
        };
        assert!(matches!(
            refused(MAX_TOKEN_BYTES),
            Err(GatewayError::UnknownConnection)
        ));
        assert!(matches!(
            refused(MAX_TOKEN_BYTES + 1),
            Err(GatewayError::Header(_))
        ));
    }
}
