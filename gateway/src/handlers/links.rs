//! Links that share the view of a session: `POST /v1/shares` makes one, `DELETE /v1/shares/ID`
//! takes all of a session back, and `POST /v1/shares/open` exchanges one for cookies, for a page
//! that got it in the fragment of its address, which browsers send to nobody.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Extension, Path, Request, State};
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse as _;
use baton_session::audit::Decision;
use baton_session::clock::unix_seconds;
use baton_session::id::SessionId;
use baton_session::revocation::{Revocation, RevocationCause, RevocationSubject};
use baton_session::token::{SessionGrant, TokenScope, carriers};
use serde::Deserialize;
use serde_json::json;

use crate::app::App;
use crate::auth::{Caller, guest};
use crate::error::GatewayError;
use crate::http::headers;

const MAX_BODY: usize = 4 << 10;
/// No revocation is kept longer than a day, so no link is good longer.
const LONGEST: u64 = 24 * 3600;
const SHORTEST: u64 = 60;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LinkRequest {
    session_id: String,
    expires_in: u64,
}

#[derive(Deserialize)]
struct PresentedLink {
    token: String,
}

pub async fn create(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response<Body>, GatewayError> {
    caller.count_request()?;
    let asked: LinkRequest = body(request).await?;
    let session = own_session(&app, &caller, &asked.session_id).await?;
    let guests = guest::principal(&session);
    let mut grant = app.issuer.grant(&session, &guests, TokenScope::Observe);
    let lifetime = asked.expires_in.clamp(SHORTEST, LONGEST);
    grant.owner = Some(caller.principal.to_string());
    grant.expires = grant.issued.saturating_add(lifetime);
    app.audit
        .record_done(&caller, None, || Decision::LinkCreated {
            session: session.clone(),
            seconds: lifetime,
        });
    let token = app.issuer.sign(&grant);
    Ok(answer(
        &json!({ "token": token.expose(), "expiresAt": moment(grant.expires) }),
    ))
}

pub async fn revoke(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<StatusCode, GatewayError> {
    caller.count_request()?;
    let session = own_session(&app, &caller, &id).await?;
    let guests = guest::principal(&session);
    let revocation = Revocation::at_once(RevocationSubject::Principal(guests.clone()))
        .asked_by(RevocationCause::Logout, &guests);
    app.store.revoke(&revocation).await?;
    app.issuer.revocations.add(revocation);
    app.audit
        .record_done(&caller, None, || Decision::LinksRevoked { session });
    Ok(StatusCode::NO_CONTENT)
}

/// Of a page that nobody has logged in at: the link is what it has.
pub async fn open(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response<Body>, GatewayError> {
    let is_ours = app
        .config
        .origins
        .is_vouched_for(request.uri(), request.headers());
    if !is_ours {
        return Err(GatewayError::Origin);
    }
    let link: PresentedLink = body(request).await?;
    let grant = verify(&app, &link.token).ok_or(GatewayError::Unauthenticated)?;
    let login = guest::login(&grant);
    let now = unix_seconds();
    let signed = app.issuer.keys.ring().sign_login(&login);
    let (left, read) = (login.expires.saturating_sub(now), app.issuer.sign(&grant));
    let guest = guest::recall(&login).ok_or(GatewayError::Unauthenticated)?;
    app.audit.record_done(&guest, None, || Decision::Login {});
    let mut response = answer(&json!({
        "sessionId": grant.session,
        "expiresAt": moment(login.expires),
    }));
    for cookie in [
        carriers::set_login(&signed, left),
        carriers::set_cookie(&grant.session, &read, left),
    ] {
        let mut value = HeaderValue::from_str(&cookie).expect("a cookie is visible ASCII");
        value.set_sensitive(true);
        response.headers_mut().append(header::SET_COOKIE, value);
    }
    Ok(response)
}

/// Forged, expired, revoked, or no link: nobody learns which.
fn verify(app: &App, token: &str) -> Option<SessionGrant> {
    let grant = app.issuer.keys.ring().verify_session(token).ok()?;
    let session = Some((&grant.session, grant.issued));
    let revocations = &app.issuer.revocations;
    let is_revoked = revocations.is_revoked(&grant.principal, None, session)
        || revocations.is_revoked(grant.owner(), None, session)
        || revocations.is_family_revoked(&grant.family, grant.generation);
    (guest::is_link(&grant) && !is_revoked && !app.auth.is_open()).then_some(grant)
}

/// One that the caller may do everything with. Where nobody is asked who they are a link would
/// give no more than everybody has.
async fn own_session(app: &App, caller: &Caller, id: &str) -> Result<SessionId, GatewayError> {
    caller.require_control()?;
    let session = SessionId::parse(id).ok_or(GatewayError::NoSession)?;
    let record = app.store.record(&session, &caller.principal).await?;
    let record = record.filter(|record| caller.rights().allow(&record.agent));
    if record.is_none() || app.auth.is_open() {
        return Err(GatewayError::NoSession);
    }
    Ok(session)
}

async fn body<T: serde::de::DeserializeOwned>(request: Request) -> Result<T, GatewayError> {
    headers::require(request.headers(), headers::JSON)?;
    let body: Bytes = to_bytes(request.into_body(), MAX_BODY)
        .await
        .map_err(|_| GatewayError::TooLarge)?;
    serde_json::from_slice(&body).map_err(|error| GatewayError::NotJson(error.to_string()))
}

fn moment(seconds: u64) -> String {
    let time = UNIX_EPOCH + Duration::from_secs(seconds);
    humantime::format_rfc3339_seconds(time).to_string()
}

fn answer(body: &serde_json::Value) -> Response<Body> {
    let kind = HeaderValue::from_static(headers::JSON);
    ([(header::CONTENT_TYPE, kind)], body.to_string()).into_response()
}
