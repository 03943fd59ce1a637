//! All routes on one page.

use std::sync::Arc;

use axum::routing::{any, get, post};
use axum::{Router, middleware};
use tower_http::timeout::RequestBodyTimeoutLayer;

use crate::agents;
use crate::app::App;
use crate::entrance;
use crate::error::Reject;
use crate::handlers::{
    agents as listed, archive, delete, login, post as message, probe, stream, tickets,
};

pub fn router(app: Arc<App>) -> Router {
    let acp = get(stream::get)
        .post(message::post)
        .delete(delete::delete)
        // A HEAD would otherwise open a stream, and take it from its client.
        .head(|| async { Reject::Method })
        .fallback(|| async { Reject::Method });
    let patience = app.config.transport.request_timeout;
    let probes = Router::new()
        .route("/healthz", get(probe::healthz))
        .route("/readyz", get(probe::readyz))
        .route("/metrics", get(probe::metrics))
        .route("/.well-known/jwks.json", get(probe::jwks))
        // A page that made its own name point here must not read them.
        .layer(middleware::from_fn_with_state(app.clone(), entrance::probe));
    Router::new()
        .route(agents::PATH, acp.clone())
        .route(
            agents::AGENT_ROUTE,
            acp.layer(middleware::from_fn(agents::by_name)),
        )
        .route("/v1/agents", get(listed::list))
        .route("/v1/sessions/{id}/export", get(archive::export))
        .route("/v1/sessions/import", post(archive::import))
        .route("/v1/tickets", post(tickets::issue))
        .route("/v1/login", post(login::login))
        .route("/v1/logout", post(login::logout))
        .layer(RequestBodyTimeoutLayer::new(patience))
        // Before anything else looks at the request, upgrades included.
        .layer(middleware::from_fn_with_state(app.clone(), entrance::pass))
        .merge(probes)
        .fallback(any(|| async { Reject::NotFound }))
        .layer(middleware::from_fn_with_state(
            app.clone(),
            entrance::receive,
        ))
        .with_state(app)
}
