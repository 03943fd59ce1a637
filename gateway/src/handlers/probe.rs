//! Is it up, is it ready, what has it done.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;

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

pub async fn metrics(State(app): State<Arc<App>>) -> impl IntoResponse {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], app.metrics.render())
}
