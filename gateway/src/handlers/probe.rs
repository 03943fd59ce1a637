//! Probes: health, readiness, metrics, and the public keys.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;

use baton_session::metrics::{PAGE, page};

use crate::app::App;

/// The process runs.
pub async fn healthz() -> &'static str {
    "ok\n"
}

/// Requests can be served; if not, says what is waited for.
pub async fn readyz(State(app): State<Arc<App>>) -> impl IntoResponse {
    if app.drain.has_begun() {
        return (StatusCode::SERVICE_UNAVAILABLE, "draining\n".to_owned());
    }
    match app.store.ping().await {
        Ok(()) => (StatusCode::OK, "ready\n".to_owned()),
        Err(error) => (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("waiting for the store: {error}\n"),
        ),
    }
}

/// Public keys, so that a balancer can verify tokens and route by what they say.
pub async fn jwks(State(app): State<Arc<App>>) -> impl IntoResponse {
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        // No longer than keys take to change everywhere.
        (header::CACHE_CONTROL, "public, max-age=60"),
    ];
    (headers, app.issuer.keys.ring().public_jwks())
}

pub async fn metrics(State(app): State<Arc<App>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, PAGE)], page(&app.config.registry))
}
