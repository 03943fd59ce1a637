//! Logins: a page shows the credential once, and its browser keeps a cookie that no script can
//! read. Browsers send cookies along with what any page asks for, so it counts only if the browser
//! also says that the page is one of those that may.

use axum::http::HeaderMap;
use axum::http::request::Parts;
use baton_session::revocation::{Revocation, RevocationCause, RevocationSubject};
use baton_session::token::{LoginToken, MAX_SKEW, carriers};

use super::{ActiveLogin, AuthFailure, Authenticator, Caller, guest};
use crate::http::headers;

/// Those of one login never have another generation than 0.
const BELOW: u32 = 1;

pub fn open(auth: &Authenticator, caller: &Caller) -> LoginToken {
    let issued = auth.revocations().login_time(&caller.principal);
    LoginToken {
        source: Some(caller.credential.source.clone()),
        ..LoginToken::new(caller.principal.to_string(), issued, caller.expires)
    }
}

/// The cookie, if it counts.
pub fn presented<'a>(auth: &Authenticator, request: &'a Parts) -> Option<&'a str> {
    let token = carriers::login_value(headers::cookies(&request.headers))?;
    let origins = &auth.origins;
    let is_vouched = origins.is_vouched_for(&request.uri, &request.headers);
    if !is_vouched {
        tracing::debug!("a login does not count: no page of ours has sent it");
    }
    is_vouched.then_some(token)
}

pub fn check(auth: &Authenticator, token: &str) -> Result<Caller, AuthFailure> {
    let login = verify(auth, token)?;
    let family = Some(login.family.as_str());
    let revocations = auth.revocations();
    if revocations.is_credential_revoked(&login.principal, login.issued, family) {
        return Err(AuthFailure::because("a login that was revoked"));
    }
    let (source, expires) = (login.source.as_deref(), Some(login.expires));
    let mut caller = match guest::recall(&login) {
        Some(guest) => guest,
        None => auth.method.recall(&login.principal, source, expires)?,
    };
    caller.login = Some(ActiveLogin {
        family: login.family.into(),
        issued: login.issued,
    });
    Ok(caller)
}

/// The login that a request brings, whether it counts or not, if it is the caller's own.
pub fn of(auth: &Authenticator, caller: &Caller, headers: &HeaderMap) -> Option<LoginToken> {
    let token = carriers::login_value(headers::cookies(headers))?;
    let login = verify(auth, token).ok()?;
    (*login.principal == *caller.principal).then_some(login)
}

fn verify(auth: &Authenticator, token: &str) -> Result<LoginToken, AuthFailure> {
    let version = auth.issuer.keys.version();
    if let Some(login) = auth.login_cache.get(token, version) {
        return Ok(login);
    }
    let verified = auth.issuer.keys.ring().verify_login(token);
    let login = verified.map_err(|why| AuthFailure::because(why.to_string()))?;
    auth.login_cache
        .put(token, login.clone(), login.expires, version);
    Ok(login)
}

/// Takes it back. In effect at once, also where the clock is behind.
pub fn end(login: &LoginToken) -> Revocation {
    let ended = Revocation {
        subject: RevocationSubject::Family {
            family: login.family.clone(),
            below: BELOW,
        },
        before: login.issued,
        from: login.issued.saturating_sub(MAX_SKEW),
        until: login.expires.saturating_add(MAX_SKEW),
        asker: None,
    };
    ended.asked_by(RevocationCause::Logout, &login.principal)
}
