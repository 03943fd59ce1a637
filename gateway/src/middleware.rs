//! The layers around every request and every answer. Each route has its stack in `router.rs`; the
//! order of the layers is that of `observe`, `admit` and `identify`, each of which calls the next.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use baton_session::store::AgentCard;
use baton_session::trace::TraceContext;
use tracing::Instrument as _;

use crate::app::App;
use crate::auth::IdentifiedCaller;
use crate::error::GatewayError;
use crate::http::hardening::harden;
use crate::http::origins::RequestingPage;
use crate::http::{headers, paths};
use crate::limits::LimitRefusal;
use crate::metrics::RequestTimer;
use crate::net::connection::ConnectionInfo;
use crate::net::peer::ClientPeer;
use crate::net::proxies::ResolvedPeer;
use crate::responses::fault;
use crate::stream::stall::StallWatch;
use crate::trace;

/// Outermost, around all routes: nothing is decided before the client's address is known, and every
/// answer gets the security headers.
pub async fn resolve_peer(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    let connection = request.extensions().get::<ConnectionInfo>();
    let nearest = connection.map(|connection| connection.peer);
    let proxies = &app.config.transport.proxies;
    let resolved = nearest.map(|peer| proxies.arrival(peer, request.headers()));
    let (mut response, secure) = match resolved {
        None => (next.run(request).await, false),
        Some(Err(error)) => (error.into_response(), false),
        Some(Ok(resolved)) => {
            let secure = resolved.peer.secure;
            request.extensions_mut().insert(resolved.peer);
            request.extensions_mut().insert(resolved);
            (next.run(request).await, secure)
        }
    };
    harden(response.headers_mut(), secure);
    let name = HeaderValue::from_str(&app.config.name);
    let name = name.map(|name| (headers::GATEWAY, name));
    response.headers_mut().extend(name);
    response
}

/// Around the routes of clients. One layer for all of it: each of axum's costs every request a copy
/// of all that are below.
pub async fn public_routes(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    // The span is around everything that it has to tell of.
    let span = trace::request_span(app.config.traces, &request);
    let has_own_form = fault::is_ours(request.uri().path());
    let response = observe(&app, Admission::Caller, request, next);
    let response = response.instrument(span.clone()).await;
    trace::record_response(&span, &response);
    if has_own_form {
        fault::in_own_form(response)
    } else {
        response
    }
}

/// Around the routes of those who are about to say who they are.
pub async fn login_routes(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let span = trace::request_span(app.config.traces, &request);
    let response = observe(&app, Admission::Stranger, request, next);
    let response = response.instrument(span.clone()).await;
    trace::record_response(&span, &response);
    response
}

/// Who is admitted to a route.
#[derive(Clone, Copy)]
enum Admission {
    Caller,
    /// Nobody knows who it is.
    Stranger,
}

/// Nothing refuses a request before this, so that all that are refused are counted and recorded.
async fn observe(app: &App, admission: Admission, request: Request, next: Next) -> Response {
    // Also a request whose client does not wait for the answer is timed: it ends by a drop.
    let mut timer = RequestTimer::start(&app.metrics, request.method());
    let audited = app.audit.watch(&request);
    // A gateway that stops waits for what is under way.
    let _open = app.drain.enter();
    let version = request.version();
    let peer = request.extensions().get::<ClientPeer>().copied();
    let connection = request.extensions().get::<ConnectionInfo>().cloned();

    let mut response = admit(app, admission, request, next).await;

    watch_for_stall(connection, &mut response);
    close_if_draining(app, version, &mut response);
    app.audit.record_refusal(audited, &response);
    count_refusal(app, peer, &response);
    let continued = response.extensions().get::<TraceContext>().cloned();
    let trace = continued.or_else(|| TraceContext::of(&trace::current(app.config.traces)));
    timer.record(response.status(), trace);
    response
}

/// Pages and names from elsewhere stay out, for every caller; so this comes before the caller
/// is identified. A page that may come in is told so, also with a refusal.
async fn admit(app: &App, admission: Admission, request: Request, next: Next) -> Response {
    let page = match check_origin(app, &request) {
        Ok(page) => page,
        Err(error) => return error.into_response(),
    };
    let mut response = match preflight(app, page.as_ref(), &request) {
        Some(answer) => answer,
        None => match admission {
            Admission::Stranger => next.run(request).await,
            Admission::Caller => identify(app, request, next)
                .await
                .unwrap_or_else(IntoResponse::into_response),
        },
    };
    app.config
        .origins
        .stamp(page.as_ref(), response.headers_mut());
    response
}

