//! Access of a request: its connection, a token of the session it is about, or both.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use baton_protocol::{PROTOCOL_VERSION, header as names};
use baton_session::clock::unix_seconds;
use baton_session::id::{ConnectionId, Partition, SessionId};
use baton_session::revocation::{Revocation, RevocationCause, RevocationSubject};
use baton_session::token::{
    ConnectionToken, MAX_TOKEN_BYTES, SESSION_LIFETIME, SessionGrant, TokenRefusal, TokenScope,
    carriers,
};

use crate::app::App;
use crate::auth::Caller;
use crate::error::GatewayError;
use crate::http::headers;
use crate::trace;

pub mod connection_token;
pub mod stream_authority;

pub const SESSION_TOKEN: HeaderName = HeaderName::from_static(names::SESSION_TOKEN);
/// How long a token is good after it was renewed, in seconds.
const OVERLAP: u64 = 120;
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static(names::IDEMPOTENCY_KEY);

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

/// `payload` is the token in `_meta`, `session` the session that the request names.
pub fn of_request(
    app: &App,
    caller: &Caller,
    headers: &HeaderMap,
    payload: Option<&str>,
    session: Option<&str>,
) -> Result<RequestAccess, GatewayError> {
    let token = presented_token(headers, payload, session)?;
    let connected = headers.contains_key(&headers::CONNECTION_ID);
    // A browser sends the cookies it has, also those whose time is over: nobody meant anything by
    // it.
    let meant = payload.is_some() || headers.contains_key(&SESSION_TOKEN);
    let grant = match token.map(|token| verify_session_token(app, caller, token)) {
        Some(Ok(grant)) => PresentedToken::Valid(grant),
        Some(Err(why)) if meant || !connected => refused_token(app, why),
        Some(Err(_)) | None => PresentedToken::Absent,
    };
    let access = match (connected, grant) {
        (false, PresentedToken::Valid(grant)) => RequestAccess {
            connection: synthetic_connection(app, caller, headers, &grant)?,
            grant: PresentedToken::Valid(grant),
            without_connection: true,
            caller: caller.clone(),
        },
        (false, PresentedToken::Invalid) => return Err(GatewayError::UnknownConnection),
        (_, grant) => RequestAccess {
            connection: connection_token::of_headers(headers, app, caller)?,
            grant,
            without_connection: false,
            caller: caller.clone(),
        },
    };
    trace::record_ids(app, session, &access.connection.id);
    Ok(access)
}

/// The session token of a WebSocket's upgrade, which is then the one of all its messages.
pub fn of_upgrade(
    app: &App,
    caller: &Caller,
    headers: &HeaderMap,
) -> Result<PresentedToken, GatewayError> {
    let named = headers::single(headers, &headers::SESSION_ID)?;
    let token = presented_token(headers, None, named)?;
    match token.map_or(PresentedToken::Absent, |token| {
        check_token(app, caller, token)
    }) {
        PresentedToken::Invalid => Err(GatewayError::UnknownConnection),
        presented => Ok(presented),
    }
}

/// A message on a WebSocket may bring its own, but not another than the socket's.
pub fn of_socket_message(
    app: &App,
    caller: &Caller,
    connection: &ConnectionToken,
    socket: &PresentedToken,
    payload: Option<&str>,
) -> RequestAccess {
    let presented = payload.map(|token| check_token(app, caller, token));
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

fn check_token(app: &App, caller: &Caller, token: &str) -> PresentedToken {
    let verified = verify_session_token(app, caller, token);
    verified.map_or_else(|why| refused_token(app, why), PresentedToken::Valid)
}

fn refused_token(app: &App, why: &'static str) -> PresentedToken {
    app.metrics.token_refused(why);
    PresentedToken::Invalid
}

/// Or why it is no good, for logs and metrics.
fn verify_session_token(
    app: &App,
    caller: &Caller,
    token: &str,
) -> Result<Box<SessionGrant>, &'static str> {
    if token.len() > MAX_TOKEN_BYTES {
        return Err(TokenRefusal::TooLong.reason());
    }
    let version = app.issuer.keys.version();
    let grant = match app.grant_cache.get(token, version) {
        Some(grant) => grant,
        None => match app.issuer.keys.ring().verify_session(token) {
            Ok(grant) => {
                app.grant_cache
                    .put(token, grant.clone(), grant.expires, version);
                grant
            }
            Err(why) => return Err(why.reason()),
        },
    };
    if *grant.principal != *caller.principal {
        return Err("foreign");
    }
    let session = Some((&grant.session, grant.issued));
    let revocations = &app.issuer.revocations;
    if revocations.is_revoked(&grant.principal, None, session)
        || revocations.is_revoked(grant.owner(), None, session)
        || revocations.is_family_revoked(&grant.family, grant.generation)
    {
        return Err("revoked");
    }
    Ok(Box::new(grant))
}

