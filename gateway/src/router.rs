//! All routes on one page.

use std::sync::Arc;

use axum::routing::{any, delete as delete_method, get, post};
use axum::{Router, middleware};
use tower_http::timeout::RequestBodyTimeoutLayer;

use crate::app::App;
use crate::auth::oidc::CALLBACK;
use crate::error::GatewayError;
use crate::handlers::{
    agents as listed, archive, console, delete, login, mcp, post as message, probe, responses,
    sessions, stream, tickets,
};
use crate::handlers::{caller, links, oidc, operator};
use crate::http::paths;
use crate::middleware as layers;

pub fn router(app: Arc<App>) -> Router {
    let acp = get(stream::get)
        .post(message::post)
        .delete(delete::delete)
        // A HEAD would otherwise open a stream, and take it from its client.
        .head(|| async { GatewayError::Method })
        .fallback(|| async { GatewayError::Method });
    let mcp = get(mcp::get)
        .post(mcp::post)
        .delete(mcp::delete)
        .head(|| async { GatewayError::Method })
        .fallback(|| async { GatewayError::Method });
    let body_timeout = app.config.transport.request_timeout;
    let probes = Router::new()
        .route("/healthz", get(probe::healthz))
        .route("/readyz", get(probe::readyz))
        .route("/metrics", get(probe::metrics))
        .route("/.well-known/jwks.json", get(probe::jwks))
        // A page that made its own name point here must not read them.
        .layer(middleware::from_fn_with_state(
            app.clone(),
            layers::probe_routes,
        ));
    let pages = if app.config.console {
        console_routes(&app)
    } else {
        Router::new()
    };
    Router::new()
        .route(paths::ACP, acp.clone())
        .route(
            paths::AGENT_ROUTE,
            acp.layer(middleware::from_fn(layers::check_agent_name)),
        )
        .route(
            "/v1/responses",
            post(responses::create).fallback(|| async { GatewayError::Method }),
        )
        .route(
            "/v1/responses/{id}",
            get(responses::retrieve)
                .delete(responses::delete)
                .head(|| async { GatewayError::Method })
                .fallback(|| async { GatewayError::Method }),
        )
        .route("/v1/responses/{id}/cancel", post(responses::cancel))
        .route(
            "/v1/responses/{id}/input_items",
            get(responses::input_items),
        )
        .route("/v1/models", get(responses::models))
        .route("/v1/models/{name}", get(responses::model))
        .route(paths::MCP, mcp.clone())
        .route(
            paths::MCP_AGENT_ROUTE,
            mcp.layer(middleware::from_fn(layers::check_agent_name)),
        )
        .route("/openapi.json", get(listed::openapi))
        .route("/v1/agents", get(listed::list))
        .route("/v1/sessions", get(sessions::list))
        .route("/v1/sessions/{id}", get(sessions::one))
        .route("/v1/sessions/{id}/turns", get(sessions::turns))
        .route("/v1/sessions/{id}/fork", post(sessions::fork))
        .route("/v1/sessions/{id}/export", get(archive::export))
        .route("/v1/sessions/import", post(archive::import))
        .merge(people_routes())
        .route("/v1/tickets", post(tickets::issue))
        .route("/v1/login", post(login::login))
        .route("/v1/logout", post(login::logout))
        .layer(RequestBodyTimeoutLayer::new(body_timeout))
        // Before anything else looks at the request, upgrades included.
        .layer(middleware::from_fn_with_state(
            app.clone(),
            layers::public_routes,
        ))
        .merge(login_routes(&app))
        .merge(probes)
        .merge(pages)
        .fallback(any(|| async { GatewayError::NotFound }))
        .layer(middleware::from_fn_with_state(
            app.clone(),
            layers::resolve_peer,
        ))
        .with_state(app)
}

/// For the console: what a page may show, who watches what, and the whole cluster.
fn people_routes() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/caller", get(caller::show))
        .route("/v1/sessions/{id}/worker", get(caller::worker))
        .route("/v1/shares", post(links::create))
        .route("/v1/shares/{id}", delete_method(links::revoke))
        .route("/v1/operator/cluster", get(operator::cluster))
        .route("/v1/operator/drain", post(operator::drain))
        .route("/v1/operator/revoke", post(operator::revoke))
        .route("/v1/operator/close", post(operator::close))
        .route("/v1/demo/kill", post(operator::kill))
}

/// Of callers who are still to say who they are.
fn login_routes(app: &Arc<App>) -> Router<Arc<App>> {
    Router::new()
        .route("/v1/login-methods", get(oidc::methods))
        .route("/v1/login/oidc", post(oidc::begin))
        .route(CALLBACK, get(oidc::callback))
        .route("/v1/shares/open", post(links::open))
        .layer(RequestBodyTimeoutLayer::new(
            app.config.transport.request_timeout,
        ))
        .layer(middleware::from_fn_with_state(
            app.clone(),
            layers::login_routes,
        ))
}

fn console_routes(app: &Arc<App>) -> Router<Arc<App>> {
    let page = get(console::page).fallback(|| async { GatewayError::ReadOnly });
    let asset = get(console::asset).fallback(|| async { GatewayError::ReadOnly });
    Router::new()
        .route("/", page)
        .route("/console/{*path}", asset)
        // They hold nothing of anybody, and ask who calls when they are there.
        .layer(middleware::from_fn_with_state(
            app.clone(),
            layers::page_routes,
        ))
}
