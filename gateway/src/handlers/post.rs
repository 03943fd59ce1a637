//! POST: one JSON-RPC message. Acknowledged as soon as it is durable in the store, never held open;
//! with `Accept: text/event-stream` the body carries the events of this one request.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use axum::response::IntoResponse;
use baton_protocol::method::SessionEffect;
use baton_protocol::{Inbound, Method};
use baton_session::id::{LogId, SessionId};
use baton_session::route::DeliveryPath;
use baton_session::store::Attachment;
use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::timeout;
use tracing::Instrument as _;

use super::initialize::initialize;
use super::message::{self, MessageCarrier, MessageReply, MessageSource};
use crate::access::stream_authority::StreamAuthority;
use crate::access::{self, RequestAccess};
use crate::app::App;
use crate::auth::Caller;
use crate::error::GatewayError;
use crate::http::headers::{self, AcceptedTypes};
use crate::http::{body, paths};
use crate::limits::{InflightReservation, LimitRefusal};
use crate::methods::MethodOutcome;
use crate::stream::log_tail::LogTail;
use crate::stream::one_shot::OneShotFeed;
use crate::stream::session_feed::{FeedReader, FeedStart, SessionFeed};
use crate::stream::single_answer::SingleAnswer;
use crate::stream::sse;
use crate::trace;

/// A body that keeps coming, but slowly, may take so many times as long as one may pause.
const BODY_TIMEOUTS: u32 = 4;

pub async fn post(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request<Body>,
) -> Result<Response<Body>, GatewayError> {
    let app = &app;
    let (parts, body) = request.into_parts();
    let accepts = check_types(&parts.headers)?;
    let ReceivedBody {
        bytes,
        over_bytes,
        _reserved,
    } = receive(app, &caller, &parts.headers, body).await?;
    let inbound = Inbound::read(bytes)?;
    let span = trace::span_from_message(app.config.traces, &parts, &inbound);
    let handled = handle_message(app, &caller, &parts, inbound, accepts, over_bytes);
    let response = handled.instrument(span.clone()).await.into_response();
    trace::record_response(&span, &response);
    Ok(response)
}

/// A body within the budgets, which it takes part of until it is dropped.
pub(super) struct ReceivedBody {
    pub bytes: Bytes,
    /// Too much has come of this caller before.
    pub over_bytes: Option<LimitRefusal>,
    pub _reserved: InflightReservation,
}

pub(super) fn check_types(headers: &HeaderMap) -> Result<AcceptedTypes, GatewayError> {
    if !headers::is_json(headers) {
        return Err(GatewayError::ContentType(headers::JSON));
    }
    let accepts = headers::accepts(headers);
    if !accepts.json && !accepts.event_stream && !accepts.anything {
        return Err(GatewayError::Accept(
            "application/json or text/event-stream",
        ));
    }
    Ok(accepts)
}

pub(super) async fn receive(
    app: &App,
    caller: &Caller,
    headers: &HeaderMap,
    body: Body,
) -> Result<ReceivedBody, GatewayError> {
    let body_timeout = app.config.transport.request_timeout * BODY_TIMEOUTS;
    let mut reservation = app.inflight.of(&caller.principal);
    let read = timeout(body_timeout, body::read(headers, body, &mut reservation)).await;
    let bytes = read.unwrap_or(Err(GatewayError::Slow))?;
    let allowance = caller.allowance.as_ref();
    let over_bytes = allowance.and_then(|allowance| allowance.receive(bytes.len()));
    Ok(ReceivedBody {
        bytes,
        over_bytes,
        _reserved: reservation,
    })
}

