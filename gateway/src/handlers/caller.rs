//! `GET /v1/caller`: what the caller may do, for pages that show no more than that. And
//! `GET /v1/sessions/ID/worker`: who runs a session of the caller's now.

use std::sync::Arc;

use axum::extract::{Extension, Path, State};
use axum::http::header;
use axum::response::IntoResponse;
use baton_session::id::SessionId;
use serde_json::json;

use crate::app::App;
use crate::auth::{Caller, guest};
use crate::error::GatewayError;
use crate::http::headers;

pub async fn show(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Result<impl IntoResponse, GatewayError> {
    caller.count_request()?;
    let rights = caller.rights();
    let body = json!({
        "gateway": &*app.config.name,
        "observe": rights.observe,
        "admin": rights.admin || app.config.demo.is_some(),
        "shared": guest::session_of(&caller.principal),
        "login": caller.login.is_some(),
        "demo": app.config.demo.is_some(),
        // Where everybody is the same caller there is nobody to share with.
        "shares": !app.auth.is_open() && !rights.observe,
    });
    Ok(([(header::CONTENT_TYPE, headers::JSON)], body.to_string()))
}

pub async fn worker(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<impl IntoResponse, GatewayError> {
    caller.count_request()?;
    let session = SessionId::parse(&id).ok_or(GatewayError::NoSession)?;
    let worker = app.store.worker_of(&session, &caller.principal).await?;
    let body = json!({ "worker": worker.map(|worker| worker.0) });
    Ok(([(header::CONTENT_TYPE, headers::JSON)], body.to_string()))
}
