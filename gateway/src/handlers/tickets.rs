//! `POST /v1/tickets`: something to open a WebSocket with, for pages.

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderValue, Response, header};
use axum::response::IntoResponse;
use baton_session::audit::Decision;
use baton_session::clock::unix_seconds;
use serde_json::json;

use crate::app::App;
use crate::auth::{Caller, ticket};
use crate::error::GatewayError;
use crate::http::headers;

pub async fn issue(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Result<Response<axum::body::Body>, GatewayError> {
    headers::require(&headers, headers::JSON)?;
    caller.count_request()?;
    let ticket = ticket::issue(&app.auth, &caller);
    // The credential is in its last moments: nothing can be made of it any more.
    if ticket.expires <= unix_seconds() {
        return Err(GatewayError::Unauthenticated);
    }
    app.audit
        .record_done(&caller, None, || Decision::TicketIssued {});
    let signed = app.issuer.keys.ring().sign_ticket(&ticket);
    let body = json!({
        "ticket": signed.expose(),
        "expiresIn": ticket.expires.saturating_sub(ticket.issued),
    });
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        ),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, body.to_string()).into_response())
}
