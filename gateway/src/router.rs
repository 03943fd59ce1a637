//! All routes on one page.

use std::sync::Arc;

use axum::routing::{any, get};
use axum::{Router, middleware};

use crate::app::App;
use crate::error::Reject;
use crate::handlers::{delete, post, probe, stream};
use crate::metrics;

pub fn router(app: Arc<App>) -> Router {
    let acp = get(stream::get)
        .post(post::post)
        .delete(delete::delete)
        .fallback(|| async { Reject::Method })
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
