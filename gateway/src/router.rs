//! All routes on one page.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get, post};
use axum::{Router, middleware};
use tower_http::timeout::RequestBodyTimeoutLayer;

use crate::agents;
use crate::app::App;
use crate::auth;
use crate::connection::Link;
use crate::edge::hardening::harden;
use crate::edge::proxies::Arrival;
use crate::error::Reject;
use crate::handlers::{
    agents as listed, archive, delete, login, post as message, probe, stream, tickets,
};
use crate::metrics;
use crate::stream::patience::Place;
use crate::trace;

pub fn router(app: Arc<App>) -> Router {
    let acp = get(stream::get)
        .post(message::post)
        .delete(delete::delete)
        // A HEAD would otherwise open a stream, and take it from its client.
        .head(|| async { Reject::Method })
        .fallback(|| async { Reject::Method });
    let patience = app.config.transport.request_timeout;
    let mut routes = Router::new()
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
        .layer(middleware::from_fn_with_state(app.clone(), identify))
        // Before anything else looks at the request, upgrades included.
        .layer(middleware::from_fn_with_state(app.clone(), admit))
        // A gateway that stops waits for what is under way.
        .layer(middleware::from_fn_with_state(app.clone(), attend))
        // In one place, whoever answers.
        .layer(middleware::from_fn_with_state(
            app.clone(),
            metrics::measure,
        ));
    // Who wants no traces does not pay for them.
    if app.config.traces.are_on() {
        routes = routes.layer(middleware::from_fn_with_state(app.clone(), trace::request));
    }
    routes
        .route("/healthz", get(probe::healthz))
        .route("/readyz", get(probe::readyz))
        .route("/metrics", get(probe::metrics))
        .route("/.well-known/jwks.json", get(probe::jwks))
        .fallback(any(|| async { Reject::NotFound }))
        .layer(middleware::from_fn_with_state(app.clone(), receive))
        .with_state(app)
}

/// Who is at the other end is settled before anything is decided by it, and no answer leaves without
/// what keeps browsers careful.
async fn receive(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let link = request.extensions().get::<Link>().map(|link| link.peer);
    let proxies = &app.config.transport.proxies;
    let (mut response, secure) = match link.map(|peer| proxies.arrival(peer, request.headers())) {
        None => (next.run(request).await, false),
        Some(Err(reject)) => (reject.into_response(), false),
        Some(Ok(arrival)) => {
            let secure = arrival.peer.secure;
            request.extensions_mut().insert(arrival.peer);
            request.extensions_mut().insert(arrival);
            (next.run(request).await, secure)
        }
    };
    harden(response.headers_mut(), secure);
    response
}

async fn attend(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let _open = app.drain.enter();
    let version = request.version();
    let link = request.extensions().get::<Link>().cloned();
    let mut response = next.run(request).await;
    if let (Some(link), Some(place)) = (link, response.extensions_mut().remove::<Arc<Place>>()) {
        place.is_on(link.gave_up);
    }
    // Balancers keep connections for later requests; those must find another gateway.
    let keeps = version == Version::HTTP_11 && response.status() != StatusCode::SWITCHING_PROTOCOLS;
    if keeps && app.drain.has_begun() {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    response
}

/// Every request says anew who makes it.
async fn identify(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Result<Response, Reject> {
    let (mut parts, body) = request.into_parts();
    let mut caller = auth::identify(&app, &parts).await?;
    let own = app.auth.limits(&caller.principal);
    caller.allowance = app.accounts.of(&caller.principal, own.as_deref());
    // Who floods us is not even read.
    if let Some(allowance) = &caller.allowance {
        allowance.arrive()?;
    }
    parts.extensions.insert(caller);
    Ok(next.run(Request::from_parts(parts, body)).await)
}

/// Pages and names from elsewhere stay out; a page that may come in is told so.
pub(crate) async fn admit(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let origins = &app.config.origins;
    // There is none on the administrators' port.
    let arrival = request.extensions().get::<Arrival>();
    let forwarded = arrival.map_or(&[][..], |arrival| &arrival.hosts);
    if let Err(reject) = origins.admit(&request, forwarded) {
        return reject.into_response();
    }
    if app.config.transport.private_only && arrival.is_some_and(|it| !it.peer.is_private()) {
        return Reject::Cleartext.into_response();
    }
    let origin = request.headers().get(header::ORIGIN).cloned();
    let asks = request.method() == Method::OPTIONS && origin.is_some();
    let answer = asks.then(|| origins.preflight(request.headers())).flatten();
    let mut response = match answer {
        Some(answer) => answer,
        None => next.run(request).await,
    };
    origins.stamp(origin.as_ref(), response.headers_mut());
    response
}
