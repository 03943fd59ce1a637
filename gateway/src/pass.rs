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
use crate::edge;
use crate::error::Reject;
use crate::trace;

pub const SESSION_TOKEN: HeaderName = HeaderName::from_static(names::SESSION_TOKEN);
/// How long a token is good after it was renewed, in seconds.
const OVERLAP: u64 = 120;
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static(names::IDEMPOTENCY_KEY);

#[derive(Clone, Debug)]
pub struct Pass {
    pub connection: ConnectionToken,
    pub grant: Brought,
    /// There is no connection but the one that was made up for this request.
    pub alone: bool,
    pub caller: Caller,
}

/// The session token of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Brought {
    Nothing,
    /// Forged, expired, revoked, or somebody else's.
    Bad,
    Good(Box<SessionGrant>),
}

impl Pass {
    pub fn scope(&self) -> TokenScope {
        match self.caller.rights().scope() {
            TokenScope::Observe => TokenScope::Observe,
            TokenScope::Control => self.grant.scope(),
        }
    }
}

impl Brought {
    /// Without a token, a connection may do everything with what is its principal's.
    pub fn scope(&self) -> TokenScope {
        match self {
            Self::Good(grant) => grant.scope,
            Self::Nothing | Self::Bad => TokenScope::Control,
        }
    }
}

/// `payload` is the token in `_meta`, `session` the session that the request names.
pub fn pass(
    app: &App,
    caller: &Caller,
    headers: &HeaderMap,
    payload: Option<&str>,
    session: Option<&str>,
) -> Result<Pass, Reject> {
    let token = token(headers, payload, session)?;
    let connected = headers.contains_key(&edge::CONNECTION_ID);
    // A browser sends the cookies it has, also those whose time is over: nobody meant anything by it.
    let meant = payload.is_some() || headers.contains_key(&SESSION_TOKEN);
    let grant = match token.map(|token| examine(app, caller, token)) {
        Some(Ok(grant)) => Brought::Good(grant),
        Some(Err(why)) if meant || !connected => bad(app, why),
        Some(Err(_)) | None => Brought::Nothing,
    };
    let pass = match (connected, grant) {
        (false, Brought::Good(grant)) => Pass {
            connection: made_up(app, caller, headers, &grant)?,
            grant: Brought::Good(grant),
            alone: true,
            caller: caller.clone(),
        },
        (false, Brought::Bad) => return Err(Reject::UnknownConnection),
        (_, grant) => Pass {
            connection: edge::connection(headers, app, caller)?,
            grant,
            alone: false,
            caller: caller.clone(),
        },
    };
    trace::about(app, session, &pass.connection.id);
    Ok(pass)
}

/// The session token of a WebSocket's upgrade, which is then the one of all its messages.
pub fn of_upgrade(app: &App, caller: &Caller, headers: &HeaderMap) -> Result<Brought, Reject> {
    let named = edge::single(headers, &edge::SESSION_ID)?;
    let token = token(headers, None, named)?;
    match token.map_or(Brought::Nothing, |token| verify(app, caller, token)) {
        Brought::Bad => Err(Reject::UnknownConnection),
        brought => Ok(brought),
    }
}

/// A message on a WebSocket may bring its own, but not another than the socket's.
pub fn on_socket(
    app: &App,
    caller: &Caller,
    connection: &ConnectionToken,
    socket: &Brought,
    payload: Option<&str>,
) -> Pass {
    let brought = payload.map(|token| verify(app, caller, token));
    let grant = match (socket, brought) {
        (socket, None) => socket.clone(),
        (Brought::Nothing, Some(brought)) => brought,
        (Brought::Good(whole), Some(Brought::Good(own))) if whole.session == own.session => {
            match whole.scope {
                TokenScope::Observe => Brought::Good(whole.clone()),
                TokenScope::Control => Brought::Good(own),
            }
        }
        _ => Brought::Bad,
    };
    let alone = matches!(socket, Brought::Good(_));
    Pass {
        connection: connection.clone(),
        grant,
        alone,
        caller: caller.clone(),
    }
}

