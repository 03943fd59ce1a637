//! The middleware of every request and every answer.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::app::App;
use crate::audit;
use crate::auth::{self, IdentifiedCaller};
use crate::error::GatewayError;
use crate::http::hardening::harden;
use crate::metrics;
use crate::net::connection::ConnectionInfo;
use crate::net::peer::ClientPeer;
use crate::net::proxies::ResolvedPeer;
use crate::stream::stall::StallWatch;
use crate::trace;

/// One layer for all of it: each of axum's costs every request a copy of all that are below.
pub async fn public_routes(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let app = &*app;
    let identify = async |request| match identify(app, request, next).await {
        Ok(response) => response,
        Err(reject) => reject.into_response(),
    };
    let check_origin = async |request| check_origin(app, request, identify).await;
    let track_open_request = async |request| track_open_request(app, request, check_origin).await;
    let record = async |request| audit::record_refusals(app, request, track_open_request).await;
    let measure = async |request| metrics::measure(app, request, record).await;
    trace::request(app, request, measure).await
}

/// The peer is resolved before anything depends on it, and every answer gets the security headers.
pub async fn resolve_peer(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    let link = request
        .extensions()
        .get::<ConnectionInfo>()
        .map(|link| link.peer);
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

/// A gateway that stops waits for what is under way.
async fn track_open_request(
    app: &App,
    request: Request,
    next: impl AsyncFnOnce(Request) -> Response,
) -> Response {
    let _open = app.drain.enter();
    let version = request.version();
    let link = request.extensions().get::<ConnectionInfo>().cloned();
    let mut response = next(request).await;
    if let (Some(link), Some(watch)) = (link, response.extensions_mut().remove::<Arc<StallWatch>>())
    {
        watch.is_on(link.gave_up);
    }
    // Balancers keep connections for later requests; those must find another gateway.
    let keeps_open =
        version == Version::HTTP_11 && response.status() != StatusCode::SWITCHING_PROTOCOLS;
    if keeps_open && app.drain.has_begun() {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    response
}

/// Every request says anew who makes it.
async fn identify(app: &App, request: Request, next: Next) -> Result<Response, GatewayError> {
    let (mut parts, body) = request.into_parts();
    let IdentifiedCaller { mut caller, once } = auth::identify(app, &parts).await?;
    caller.address = parts.extensions.get().map(|peer: &ClientPeer| peer.address);
    let own = app.auth.limits(&caller.principal);
    caller.allowance = app.accounts.of(&caller.principal, own.as_deref());
    // Requests of a flooding client are not even read.
    if let Some(allowance) = &caller.allowance {
        allowance.arrive()?;
    }
    if let Some(once) = once {
        once.spend(app).await?;
    }
    let known = app.config.audit.is_on().then(|| caller.clone());
    parts.extensions.insert(caller);
    let request = Request::from_parts(parts, body);
    let serve = async |request| next.run(request).await;
    let mut response = trace::continued(app, request, serve).await;
    if let Some(known) = known {
        response.extensions_mut().insert(known);
    }
    Ok(response)
}

/// Probes are open to whoever asks by the gateway's address or by one of its names.
pub async fn probe_routes(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let arrival = request.extensions().get::<ResolvedPeer>();
    let forwarded = arrival.map_or(&[][..], |arrival| &arrival.hosts);
    match app.config.origins.admit_probe(&request, forwarded) {
        Ok(()) => next.run(request).await,
        Err(reject) => reject.into_response(),
    }
}

/// Pages and names from elsewhere stay out; a page that may come in is told so.
pub async fn check_origin(
    app: &App,
    request: Request,
    next: impl AsyncFnOnce(Request) -> Response,
) -> Response {
    let origins = &app.config.origins;
    // There is none on the administrators' port.
    let arrival = request.extensions().get::<ResolvedPeer>();
    let forwarded = arrival.map_or(&[][..], |arrival| &arrival.hosts);
    if let Err(reject) = origins.admit(&request, forwarded) {
        return reject.into_response();
    }
    if app.config.transport.private_only && arrival.is_some_and(|it| !it.peer.is_private()) {
        return GatewayError::Cleartext.into_response();
    }
    let page = origins.page(&request);
    let asks = request.method() == Method::OPTIONS && page.is_some();
    let answer = asks.then(|| origins.preflight(request.headers())).flatten();
    let mut response = match answer {
        Some(answer) => answer,
        None => next(request).await,
    };
    origins.stamp(page.as_ref(), response.headers_mut());
    response
}
