//! The spans of a gateway: one for each request, or message on a WebSocket, and one where an answer
//! is delivered. Their attributes come from fixed lists and ids, never from the content: a client
//! may put anything anywhere, tokens included.

use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::Response;
use baton_protocol::{ErrorCode, Inbound};
use baton_session::id::{ConnectionId, SessionId};
use baton_session::route::DeliveryPath;
use baton_session::trace::{TARGET, TraceContext};
use rand::RngExt as _;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use crate::agents;
use crate::app::App;

/// The code of an error, on the response that carries it.
#[derive(Clone, Copy)]
pub struct ErrorCodeMark(pub ErrorCode);

/// Which requests and messages have spans.
#[derive(Clone, Copy, Debug, Default)]
pub enum TraceSampling {
    #[default]
    None,
    /// All, and whoever gets them decides which are recorded.
    All,
    /// Those of traces that are recorded elsewhere and, of those that would begin here, this share.
    /// Spans that are not exported are not created: that is most of the cost of traces.
    Recorded(f64),
}

impl TraceSampling {
    pub fn are_on(self) -> bool {
        !matches!(self, Self::None)
    }

    /// Whether to make a span, with this parent if there is one.
    fn want(self, parent: Option<&TraceContext>) -> bool {
        match (self, parent) {
            (Self::None, _) => false,
            (Self::All, _) => true,
            (Self::Recorded(_), Some(parent)) => parent.is_recorded(),
            (Self::Recorded(share), None) => rand::rng().random_bool(share),
        }
    }
}

/// Around everything else, if traces are made at all. A request that names a trace waits until its
/// caller is known ([`continued`]): strangers must not decide what is recorded.
pub async fn request(
    app: &App,
    request: Request,
    next: impl AsyncFnOnce(Request) -> Response,
) -> Response {
    let traces = app.config.traces;
    if !traces.are_on() || in_headers(request.headers()).is_some() || !traces.want(None) {
        return next(request).await;
    }
    let span = span(request.method(), request.uri());
    within(span, request, next).await
}

/// For a request of a known caller that is a part of somebody else's trace.
pub async fn continued(
    app: &App,
    request: Request,
    next: impl AsyncFnOnce(Request) -> Response,
) -> Response {
    let traces = app.config.traces;
    let parent = traces.are_on().then(|| in_headers(request.headers()));
    let Some(parent) = parent.flatten().filter(|parent| traces.want(Some(parent))) else {
        return next(request).await;
    };
    let span = span(request.method(), request.uri());
    parent.adopt(&span);
    let mut response = within(span.clone(), request, next).await;
    if let Some(place) = TraceContext::of(&span) {
        response.extensions_mut().insert(place);
    }
    response
}

async fn within(
    span: Span,
    request: Request,
    next: impl AsyncFnOnce(Request) -> Response,
) -> Response {
    let response = next(request).instrument(span.clone()).await;
    record_response(&span, &response);
    response
}

/// For a request that has no span, although its message belongs to a trace that is recorded.
pub fn span_from_message(app: &App, parts: &Parts, message: &Inbound) -> Span {
    let TraceSampling::Recorded(_) = app.config.traces else {
        return Span::none();
    };
    if !Span::current().is_none() || in_headers(&parts.headers).is_some() {
        return Span::none();
    }
    if in_message(message).is_some_and(|parent| parent.is_recorded()) {
        span(&parts.method, &parts.uri)
    } else {
        Span::none()
    }
}

/// The end of a request.
pub fn record_response(span: &Span, response: &Response) {
    if span.is_none() {
        return;
    }
    let status = response.status();
    span.record("http.response.status_code", i64::from(status.as_u16()));
    if let Some(ErrorCodeMark(code)) = response.extensions().get() {
        span.record("error.type", code.value().to_string());
    }
    if status.is_server_error() {
        span.record("otel.status_code", "ERROR");
    }
}

pub fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        Method::HEAD => "HEAD",
        _ => "_OTHER",
    }
}

