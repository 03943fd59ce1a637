//! `POST /v1/login` and `POST /v1/logout`: a cookie that stands for the credential, for pages.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use baton_session::audit::Decision;
use baton_session::clock::unix_seconds;
use baton_session::token::carriers;

use crate::app::App;
use crate::auth::{Caller, login};
use crate::error::GatewayError;
use crate::http::headers;

pub async fn login(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Result<Response<Body>, GatewayError> {
    headers::require(&headers, headers::JSON)?;
    caller.count_request()?;
    // Where nobody is asked there is nothing to remember.
    if app.auth.is_open() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let login = login::open(&app.auth, &caller);
    // Nor can one login be made of another: it would live on after a logout.
    if caller.login.is_some() || login.expires <= unix_seconds() {
        return Err(GatewayError::Unauthenticated);
    }
    let signed = app.issuer.keys.ring().sign_login(&login);
    app.audit.record_done(&caller, None, || Decision::Login {});
    let lifetime = login.expires.saturating_sub(login.issued);
    Ok(with_cookie(&carriers::set_login(&signed, lifetime)))
}

/// Its open streams end, too.
pub async fn logout(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Result<Response<Body>, GatewayError> {
    headers::require(&headers, headers::JSON)?;
    caller.count_request()?;
    if let Some(login) = login::of(&app.auth, &caller, &headers) {
        let revocation = login::end(&login);
        app.store.revoke(&revocation).await?;
        app.issuer.revocations.add(revocation);
        app.audit.record_done(&caller, None, || Decision::Logout {});
    }
    Ok(with_cookie(&carriers::clear_login()))
}

fn with_cookie(cookie: &str) -> Response<Body> {
    let mut value = HeaderValue::from_str(cookie).expect("a cookie is visible ASCII");
    value.set_sensitive(true);
    let headers = [
        (header::SET_COOKIE, value),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}