/// A message that could be read.
async fn handle_message(
    app: &Arc<App>,
    caller: &Caller,
    parts: &Parts,
    mut inbound: Inbound,
    accepts: AcceptedTypes,
    over_bytes: Option<LimitRefusal>,
) -> Result<Response<Body>, GatewayError> {
    let headers = &parts.headers;
    trace::record_message(&trace::current(app.config.traces), Some(headers), &inbound);
    let agent = paths::agent_in_path(&parts.uri);
    let method = inbound.method();
    if method == Some(Method::Initialize) {
        return open_connection(app, caller, &inbound, agent, over_bytes).await;
    }
    let source = MessageSource {
        caller,
        agent,
        over_bytes,
        carrier: MessageCarrier::Post {
            headers,
            one_shot: accepts.event_stream,
        },
    };
    let handled = message::handle(app, source, &mut inbound).await?;
    let access = &handled.access;
    let mut response = match handled.reply {
        MessageReply::OnStream => accepted(),
        MessageReply::InBody(outcome, permit) => {
            let authority = StreamAuthority::of(caller)
                .on(&access.connection)
                .with(permit);
            one_shot(app, authority, access, outcome, headers).await?
        }
    };
    let answer = response.headers_mut();
    add_retry_after(handled.refusal, answer);
    let browser = headers.contains_key(header::ORIGIN);
    let ends = method.is_some_and(|method| method.rules().effect == SessionEffect::Ends);
    if ends && browser {
        let header = headers::single(headers, &headers::SESSION_ID)?;
        let session = inbound.session_id().or(header).and_then(SessionId::parse);
        session.inspect(|session| access::clear_cookie(session, answer));
    }
    match handled.opens {
        Some(session) => app.access.stamp_token(&session, access, browser, answer),
        None => app.access.renew_token(access, browser, answer).await,
    }
    Ok(response)
}

/// A caller at a limit learns from the answer itself when to try again, and from this header as
/// well.
fn add_retry_after(refusal: Option<LimitRefusal>, answer: &mut HeaderMap) {
    let wait = refusal.and_then(|refusal| refusal.retry_after());
    answer.extend(wait.map(|wait| (header::RETRY_AFTER, wait)));
}

/// Without a body length a Node client drops the TCP connection instead of using it again.
pub(super) fn accepted() -> Response<Body> {
    (StatusCode::ACCEPTED, [(header::CONTENT_LENGTH, "0")]).into_response()
}

async fn open_connection(
    app: &App,
    caller: &Caller,
    message: &Inbound,
    agent: Option<&str>,
    over_bytes: Option<LimitRefusal>,
) -> Result<Response<Body>, GatewayError> {
    let opened = initialize(app, caller, message, agent, None, over_bytes).await?;
    trace::record_ids(app.config.traces, None, &opened.connection.id);
    let mut response = Response::new(Body::from(opened.answer));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let token = HeaderValue::from_str(opened.token.expose()).expect("a token is visible ASCII");
    headers.insert(headers::CONNECTION_ID, token);
    add_retry_after(opened.refusal, headers);
    Ok(response)
}

async fn one_shot(
    app: &Arc<App>,
    authority: StreamAuthority,
    access: &RequestAccess,
    outcome: MethodOutcome,
    headers: &HeaderMap,
) -> Result<Response<Body>, GatewayError> {
    let after = headers::single(headers, &headers::LAST_EVENT_ID)?.filter(|cursor| *cursor != "0");
    Ok(match outcome {
        MethodOutcome::Taken => accepted(),
        MethodOutcome::Answer(answer) => {
            let known = SingleAnswer::new(answer.into_message());
            sse::respond(app.streams.clone(), known, authority, None, None)
        }
        MethodOutcome::Follow(follow) | MethodOutcome::Created(follow) => {
            let authority = authority.reading(&follow.session);
            let seen = after.and_then(|cursor| cursor.parse().ok());
            let feed = OneShotFeed::open(&app.streams, follow, seen).await?;
            if after.is_some() {
                app.metrics.resumed("one_shot");
            }
            sse::respond(app.streams.clone(), feed, authority, None, None)
        }
        MethodOutcome::Attached(session, attachment) => {
            let authority = authority.reading(&session);
            let feed = history(app, access, session, *attachment).await?;
            sse::respond(app.streams.clone(), feed, authority, None, None)
        }
    })
}

/// A load or resume in one body: the history if asked for, then the answer.
async fn history(
    app: &Arc<App>,
    access: &RequestAccess,
    session: SessionId,
    attachment: Attachment,
) -> Result<SessionFeed, GatewayError> {
    let log = LogId::Session(session.clone());
    let tail = LogTail::open(&app.streams, &log, Arc::new(Notify::new())).await?;
    let reader = FeedReader {
        session,
        connection: access.connection.id.clone(),
        principal: access.connection.principal.clone(),
        scope: access.scope(),
        via: DeliveryPath::OneShot,
        turn_notices: false,
        holder: None,
    };
    Ok(SessionFeed::open(&app.streams, reader, tail, attachment, FeedStart::Directive).await?)
}
