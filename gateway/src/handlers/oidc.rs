//! Logins at the page of an identity provider: `POST /v1/login/oidc` begins one, and the provider
//! sends the browser back to `GET /v1/login/oidc/callback`. The page is led to `/` in any case: no
//! address in a request decides where.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, Uri, header};
use axum::response::IntoResponse as _;
use baton_session::audit::Decision;
use baton_session::clock::unix_seconds;
use baton_session::secret::Secret;
use baton_session::token::{LoginAttempt, carriers};
use serde_json::json;
use subtle::ConstantTimeEq as _;
use url::form_urlencoded;

use crate::app::App;
use crate::auth::oidc::LoginFault;
use crate::auth::{AuthMethod, Caller, login};
use crate::error::GatewayError;
use crate::http::headers;
use crate::net::peer::ClientPeer;

const MAX_ORIGIN: usize = 256;
const MAX_QUERY: usize = 8 << 10;

/// How callers get in, for a page that nobody has logged in at yet.
pub async fn methods(State(app): State<Arc<App>>) -> Response<Body> {
    let method = match app.auth.method {
        AuthMethod::Open => "none",
        AuthMethod::Keys(_) => "keys",
        AuthMethod::Jwt(_) => "jwt",
    };
    let login = app.auth.provider_tokens();
    let login = login.and_then(|bearer| bearer.provider_login());
    let body = json!({ "auth": method, "provider": login.map(|login| login.host()) });
    let kind = HeaderValue::from_static(headers::JSON);
    ([(header::CONTENT_TYPE, kind)], body.to_string()).into_response()
}

pub async fn begin(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response<Body>, GatewayError> {
    let (parts, _) = request.into_parts();
    headers::require(&parts.headers, headers::JSON)?;
    let bearer = app.auth.provider_tokens().ok_or(GatewayError::NotFound)?;
    let provider = bearer.provider_login().ok_or(GatewayError::NotFound)?;
    let origin = page_origin(&app, &parts)?;
    let begun = provider.begin(origin).await;
    let (url, attempt) = begun.map_err(|_| GatewayError::Provider)?;
    let signed = app.issuer.keys.ring().sign_attempt(&attempt);
    let lifetime = attempt.expires.saturating_sub(attempt.issued);
    let headers = [
        (
            header::SET_COOKIE,
            cookie(&carriers::set_attempt(&signed, lifetime)),
        ),
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static(headers::JSON),
        ),
    ];
    let body = json!({ "location": url }).to_string();
    Ok((headers, body).into_response())
}

/// Only a page of ours begins a login: one from elsewhere could begin it for its visitor.
fn page_origin(app: &App, parts: &Parts) -> Result<String, GatewayError> {
    let origin = parts.headers.get(header::ORIGIN);
    let origin = origin.and_then(|origin| origin.to_str().ok());
    let is_ours = app
        .config
        .origins
        .is_vouched_for(&parts.uri, &parts.headers);
    match origin {
        Some(origin) if is_ours && origin.len() <= MAX_ORIGIN => Ok(origin.to_owned()),
        _ => Err(GatewayError::Origin),
    }
}

