//! `GET /v1/sessions`, `GET /v1/sessions/ID`, its turns, and `POST /v1/sessions/ID/fork`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, Uri, header};
use axum::response::IntoResponse as _;
use baton_protocol::{header as names, limits, meta};
use baton_session::id::SessionId;
use baton_session::store::SessionRecord;
use serde::Deserialize;
use serde_json::{Value, json};

use super::post::{ReceivedBody, receive};
use crate::app::App;
use crate::auth::Caller;
use crate::door::{DoorCall, RpcError, refused};
use crate::error::{FaultKind, GatewayError, fault};
use crate::http::{headers, query};
use crate::methods::MethodOutcome;
use crate::turns::{self, TurnName};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static(names::IDEMPOTENCY_KEY);

/// As `session/list`, a page at a time.
pub async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
) -> Result<Response<Body>, GatewayError> {
    let mut params = json!({});
    for (name, value) in query::pairs(uri.query().unwrap_or_default()) {
        if matches!(&*name, "cwd" | "cursor") {
            params[&*name] = json!(value);
        }
    }
    let mut call = DoorCall::new(&app.methods, &caller, None, &[], None);
    let outcome = call.request("list", "session/list", &params).await?;
    Ok(answer(StatusCode::OK, &result(outcome)?))
}

pub async fn one(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response<Body>, GatewayError> {
    caller.count_request()?;
    let (session, record) = known(&app, &caller, &id).await?;
    let mut told = json!({
        "sessionId": session,
        "agent": record.agent,
        "cwd": record.cwd,
        "title": record.title,
        "updatedAt": turns::moment(record.updated),
        "state": if record.began.is_some() { "working" } else { "idle" },
    });
    if let Ok(usage) = serde_json::from_slice::<Value>(&record.usage) {
        told["_meta"] = json!({ meta::USAGE: usage });
    }
    Ok(answer(StatusCode::OK, &told))
}

/// From the first one on, or after the one that is named.
pub async fn turns(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response<Body>, GatewayError> {
    caller.count_request()?;
    let (session, _) = known(&app, &caller, &id).await?;
    let (mut after, mut limit) = (0, turns::MAX_TURNS);
    for (name, value) in query::pairs(uri.query().unwrap_or_default()) {
        match &*name {
            "after" => after = turn_name(&value)?.seq,
            "limit" => {
                let number = value.parse().ok();
                let number = number.filter(|number| (1..=turns::MAX_TURNS).contains(number));
                limit = number.ok_or_else(|| {
                    invalid("limit", format!("limit must be 1 to {}", turns::MAX_TURNS))
                })?;
            }
            _ => {}
        }
    }
    let found = turns::after(&*app.store, &session, after, limit).await?;
    let more = found.len() == limit;
    let next = found
        .last()
        .filter(|_| more)
        .map(|turn| turn.name.to_string());
    let list: Vec<Value> = found.iter().map(turns::LoggedTurn::describe).collect();
    Ok(answer(
        StatusCode::OK,
        &json!({ "turns": list, "next": next }),
    ))
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ForkBody {
    /// The child ends with this turn; without it, with the last one that has ended.
    turn: Option<String>,
    cwd: Option<String>,
}

pub async fn fork(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response<Body>, GatewayError> {
    caller.require_control()?;
    headers::require(&headers, headers::JSON)?;
    let ReceivedBody {
        bytes,
        over_bytes,
        _reserved,
    } = receive(&app, &caller, &headers, body).await?;
    let wish: ForkBody = match &bytes[..] {
        b"" => ForkBody::default(),
        bytes => serde_json::from_slice(bytes)
            .map_err(|error| GatewayError::NotJson(limits::shorten(error.to_string())))?,
    };
    let (session, _) = known(&app, &caller, &id).await?;
    let cut = match &wish.turn {
        None => None,
        Some(turn) => {
            let name = turn_name(turn)?;
            let turn = turns::find(&*app.store, &session, name).await?;
            let turn = turn.ok_or_else(|| unknown_turn(name))?;
            let text = "this turn has not ended: wait for it, or fork at an earlier one";
            let running = || fault(FaultKind::Conflict, "turn_not_ended", Some("turn"), text);
            Some(turn.last().ok_or_else(running)?)
        }
    };
    let mut params = json!({ "sessionId": session });
    if let Some(cwd) = wish.cwd {
        params["cwd"] = json!(cwd);
    }
    let key = headers::single(&headers, &IDEMPOTENCY_KEY)?;
    let mut call = DoorCall::new(&app.methods, &caller, key, &bytes, over_bytes);
    let outcome = call.fork(&params, cut).await?;
    Ok(answer(StatusCode::CREATED, &result(outcome)?))
}

fn unknown_turn(name: TurnName) -> GatewayError {
    let text = format!("the session has no turn {name}");
    fault(FaultKind::NotFound, "turn_not_found", Some("turn"), text)
}

fn turn_name(text: &str) -> Result<TurnName, GatewayError> {
    let fault = |_| invalid("turn", format!("{} names no turn", limits::echo(text)));
    text.parse().map_err(fault)
}

fn invalid(param: &str, text: String) -> GatewayError {
    fault(FaultKind::Invalid, "invalid_value", Some(param), text)
}

async fn known(
    app: &App,
    caller: &Caller,
    id: &str,
) -> Result<(SessionId, SessionRecord), GatewayError> {
    let session = SessionId::parse(id).ok_or(GatewayError::NoSession)?;
    let record = app.store.record(&session, &caller.principal).await?;
    let record = record.filter(|record| caller.rights().allow(&record.agent));
    Ok((session, record.ok_or(GatewayError::NoSession)?))
}

/// The result of a method, which is known at once.
fn result(outcome: MethodOutcome) -> Result<Value, GatewayError> {
    match &outcome {
        MethodOutcome::Answer(answer) if RpcError::of(answer.message()).is_none() => {
            let mut answer: Value = serde_json::from_slice(answer.message()).unwrap_or_default();
            Ok(answer["result"].take())
        }
        _ => Err(refused(outcome)),
    }
}

fn answer(status: StatusCode, body: &Value) -> Response<Body> {
    let kind = HeaderValue::from_static(headers::JSON);
    let headers = [(header::CONTENT_TYPE, kind)];
    (status, headers, body.to_string()).into_response()
}
