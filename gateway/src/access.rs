//! Access of a request: its connection, a token of the session it is about, or both.
//!
//! | file | contents |
//! |---|---|
//! | `connection_token` | connection tokens, and the connection of a request that has none |
//! | `session_token` | verifies session tokens, and hands out and renews them |
//! | `stream_authority` | on whose behalf a stream is open, and for how long |

use std::sync::Arc;

use axum::http::HeaderMap;
use baton_session::id::SessionId;
use baton_session::store::Store;
use baton_session::token::{ConnectionToken, SessionGrant, TokenScope, carriers};

use self::session_token::SESSION_TOKEN;
use crate::auth::Caller;
use crate::auth::token_cache::TokenCache;
use crate::auth::token_issuer::TokenIssuer;
use crate::error::GatewayError;
use crate::http::headers;
use crate::metrics::GatewayMetrics;
use crate::trace::{self, TraceSampling};

mod connection_token;
mod session_token;
pub mod stream_authority;

pub use self::connection_token::reader_connection;
pub use self::session_token::clear_cookie;

/// Checks what requests present beside their credential.
pub struct AccessControl {
    issuer: TokenIssuer,
    store: Arc<dyn Store>,
    metrics: Arc<GatewayMetrics>,
    traces: TraceSampling,
    /// Connection tokens that were verified before.
    connection_cache: TokenCache<ConnectionToken>,
    /// Session tokens likewise.
    grant_cache: TokenCache<SessionGrant>,
}

#[derive(Clone, Debug)]
pub struct RequestAccess {
    pub connection: ConnectionToken,
    pub grant: PresentedToken,
    /// The request names no connection; `connection` is synthetic.
    pub without_connection: bool,
    pub caller: Caller,
}

/// The session token of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PresentedToken {
    Absent,
    /// Forged, expired, revoked, or somebody else's.
    Invalid,
    Valid(Box<SessionGrant>),
}

impl RequestAccess {
    pub fn scope(&self) -> TokenScope {
        match self.caller.rights().scope() {
            TokenScope::Observe => TokenScope::Observe,
            TokenScope::Control => self.grant.scope(),
        }
    }
}

impl PresentedToken {
    /// Without a token, a connection may do everything with what is its principal's.
    pub fn scope(&self) -> TokenScope {
        match self {
            Self::Valid(grant) => grant.scope,
            Self::Absent | Self::Invalid => TokenScope::Control,
        }
    }
}

impl AccessControl {
    pub fn new(
        issuer: TokenIssuer,
        store: Arc<dyn Store>,
        metrics: Arc<GatewayMetrics>,
        traces: TraceSampling,
    ) -> Self {
        Self {
            issuer,
            store,
            metrics,
            traces,
            connection_cache: TokenCache::default(),
            grant_cache: TokenCache::default(),
        }
    }

    /// `payload` is the token in `_meta`, `session` the session that the request names.
    pub fn of_request(
        &self,
        caller: &Caller,
        headers: &HeaderMap,
        payload: Option<&str>,
        session: Option<&str>,
    ) -> Result<RequestAccess, GatewayError> {
        let token = presented_token(headers, payload, session)?;
        let connected = headers.contains_key(&headers::CONNECTION_ID);
        // A browser sends the cookies it has, also those whose time is over: nobody meant anything
        // by it.
        let meant = payload.is_some() || headers.contains_key(&SESSION_TOKEN);
        let grant = match token.map(|token| self.verify_session_token(caller, token)) {
            Some(Ok(grant)) => PresentedToken::Valid(grant),
            Some(Err(why)) if meant || !connected => self.refused_token(why),
            Some(Err(_)) | None => PresentedToken::Absent,
        };
        let access = match (connected, grant) {
            (false, PresentedToken::Valid(grant)) => RequestAccess {
                connection: self.synthetic_connection(caller, headers, &grant)?,
                grant: PresentedToken::Valid(grant),
                without_connection: true,
                caller: caller.clone(),
            },
            (false, PresentedToken::Invalid) => return Err(GatewayError::UnknownConnection),
            (_, grant) => RequestAccess {
                connection: self.connection(caller, headers)?,
                grant,
                without_connection: false,
                caller: caller.clone(),
            },
        };
        trace::record_ids(self.traces, session, &access.connection.id);
        Ok(access)
    }

    /// The session token of a WebSocket's upgrade, which is then the one of all its messages.
    pub fn of_upgrade(
        &self,
        caller: &Caller,
        headers: &HeaderMap,
    ) -> Result<PresentedToken, GatewayError> {
        let named = headers::single(headers, &headers::SESSION_ID)?;
        let token = presented_token(headers, None, named)?;
        match token.map_or(PresentedToken::Absent, |it| self.check_token(caller, it)) {
            PresentedToken::Invalid => Err(GatewayError::UnknownConnection),
            presented => Ok(presented),
        }
    }

    /// A message on a WebSocket may bring its own, but not another than the socket's.
    pub fn of_socket_message(
        &self,
        caller: &Caller,
        connection: &ConnectionToken,
        socket: &PresentedToken,
        payload: Option<&str>,
    ) -> RequestAccess {
        let presented = payload.map(|token| self.check_token(caller, token));
        let grant = match (socket, presented) {
            (socket, None) => socket.clone(),
            (PresentedToken::Absent, Some(presented)) => presented,
            (PresentedToken::Valid(whole), Some(PresentedToken::Valid(own)))
                if whole.session == own.session =>
            {
                match whole.scope {
                    TokenScope::Observe => PresentedToken::Valid(whole.clone()),
                    TokenScope::Control => PresentedToken::Valid(own),
                }
            }
            _ => PresentedToken::Invalid,
        };
        let without_connection = matches!(socket, PresentedToken::Valid(_));
        RequestAccess {
            connection: connection.clone(),
            grant,
            without_connection,
            caller: caller.clone(),
        }
    }
}

/// The one token that all carriers agree on.
pub(crate) fn presented_token<'a>(
    headers: &'a HeaderMap,
    payload: Option<&'a str>,
    session: Option<&str>,
) -> Result<Option<&'a str>, GatewayError> {
    let header = headers::single(headers, &SESSION_TOKEN)?;
    let session = session.and_then(SessionId::parse);
    let cookie =
        session.and_then(|session| carriers::cookie_value(headers::cookies(headers), &session));
    let agreed = carriers::agree(header, payload, cookie);
    agreed.map_err(|_| GatewayError::Header("the request carries different session tokens"))
}