fn span(method: &Method, uri: &Uri) -> Span {
    let method = self::method(method);
    let route = route(uri.path());
    tracing::info_span!(
        target: TARGET,
        parent: None,
        "request",
        otel.name = format!("{method} {route}"),
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = method,
        http.route = route,
        http.response.status_code = Empty,
        rpc.method = Empty,
        session.id = Empty,
        connection.id = Empty,
        error.type = Empty,
    )
}

/// A message on a WebSocket.
pub fn message(app: &App, connection: &ConnectionId, message: &Inbound) -> Span {
    let traces = app.config.traces;
    if !traces.are_on() || !traces.want(in_message(message).as_ref()) {
        return Span::none();
    }
    let span = tracing::info_span!(
        target: TARGET,
        parent: None,
        "message",
        otel.name = "WEBSOCKET /acp",
        otel.kind = "server",
        http.route = "/acp",
        rpc.method = Empty,
        session.id = Empty,
        connection.id = connection.as_str(),
        error.type = Empty,
    );
    record_message(&span, None, message);
    let session = message.session_id();
    if let Some(session) = session.and_then(SessionId::parse) {
        span.record("session.id", session.as_str());
    }
    span
}

/// The routes that are traced, each by one name.
pub fn route(path: &str) -> &'static str {
    match path {
        agents::PATH => agents::PATH,
        // Whichever agent the path names.
        path if path.starts_with("/acp/") => agents::AGENT_ROUTE,
        "/v1/agents" => "/v1/agents",
        "/v1/sessions/import" => "/v1/sessions/import",
        "/v1/tickets" => "/v1/tickets",
        "/v1/login" => "/v1/login",
        "/v1/logout" => "/v1/logout",
        _ => "/v1/sessions/{id}/export",
    }
}

fn in_headers(headers: &HeaderMap) -> Option<TraceContext> {
    let text = |name| headers.get(name)?.to_str().ok();
    TraceContext::read(text("traceparent")?, text("tracestate").unwrap_or_default())
}

fn in_message(message: &Inbound) -> Option<TraceContext> {
    let (parent, state) = message.trace_context()?;
    TraceContext::read(&parent, &state.unwrap_or_default())
}

/// The span of what is under way here; none, unless traces are made.
pub fn current(app: &App) -> Span {
    if app.config.traces.are_on() {
        Span::current()
    } else {
        Span::none()
    }
}

/// Before anything comes of the message. Headers were written nearer to here than what is in the
/// message, so where they tell of different traces the message's is only linked.
pub fn record_message(span: &Span, headers: Option<&HeaderMap>, message: &Inbound) {
    if span.is_none() {
        return;
    }
    if let Some(method) = message.method() {
        span.record("rpc.method", method.label());
    }
    let Some(parent) = in_message(message) else {
        return;
    };
    match headers.and_then(in_headers) {
        None => parent.adopt(span),
        Some(nearer) if nearer == parent => {}
        Some(_) => parent.link(span),
    }
}

/// The caller, once it is verified.
pub fn record_ids(app: &App, session: Option<&str>, connection: &ConnectionId) {
    let span = current(app);
    if span.is_none() {
        return;
    }
    span.record("connection.id", connection.as_str());
    if let Some(session) = session.and_then(SessionId::parse) {
        span.record("session.id", session.as_str());
    }
}

/// The request is answered with an error.
pub fn record_error(app: &App, code: ErrorCode) {
    let span = current(app);
    if !span.is_none() {
        span.record("error.type", code.value().to_string());
    }
}

/// An answer goes out to its client, on whichever gateway holds the stream.
pub fn record_delivery(
    trace: Option<&TraceContext>,
    session: &SessionId,
    connection: &ConnectionId,
    via: DeliveryPath,
) {
    let Some(trace) = trace else { return };
    let span = tracing::info_span!(
        target: TARGET,
        parent: None,
        "deliver",
        otel.kind = "producer",
        session.id = session.as_str(),
        connection.id = connection.as_str(),
        stream = match via {
            DeliveryPath::Session => "session",
            DeliveryPath::Connection => "connection",
            DeliveryPath::OneShot => "one_shot",
        },
    );
    trace.adopt(&span);
}
