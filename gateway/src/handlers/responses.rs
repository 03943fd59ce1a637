//! `/v1/responses` and `/v1/models`, for clients that speak Open Responses.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderName, HeaderValue, Request, Response, Uri, header};
use axum::response::IntoResponse as _;
use baton_protocol::header as names;
use bytes::Bytes;
use serde_json::Value;

use super::post::{ReceivedBody, receive};
use crate::access::stream_authority::StreamAuthority;
use crate::app::App;
use crate::auth::Caller;
use crate::error::{FaultKind, GatewayError, fault};
use crate::http::{headers, query};
use crate::responses::fault::invalid;
use crate::responses::feed::{ResponseFeed, ResponseForm};
use crate::responses::fold::ResponseFold;
use crate::responses::request::ResponseRequest;
use crate::responses::retrieve::KnownResponse;
use crate::responses::start::{ResponseStart, StartedResponse};
use crate::responses::{ResponseServices, models as agents};
use crate::stream::sse;
use crate::stream::writer::{StreamEnd, StreamWriter, WriterStep};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static(names::IDEMPOTENCY_KEY);

fn services(app: &App) -> ResponseServices<'_> {
    ResponseServices {
        store: &app.store,
        agents: &app.agents,
        methods: &app.methods,
        streams: &app.streams,
        default_cwd: &app.config.default_cwd,
    }
}

pub async fn create(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request<Body>,
) -> Result<Response<Body>, GatewayError> {
    let (parts, body) = request.into_parts();
    headers::require(&parts.headers, headers::JSON)?;
    caller.require_control()?;
    let received = receive(&app, &caller, &parts.headers, body).await?;
    let ReceivedBody {
        bytes,
        over_bytes,
        _reserved,
    } = received;
    let request = ResponseRequest::read(bytes)?;
    let key = headers::single(&parts.headers, &IDEMPOTENCY_KEY)?;
    let permit = match &caller.allowance {
        Some(allowance) => allowance.stream(|| None)?,
        None => None,
    };
    let start = ResponseStart::new(services(&app), &caller, &request, key, over_bytes);
    let StartedResponse {
        name,
        terms,
        access,
    } = start.run().await?;
    let authority = StreamAuthority::of(&caller).on(&access.connection);
    let authority = authority.with(permit).reading(&name.session);
    // Of a request that was made before, the log tells when that was.
    let terms = key.is_none().then_some(terms);
    if request.is_background() && !request.stream {
        let fold = ResponseFold::new(name, terms, None);
        return Ok(json(fold.object()));
    }
    if request.stream {
        let fold = ResponseFold::new(name.clone(), terms, Some(None));
        let feed = ResponseFeed::open(&app.streams, &name, fold, ResponseForm::Events).await?;
        return Ok(sse::respond_ready(app.streams.clone(), feed, authority));
    }
    let fold = ResponseFold::new(name.clone(), terms, None);
    let feed = ResponseFeed::open(&app.streams, &name, fold, ResponseForm::Object).await?;
    drop(_reserved);
    Ok(json(whole(&app, feed, authority).await?))
}

/// The object as it is, or with `?stream=true` its events, after `starting_after` if that is given.
pub async fn retrieve(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response<Body>, GatewayError> {
    caller.count_request()?;
    let wish = StreamQuery::read(uri.query().unwrap_or_default())?;
    let permit = match &caller.allowance {
        Some(allowance) if wish.stream => allowance.stream(|| None)?,
        _ => None,
    };
    let mut known = KnownResponse::find(services(&app), &caller, &id).await?;
    if !wish.stream {
        return Ok(json(known.read().await?.object()));
    }
    let authority = StreamAuthority::of(&caller).on(known.connection());
    let authority = authority.with(permit).reading(&known.name.session);
    let fold = known.fold(Some(wish.starting_after));
    let feed = ResponseFeed::open(&app.streams, &known.name, fold, ResponseForm::Events).await?;
    Ok(sse::respond_ready(app.streams.clone(), feed, authority))
}

/// Answers when it has ended.
pub async fn cancel(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response<Body>, GatewayError> {
    caller.count_request()?;
    caller.require_control()?;
    let mut known = KnownResponse::find(services(&app), &caller, &id).await?;
    known.cancel().await?;
    let authority = StreamAuthority::of(&caller).on(known.connection());
    let authority = authority.reading(&known.name.session);
    let fold = known.fold(None);
    let feed = ResponseFeed::open(&app.streams, &known.name, fold, ResponseForm::Object).await?;
    Ok(json(whole(&app, feed, authority).await?))
}

pub async fn delete(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response<Body>, GatewayError> {
    caller.count_request()?;
    caller.require_control()?;
    let mut known = KnownResponse::find(services(&app), &caller, &id).await?;
    Ok(json_value(&known.delete().await?))
}

pub async fn input_items(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response<Body>, GatewayError> {
    caller.count_request()?;
    let known = KnownResponse::find(services(&app), &caller, &id).await?;
    Ok(json_value(&known.input_items().await?))
}

/// How a response is wanted.
#[derive(Default)]
struct StreamQuery {
    stream: bool,
    starting_after: Option<u64>,
}

impl StreamQuery {
    fn read(query: &str) -> Result<Self, GatewayError> {
        let mut wish = Self::default();
        for (name, value) in query::pairs(query) {
            match (&*name, &*value) {
                ("stream", "true" | "1") => wish.stream = true,
                ("stream", "false" | "0") => wish.stream = false,
                ("stream", _) => return Err(invalid("stream", "stream must be true or false")),
                ("starting_after", _) => {
                    let text = "starting_after must be the sequence_number of an event";
                    let number = value.parse().map_err(|_| invalid("starting_after", text))?;
                    wish.starting_after = Some(number);
                }
                _ => {}
            }
        }
        Ok(wish)
    }
}

/// Waits for the object.
async fn whole(
    app: &App,
    feed: ResponseFeed,
    authority: StreamAuthority,
) -> Result<Bytes, GatewayError> {
    let _counted = app.streams.metrics.stream_guard();
    let mut writer = StreamWriter::new(app.streams.clone(), feed, None, authority);
    loop {
        match writer.next().await {
            WriterStep::Batch(mut batch) if !batch.is_empty() => {
                return Ok(batch.remove(0).message);
            }
            WriterStep::Open(_) | WriterStep::KeepAlive | WriterStep::Batch(_) => {}
            WriterStep::Reset(_) | WriterStep::End(StreamEnd::LostTail) => {
                let text = "the store lost what was said last: ask for the response again";
                return Err(fault(FaultKind::Failed, "conversation_lost", None, text));
            }
            WriterStep::End(StreamEnd::Lapsed) => return Err(GatewayError::Unauthenticated),
            WriterStep::End(_) => {
                let text = "this gateway stops: the response goes on, and the same request with \
                    the same Idempotency-Key joins it";
                return Err(fault(FaultKind::Full, "gateway_stopping", None, text));
            }
        }
    }
}

pub async fn models(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Result<Response<Body>, GatewayError> {
    caller.count_request()?;
    let list = agents::list(services(&app), caller.rights()).await?;
    Ok(json_value(&list))
}

pub async fn model(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Result<Response<Body>, GatewayError> {
    caller.count_request()?;
    let model = agents::one(services(&app), caller.rights(), &name).await?;
    Ok(json_value(&model))
}

fn json_value(value: &Value) -> Response<Body> {
    json(value.to_string().into())
}

fn json(body: Bytes) -> Response<Body> {
    let kind = HeaderValue::from_static(headers::JSON);
    let no_store = HeaderValue::from_static("no-store");
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, no_store),
    ];
    (headers, body).into_response()
}