/// A request without a connection is made on one of its own. With an idempotency key it is the same
/// one when the request is repeated; a stream is the same one as long as its token is renewed.
fn synthetic_connection(
    app: &App,
    caller: &Caller,
    headers: &HeaderMap,
    grant: &SessionGrant,
) -> Result<ConnectionToken, GatewayError> {
    let partition = grant.session.partition();
    let id = match headers::single(headers, &IDEMPOTENCY_KEY)? {
        Some(key) => {
            let seed = format!("{}\n{}\n{key}", grant.session, grant.principal);
            ConnectionId::derived(partition, seed.as_bytes())
        }
        // A reader without a connection leaves one synthetic connection, however often it reads; a
        // stream is another one.
        None if grant.scope == TokenScope::Observe || caller.rights().observe => {
            let seed = format!("{}\n{}\nin bodies", grant.session, grant.family);
            ConnectionId::derived(partition, seed.as_bytes())
        }
        None => ConnectionId::mint(Partition::random(app.store.partitions())),
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

/// The connection on which a stream without a connection reads: the same after every cut.
pub fn reader_connection(grant: &SessionGrant) -> ConnectionId {
    let seed = format!("{}\n{}", grant.session, grant.family);
    ConnectionId::derived(grant.session.partition(), seed.as_bytes())
}

/// Puts a new token for `session` on the answer to the request that opened it.
pub fn stamp_token(
    app: &App,
    session: &SessionId,
    access: &RequestAccess,
    browser: bool,
    answer: &mut HeaderMap,
) {
    if access.scope() == TokenScope::Control {
        let principal = &access.connection.principal;
        let grant = app.issuer.grant(session, principal, TokenScope::Control);
        put_token(app, &grant, browser, answer);
    }
}

/// A token past half of its life is renewed with the answer to whatever it came with. The one
/// before it stays good for a while, for requests that are under way. One that lets its holder only
/// watch was given for a time, and ends with it.
pub async fn renew_token(app: &App, access: &RequestAccess, browser: bool, answer: &mut HeaderMap) {
    let PresentedToken::Valid(grant) = &access.grant else {
        return;
    };
    let now = unix_seconds();
    let due = access.scope() == TokenScope::Control && grant.wants_renewal(now);
    // It may be revoked by now.
    if !due || app.issuer.revocations.may_be_incomplete() {
        return;
    }
    let renewed = grant.renewed(now, SESSION_LIFETIME);
    let revocation = Revocation {
        subject: RevocationSubject::Family {
            family: grant.family.clone(),
            below: renewed.generation,
        },
        before: now,
        from: now + OVERLAP,
        until: grant.expires,
        asker: None,
    }
    .asked_by(RevocationCause::Renewal, &grant.principal);
    // The request is done by now and must not fail because of this. The next one renews.
    match app.store.revoke(&revocation).await {
        Ok(true) => put_token(app, &renewed, browser, answer),
        Ok(false) => tracing::debug!("its caller has renewed too many session tokens"),
        Err(error) => tracing::debug!(%error, "could not renew a session token"),
    }
}

/// The session is over: browsers drop its cookie.
pub fn clear_cookie(session: &SessionId, answer: &mut HeaderMap) {
    let cookie = carriers::clear_cookie(session);
    let value = HeaderValue::from_str(&cookie).expect("a cookie is visible ASCII");
    answer.append(header::SET_COOKIE, value);
}

fn put_token(app: &App, grant: &SessionGrant, browser: bool, answer: &mut HeaderMap) {
    let token = app.issuer.sign(grant);
    let mut value = HeaderValue::from_str(token.expose()).expect("a token is visible ASCII");
    value.set_sensitive(true);
    answer.insert(SESSION_TOKEN, value);
    if browser {
        let lifetime = grant.expires.saturating_sub(unix_seconds());
        let cookie = carriers::set_cookie(&grant.session, &token, lifetime);
        let mut value = HeaderValue::from_str(&cookie).expect("a cookie is visible ASCII");
        value.set_sensitive(true);
        answer.append(header::SET_COOKIE, value);
    }
    // Nobody in between keeps it, be it on a stream, which says less by itself.
    let no_store = HeaderValue::from_static("no-store");
    answer.insert(header::CACHE_CONTROL, no_store);
}
