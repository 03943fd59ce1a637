//! All routes on one page.

use std::sync::Arc;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use axum::routing::{any, get};
use axum::{Router, middleware};

use crate::app::App;
use crate::edge;
use crate::error::Reject;
use crate::handlers::{delete, post, probe, stream};
use crate::metrics;

pub fn router(app: Arc<App>) -> Router {
    let acp = get(stream::get)
        .post(post::post)
        .delete(delete::delete)
        // A HEAD would otherwise open a stream, and take it from its client.
        .head(|| async { Reject::Method })
        .fallback(|| async { Reject::Method })
        // Before anything else looks at the request, upgrades included.
        .layer(middleware::from_fn(check_origin))
        // What was refused is counted in one place, whoever refused it.
        .layer(middleware::from_fn_with_state(
            app.clone(),
            metrics::count_refusals,
        ));
    Router::new()
        .route("/acp", acp)
        .route("/healthz", get(probe::healthz))
        .route("/readyz", get(probe::readyz))
        .route("/metrics", get(probe::metrics))
        .fallback(any(|| async { Reject::NotFound }))
        .with_state(app)
}

async fn check_origin(request: Request, next: Next) -> Result<Response, Reject> {
    edge::check_origin(request.headers())?;
    Ok(next.run(request).await)
}
