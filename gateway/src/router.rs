//! All routes on one page.

use std::sync::Arc;

use axum::Router;
use axum::routing::{any, get};

use crate::app::App;
use crate::error::Reject;
use crate::handlers::{delete, post, probe, stream};

pub fn router(app: Arc<App>) -> Router {
    let acp = get(stream::get)
        .post(post::post)
        .delete(delete::delete)
        .fallback(|| async { Reject::Method });
    Router::new()
        .route("/acp", acp)
        .route("/healthz", get(probe::healthz))
        .route("/readyz", get(probe::readyz))
        .route("/metrics", get(probe::metrics))
        .fallback(any(|| async { Reject::NotFound }))
        .with_state(app)
}