pub async fn callback(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response<Body>, GatewayError> {
    if app.auth.provider_tokens().is_none() {
        return Err(GatewayError::NotFound);
    }
    let (parts, _) = request.into_parts();
    let address = parts.extensions.get().map(|peer: &ClientPeer| peer.address);
    Ok(match finish(&app, &parts.uri, &parts.headers).await {
        Ok((mut caller, token, lifetime)) => {
            caller.address = address;
            app.audit.record_done(&caller, None, || Decision::Login {});
            let login = cookie(&carriers::set_login(&token, lifetime));
            lead("/", [Some(login), Some(cookie(&carriers::clear_attempt()))])
        }
        Err(fault) => {
            let reason = fault.name();
            tracing::debug!(reason, "a login at the identity provider failed");
            // A stranger's link must not end an attempt that is under way.
            let ends = fault != LoginFault::Expired;
            let clear = ends.then(|| cookie(&carriers::clear_attempt()));
            lead(&format!("/#/login/{reason}"), [clear, None])
        }
    })
}

/// The caller, its login and how long that lasts.
async fn finish(
    app: &App,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<(Caller, Secret, u64), LoginFault> {
    let answer = ProviderAnswer::read(uri.query().unwrap_or_default())?;
    let attempt = attempt_of(app, headers, &answer)?;
    let bearer = app.auth.provider_tokens().ok_or(LoginFault::Provider)?;
    let provider = bearer.provider_login().ok_or(LoginFault::Provider)?;
    // An answer of another provider (RFC 9207).
    if answer
        .issuer
        .is_some_and(|issuer| !provider.is_issuer(&issuer))
    {
        return Err(LoginFault::Provider);
    }
    let code = answer.code.ok_or(LoginFault::Denied)?;
    let mut caller = provider.finish(&attempt, &code, bearer).await?;
    let own = app.auth.method.limits(&caller.principal);
    caller.allowance = app.accounts.of(&caller.principal, own.as_deref());
    caller.count_request().map_err(|_| LoginFault::Busy)?;
    // After the provider has vouched for somebody: strangers cannot fill the store with attempts.
    let spent = app.auth.spend_attempt(&attempt).await;
    if !spent.map_err(|_| LoginFault::Busy)? {
        return Err(LoginFault::Used);
    }
    let login = login::open(&app.auth, &caller);
    let lifetime = login.expires.saturating_sub(unix_seconds());
    if lifetime == 0 {
        return Err(LoginFault::Token);
    }
    Ok((caller, app.issuer.keys.ring().sign_login(&login), lifetime))
}

/// The attempt that this browser has begun, if the answer is to that one. Who sends somebody a link
/// with a code of his own has not begun it here.
fn attempt_of(
    app: &App,
    headers: &HeaderMap,
    answer: &ProviderAnswer,
) -> Result<LoginAttempt, LoginFault> {
    let token = carriers::attempt_value(headers::cookies(headers)).ok_or(LoginFault::Expired)?;
    let attempt = app.issuer.keys.ring().verify_attempt(token);
    let attempt = attempt.map_err(|_| LoginFault::Expired)?;
    let state = answer.state.as_deref().unwrap_or_default();
    let is_its_answer: bool = attempt.state.as_bytes().ct_eq(state.as_bytes()).into();
    is_its_answer.then_some(attempt).ok_or(LoginFault::Expired)
}

/// The parameters that the provider has given the browser.
#[derive(Debug, Default)]
struct ProviderAnswer {
    code: Option<String>,
    state: Option<String>,
    issuer: Option<String>,
}

impl ProviderAnswer {
    /// Of two values of one name neither is chosen.
    fn read(query: &str) -> Result<Self, LoginFault> {
        let mut answer = Self::default();
        if query.len() > MAX_QUERY {
            return Err(LoginFault::Expired);
        }
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let slot = match &*name {
                "code" => &mut answer.code,
                "state" => &mut answer.state,
                "iss" => &mut answer.issuer,
                _ => continue,
            };
            if slot.replace(value.into_owned()).is_some() {
                return Err(LoginFault::Expired);
            }
        }
        Ok(answer)
    }
}

fn cookie(text: &str) -> HeaderValue {
    let mut value = HeaderValue::from_str(text).expect("a cookie is visible ASCII");
    value.set_sensitive(true);
    value
}

fn lead(to: &str, cookies: [Option<HeaderValue>; 2]) -> Response<Body> {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let headers = response.headers_mut();
    let to = HeaderValue::from_str(to).expect("paths of ours are ASCII");
    headers.insert(header::LOCATION, to);
    for cookie in cookies.into_iter().flatten() {
        headers.append(header::SET_COOKIE, cookie);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_each_thing_once() {
        let read = ProviderAnswer::read("code=a%20b&state=s&iss=https%3A%2F%2Fi&session_state=x");
        let read = read.unwrap();
        assert_eq!(read.code.as_deref(), Some("a b"));
        assert_eq!(read.issuer.as_deref(), Some("https://i"));
        assert!(ProviderAnswer::read("").unwrap().code.is_none());
        for twice in ["code=a&code=b", "state=a&code=c&state=a", &"x".repeat(9000)] {
            assert_eq!(
                ProviderAnswer::read(twice).unwrap_err(),
                LoginFault::Expired
            );
        }
    }

    #[test]
    fn a_login_leads_to_the_page_and_nowhere_else() {
        let led = lead("/", [None, None]);
        assert_eq!(led.status(), StatusCode::SEE_OTHER);
        assert_eq!(led.headers()[header::LOCATION], "/");
        assert!(!led.headers().contains_key(header::SET_COOKIE));
    }
}