/// The one token that all carriers agree on.
pub(crate) fn token<'a>(
    headers: &'a HeaderMap,
    payload: Option<&'a str>,
    session: Option<&str>,
) -> Result<Option<&'a str>, Reject> {
    let header = edge::single(headers, &SESSION_TOKEN)?;
    let session = session.and_then(SessionId::parse);
    let cookie =
        session.and_then(|session| carriers::cookie_value(edge::cookies(headers), &session));
    let agreed = carriers::agree(header, payload, cookie);
    agreed.map_err(|_| Reject::Header("the request carries different session tokens"))
}

fn verify(app: &App, caller: &Caller, token: &str) -> Brought {
    let examined = examine(app, caller, token);
    examined.map_or_else(|why| bad(app, why), Brought::Good)
}

fn bad(app: &App, why: &'static str) -> Brought {
    app.metrics.token_refused(why);
    Brought::Bad
}

/// Or why it is no good, for logs and metrics.
fn examine(app: &App, caller: &Caller, token: &str) -> Result<Box<SessionGrant>, &'static str> {
    if token.len() > MAX_TOKEN_BYTES {
        return Err(TokenRefusal::TooLong.reason());
    }
    let version = app.mint.keys.version();
    let grant = match app.grants.get(token, version) {
        Some(grant) => grant,
        None => match app.mint.keys.ring().verify_session(token) {
            Ok(grant) => {
                app.grants.put(token, grant.clone(), grant.expires, version);
                grant
            }
            Err(why) => return Err(why.reason()),
        },
    };
    if *grant.principal != *caller.principal {
        return Err("foreign");
    }
    let session = Some((&grant.session, grant.issued));
    let revoked = &app.mint.revoked;
    if revoked.is_revoked(&grant.principal, None, session)
        || revoked.is_revoked(grant.owner(), None, session)
        || revoked.is_family_revoked(&grant.family, grant.generation)
    {
        return Err("revoked");
    }
    Ok(Box::new(grant))
}

/// A request without a connection is made on one of its own. With an idempotency key it is the same one
/// when the request is repeated; a stream is the same one as long as its token is renewed.
fn made_up(
    app: &App,
    caller: &Caller,
    headers: &HeaderMap,
    grant: &SessionGrant,
) -> Result<ConnectionToken, Reject> {
    let partition = grant.session.partition();
    let id = match edge::single(headers, &IDEMPOTENCY_KEY)? {
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
pub fn reader_of(grant: &SessionGrant) -> ConnectionId {
    let seed = format!("{}\n{}", grant.session, grant.family);
    ConnectionId::derived(grant.session.partition(), seed.as_bytes())
}

/// Puts a new token for `session` on the answer to the request that opened it.
pub fn stamp(app: &App, session: &SessionId, pass: &Pass, browser: bool, answer: &mut HeaderMap) {
    if pass.scope() == TokenScope::Control {
        let principal = &pass.connection.principal;
        let grant = app.mint.grant(session, principal, TokenScope::Control);
        put(app, &grant, browser, answer);
    }
}

/// A token past half of its life is renewed with the answer to whatever it came with. The one before it
/// stays good for a while, for requests that are under way. One that lets its holder only watch was
/// given for a time, and ends with it.
pub async fn renew(app: &App, pass: &Pass, browser: bool, answer: &mut HeaderMap) {
    let Brought::Good(grant) = &pass.grant else {
        return;
    };
    let now = unix_seconds();
    let due = pass.scope() == TokenScope::Control && grant.wants_renewal(now);
    // It may be revoked by now.
    if !due || app.mint.revoked.may_have_missed_some() {
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
        Ok(true) => put(app, &renewed, browser, answer),
        Ok(false) => tracing::debug!("its caller has renewed too many session tokens"),
        Err(error) => tracing::debug!(%error, "could not renew a session token"),
    }
}

/// The session is over: browsers drop its cookie.
pub fn clear(session: &SessionId, answer: &mut HeaderMap) {
    let cookie = carriers::clear_cookie(session);
    let value = HeaderValue::from_str(&cookie).expect("a cookie is visible ASCII");
    answer.append(header::SET_COOKIE, value);
}

fn put(app: &App, grant: &SessionGrant, browser: bool, answer: &mut HeaderMap) {
    let token = app.mint.sign(grant);
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