/// Every request says anew who makes it.
async fn identify(app: &App, request: Request, next: Next) -> Result<Response, GatewayError> {
    let (mut parts, body) = request.into_parts();
    let IdentifiedCaller { mut caller, once } = app.auth.identify(&parts).await?;
    caller.address = parts.extensions.get().map(|peer: &ClientPeer| peer.address);
    let own = app.auth.method.limits(&caller.principal);
    caller.allowance = app.accounts.of(&caller.principal, own.as_deref());
    // Requests of a flooding client are not even read.
    if let Some(allowance) = &caller.allowance {
        allowance.arrive()?;
    }
    // This costs the store something, so it comes after everything that may speak against the
    // request.
    if let Some(once) = once {
        app.auth.spend(once).await?;
    }
    let known = app.audit.log.is_on().then(|| caller.clone());
    parts.extensions.insert(caller);
    let request = Request::from_parts(parts, body);
    // A trace that a client names is continued only for a caller who is known.
    let mut response = match trace::continued_span(app.config.traces, &request) {
        None => next.run(request).await,
        Some(span) => {
            let mut response = next.run(request).instrument(span.clone()).await;
            trace::record_response(&span, &response);
            if let Some(place) = TraceContext::of(&span) {
                response.extensions_mut().insert(place);
            }
            response
        }
    };
    if let Some(known) = known {
        response.extensions_mut().insert(known);
    }
    Ok(response)
}

/// The page that makes the request, if a browser names one. Also for administrators, whose
/// connections have no resolved peer.
pub fn check_origin(app: &App, request: &Request) -> Result<Option<RequestingPage>, GatewayError> {
    let origins = &app.config.origins;
    let resolved = request.extensions().get::<ResolvedPeer>();
    let forwarded = resolved.map_or(&[][..], |resolved| &resolved.hosts);
    origins.admit(request, forwarded)?;
    if app.config.transport.private_only && resolved.is_some_and(|it| !it.peer.is_private()) {
        return Err(GatewayError::Cleartext);
    }
    Ok(origins.page(request))
}

/// The answer to a browser's question whether a page may make a request.
pub fn preflight(app: &App, page: Option<&RequestingPage>, request: &Request) -> Option<Response> {
    let asks = request.method() == Method::OPTIONS && page.is_some();
    asks.then(|| app.config.origins.preflight(request.headers()))
        .flatten()
}

/// A stream's stall watch learns from the connection whether its client has stopped reading.
fn watch_for_stall(connection: Option<ConnectionInfo>, response: &mut Response) {
    let watch = response.extensions_mut().remove::<Arc<StallWatch>>();
    if let (Some(connection), Some(watch)) = (connection, watch) {
        watch.is_on(connection.gave_up);
    }
}

/// Balancers keep connections for later requests; those must find another gateway.
fn close_if_draining(app: &App, version: Version, response: &mut Response) {
    let keeps_open =
        version == Version::HTTP_11 && response.status() != StatusCode::SWITCHING_PROTOCOLS;
    if keeps_open && app.drain.has_begun() {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
}

fn count_refusal(app: &App, peer: Option<ClientPeer>, response: &Response) {
    if let Some(refusal) = response.extensions().get::<LimitRefusal>() {
        app.metrics.limited(refusal.limit);
    }
    let status = response.status();
    if status.is_client_error() || status.is_server_error() {
        let peer = peer.map(|peer| tracing::field::display(peer.address));
        tracing::debug!(status = status.as_u16(), peer, "refused a request");
    }
}

/// Around the probes, which are open to every client that uses the gateway's address or one of its
/// names.
pub async fn probe_routes(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let resolved = request.extensions().get::<ResolvedPeer>();
    let forwarded = resolved.map_or(&[][..], |resolved| &resolved.hosts);
    match app.config.origins.admit_probe(&request, forwarded) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

/// Around the console, which is for everybody who may address the gateway as its clients do.
pub async fn page_routes(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    match check_origin(&app, &request) {
        Err(error) => error.into_response(),
        Ok(page) => {
            let mut response = next.run(request).await;
            let headers = response.headers_mut();
            app.config.origins.stamp(page.as_ref(), headers);
            response
        }
    }
}

/// Around the routes of agents: a segment that is no valid name matches none. A token in its place
/// is not looked up.
pub async fn check_agent_name(request: Request, next: Next) -> Result<Response, GatewayError> {
    match paths::agent_in_path(request.uri()) {
        Some(name) if !AgentCard::is_name(name) => Err(GatewayError::NotFound),
        _ => Ok(next.run(request).await),
    }
}
