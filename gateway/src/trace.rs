//! The spans of a gateway: one for each request, or message on a WebSocket, and one where an answer
//! is delivered. Their attributes come from fixed lists and ids, never from the content: a client
//! may put anything anywhere, tokens included.

use axum::extract::{MatchedPath, Request};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, Method};
use axum::response::Response;
use baton_protocol::{ErrorCode, Inbound};
use baton_session::id::{ConnectionId, SessionId};
use baton_session::route::DeliveryPath;
use baton_session::trace::{TARGET, TraceContext};
use rand::RngExt as _;
use tracing::Span;
use tracing::field::Empty;

use crate::error::ErrorCodeMark;

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

/// The span of a request, if one is made. A request that names a trace waits until its caller is
/// known ([`continued_span`]): strangers must not decide what is recorded.
pub fn request_span(traces: TraceSampling, request: &Request) -> Span {
    if !traces.are_on() || in_headers(request.headers()).is_some() || !traces.want(None) {
        return Span::none();
    }
    span(request.method(), request.extensions())
}

/// The span of a known caller's request that is a part of somebody else's trace.
pub fn continued_span(traces: TraceSampling, request: &Request) -> Option<Span> {
    let parent = traces.are_on().then(|| in_headers(request.headers()));
    let parent = parent
        .flatten()
        .filter(|parent| traces.want(Some(parent)))?;
    let span = span(request.method(), request.extensions());
    parent.adopt(&span);
    Some(span)
}

/// For a request that has no span, although its message belongs to a trace that is recorded.
pub fn span_from_message(traces: TraceSampling, parts: &Parts, message: &Inbound) -> Span {
    let TraceSampling::Recorded(_) = traces else {
        return Span::none();
    };
    if !Span::current().is_none() || in_headers(&parts.headers).is_some() {
        return Span::none();
    }
    if in_message(message).is_some_and(|parent| parent.is_recorded()) {
        span(&parts.method, &parts.extensions)
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

fn span(method: &Method, extensions: &Extensions) -> Span {
    let method = self::method(method);
    let route = extensions.get().map_or("", MatchedPath::as_str);
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
pub fn message_span(traces: TraceSampling, connection: &ConnectionId, message: &Inbound) -> Span {
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

fn in_headers(headers: &HeaderMap) -> Option<TraceContext> {
    let text = |name| headers.get(name)?.to_str().ok();
    TraceContext::read(text("traceparent")?, text("tracestate").unwrap_or_default())
}

fn in_message(message: &Inbound) -> Option<TraceContext> {
    let (parent, state) = message.trace_context()?;
    TraceContext::read(&parent, &state.unwrap_or_default())
}

/// The span of what is under way here; none, unless traces are made.
pub fn current(traces: TraceSampling) -> Span {
    if traces.are_on() {
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
pub fn record_ids(traces: TraceSampling, session: Option<&str>, connection: &ConnectionId) {
    let span = current(traces);
    if span.is_none() {
        return;
    }
    span.record("connection.id", connection.as_str());
    if let Some(session) = session.and_then(SessionId::parse) {
        span.record("session.id", session.as_str());
    }
}

/// The request is answered with an error.
pub fn record_error(traces: TraceSampling, code: ErrorCode) {
    let span = current(traces);
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
