//! The connection token of a request, which must be its caller's.

use axum::http::HeaderMap;
use baton_session::token::{ConnectionToken, MAX_TOKEN_BYTES, TokenRefusal};

use crate::app::App;
use crate::auth::Caller;
use crate::error::GatewayError;
use crate::http::headers::{CONNECTION_ID, single};

/// The connection a request belongs to, which must be its caller's.
pub fn of_headers(
    headers: &HeaderMap,
    app: &App,
    caller: &Caller,
) -> Result<ConnectionToken, GatewayError> {
    let token = single(headers, &CONNECTION_ID)?.ok_or(GatewayError::Header(
        "the Acp-Connection-Id header is missing: initialize answers with it",
    ))?;
    verify(token, app, caller)
}

/// One answer for a token that is forged, expired, revoked, or somebody else's.
pub fn verify(token: &str, app: &App, caller: &Caller) -> Result<ConnectionToken, GatewayError> {
    if token.len() > MAX_TOKEN_BYTES {
        app.metrics.token_refused(TokenRefusal::TooLong.reason());
        return Err(GatewayError::Header(
            "Acp-Connection-Id is longer than any token",
        ));
    }
    // Tokens that were verified with other keys are verified again.
    let version = app.issuer.keys.version();
    let connection = match app.connection_cache.get(token, version) {
        Some(connection) => connection,
        None => {
            let connection = app
                .issuer
                .keys
                .ring()
                .verify_connection(token)
                .map_err(|why| {
                    app.metrics.token_refused(why.reason());
                    GatewayError::UnknownConnection
                })?;
            let expires = connection.expires;
            app.connection_cache
                .put(token, connection.clone(), expires, version);
            connection
        }
    };
    if *connection.principal != *caller.principal {
        app.metrics.token_refused("foreign");
        return Err(GatewayError::UnknownConnection);
    }
    // It carries what other rights have opened.
    if connection.rights != caller.rights().mark() {
        app.metrics.token_refused("rights");
        return Err(GatewayError::UnknownConnection);
    }
    let named = Some((&connection.id, connection.issued));
    if app
        .issuer
        .revocations
        .is_revoked(&connection.principal, named, None)
    {
        app.metrics.token_refused("revoked");
        return Err(GatewayError::UnknownConnection);
    }
    Ok(connection)
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
    use crate::app::{GatewayConfig, StopSignals};
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
            let found = verify(token.expose(), &app, &caller("alice"));
            assert!(found.is_ok_and(|found| found.id == opened.id));
            let found = verify(token.expose(), &app, &caller("bob"));
            assert!(matches!(found, Err(GatewayError::UnknownConnection)));
        }
        let refused = |length: usize| verify(&"x".repeat(length), &app, &caller("alice"));
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
