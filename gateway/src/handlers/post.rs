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
use tokio::sync::Notify;
use tokio::time::timeout;
use tracing::Instrument as _;

use super::initialize::initialize;
use crate::agents;
use crate::app::App;
use crate::auth::Caller;
use crate::body;
use crate::dispatch::{self, Message, Outcome, dispatch};
use crate::edge::{self, Accepts};
use crate::error::Reject;
use crate::limits::Refusal;
use crate::pass::{self, Pass};
use crate::standing::Standing;
use crate::stream::one_shot::{Known, OneShotFeed};
use crate::stream::session_feed::{From, Reader, SessionFeed};
use crate::stream::sse;
use crate::trace;

/// A body that keeps coming, but slowly, may take so many times as long as one may pause.
const BODY_TIMEOUTS: u32 = 4;

pub async fn post(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request<Body>,
) -> Result<Response<Body>, Reject> {
    let app = &app;
    let (parts, body) = request.into_parts();
    let headers = &parts.headers;
    if !edge::is_json(headers) {
        return Err(Reject::ContentType(edge::JSON));
    }
    let accepts = edge::accepts(headers);
    if !accepts.json && !accepts.event_stream && !accepts.anything {
        return Err(Reject::Accept("application/json or text/event-stream"));
    }
    let patience = app.config.transport.request_timeout * BODY_TIMEOUTS;
    let mut reservation = app.inflight.of(&caller.principal);
    let read = timeout(patience, body::read(headers, body, &mut reservation)).await;
    let bytes = read.unwrap_or(Err(Reject::Slow))?;
    let allowance = caller.allowance.as_ref();
    let over = allowance.and_then(|allowance| allowance.receive(bytes.len()));
    let message = Inbound::read(bytes)?;
    let late = trace::late(app, &parts, &message);
    let taken = take(app, &caller, &parts, message, accepts, over);
    let response = taken.instrument(late.clone()).await.into_response();
    trace::answered(&late, &response);
    Ok(response)
}

/// A message that could be read.
async fn take(
    app: &Arc<App>,
    caller: &Caller,
    parts: &Parts,
    mut inbound: Inbound,
    accepts: Accepts,
    over: Option<Refusal>,
) -> Result<Response<Body>, Reject> {
    let headers = &parts.headers;
    let allowance = caller.allowance.as_ref();
    trace::about_message(&trace::current(app), Some(headers), &inbound);
    let method = inbound.method();
    if method == Some(Method::Initialize) {
        return open_connection(app, caller, &inbound, agents::named(&parts.uri), over).await;
    }
    let session_header = edge::single(headers, &edge::SESSION_ID)?;
    let token = inbound.take_session_token()?;
    let session = inbound.session_id().or(session_header);
    let pass = pass::pass(app, caller, headers, token.as_deref(), session)?;
    let message = Message {
        inbound: &inbound,
        session_header,
        agent: agents::named(&parts.uri),
        one_shot: accepts.event_stream,
        over,
    };
    let browser = headers.contains_key(header::ORIGIN);
    let is_request = inbound.is_request();
    if pass.alone && is_request && !accepts.event_stream {
        return Err(Reject::Accept(
            "text/event-stream: without a connection the answer comes in the body",
        ));
    }
    // A place in advance: who gets none has asked for nothing, and may ask again.
    let permit = match allowance.filter(|_| accepts.event_stream && is_request) {
        Some(allowance) => allowance.stream(|| None)?,
        None => None,
    };
    let outcome = dispatch(app, &pass, message).await?;
    let (opens, refusal) = (outcome.opens().cloned(), outcome.refusal());
    let mut response = if accepts.event_stream {
        let standing = Standing::of(caller).on(&pass.connection).with(permit);
        one_shot(app, standing, &pass, outcome, headers).await?
    } else {
        if let Outcome::Answer(answer) = outcome {
            dispatch::post_answer(app, &pass.connection, message, answer).await?;
        }
        accepted()
    };
    let answer = response.headers_mut();
    tell_when(refusal, answer);
    let ends = method.is_some_and(|method| method.rules().effect == SessionEffect::Ends);
    let ended = session
        .and_then(SessionId::parse)
        .filter(|_| ends && browser);
    if let Some(session) = ended {
        pass::clear(&session, answer);
    }
    match opens {
        Some(session) => pass::stamp(app, &session, &pass, browser, answer),
        None => pass::renew(app, &pass, browser, answer).await,
    }
    Ok(response)
}

/// A caller at a limit learns from the answer itself when to try again, and from this header as well.
fn tell_when(refusal: Option<Refusal>, answer: &mut HeaderMap) {
    let wait = refusal.and_then(|refusal| refusal.retry_after());
    answer.extend(wait.map(|wait| (header::RETRY_AFTER, wait)));
}

/// Without a body length a Node client drops the TCP connection instead of using it again.
fn accepted() -> Response<Body> {
    (StatusCode::ACCEPTED, [(header::CONTENT_LENGTH, "0")]).into_response()
}

async fn open_connection(
    app: &App,
    caller: &Caller,
    message: &Inbound,
    agent: Option<&str>,
    over: Option<Refusal>,
) -> Result<Response<Body>, Reject> {
    let opened = initialize(app, caller, message, agent, None, over).await?;
    trace::about(app, None, &opened.connection.id);
    let mut response = Response::new(Body::from(opened.answer));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let token = HeaderValue::from_str(opened.token.expose()).expect("a token is visible ASCII");
    headers.insert(edge::CONNECTION_ID, token);
    tell_when(opened.refusal, headers);
    Ok(response)
}

async fn one_shot(
    app: &Arc<App>,
    standing: Standing,
    pass: &Pass,
    outcome: Outcome,
    headers: &HeaderMap,
) -> Result<Response<Body>, Reject> {
    let after = edge::single(headers, &edge::LAST_EVENT_ID)?.filter(|cursor| *cursor != "0");
    Ok(match outcome {
        Outcome::Taken => accepted(),
        Outcome::Answer(answer) => {
            let known = Known::new(answer.into_message());
            sse::respond(app.clone(), known, standing, None, None)
        }
        Outcome::Follow(follow) | Outcome::Created(follow) => {
            let standing = standing.reading(&follow.session);
            let seen = after.and_then(|cursor| cursor.parse().ok());
            let feed = OneShotFeed::open(app, follow, seen).await?;
            if after.is_some() {
                app.metrics.resumed("one_shot");
            }
            sse::respond(app.clone(), feed, standing, None, None)
        }
        Outcome::Attached(session, attachment) => {
            let standing = standing.reading(&session);
            let feed = history(app, pass, session, *attachment).await?;
            sse::respond(app.clone(), feed, standing, None, None)
        }
    })
}

/// A load or resume in one body: the history if asked for, then the answer.
async fn history(
    app: &Arc<App>,
    pass: &Pass,
    session: SessionId,
    attachment: Attachment,
) -> Result<SessionFeed, Reject> {
    let wake = Arc::new(Notify::new());
    let subscription = app
        .hub
        .subscribe(&LogId::Session(session.clone()), wake.clone())
        .await?;
    let reader = Reader {
        session,
        connection: pass.connection.id.clone(),
        principal: pass.connection.principal.clone(),
        scope: pass.scope(),
        via: DeliveryPath::OneShot,
        holder: None,
    };
    Ok(SessionFeed::open(app, reader, subscription, wake, attachment, From::Directive).await?)
}
