//! Turns as tasks: the prompt waits in the session's inbox before the client hears of its task, and
//! all that a task is asked for is read from the session.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use baton_protocol::{ErrorCode, Method, compose};
use serde_json::{Map, Value, json};

use super::call::McpClientCall;
use super::fault::{CallError, RpcFault};
use super::named_session::readable;
use super::questions;
use super::results::{self, TurnStatus};
use super::tools::TASKS;
use super::turn_lookup::{self, TurnLookup};
use super::turn_reader::TurnOutcome;
use super::turn_reference::TurnReference;

/// How long its client may count on a task. It is there as long as its session.
const LASTS: Duration = Duration::from_secs(24 * 3600);
const POLL_INTERVAL: Duration = Duration::from_secs(1);

const GONE: &str = "the turn was lost: its session has no trace of it. Start it again";

/// The reply to a call that has become a task.
pub fn created(turn: &TurnReference) -> Value {
    let mut task = head(turn, turn.asked);
    task["resultType"] = json!("task");
    task["status"] = json!("working");
    task
}

fn head(turn: &TurnReference, updated: u64) -> Value {
    json!({
        "taskId": turn.text(),
        "createdAt": date(turn.asked),
        "lastUpdatedAt": date(updated.max(turn.asked)),
        "ttlMs": LASTS.as_millis() as u64,
        "pollIntervalMs": POLL_INTERVAL.as_millis() as u64,
    })
}

fn date(millis: u64) -> String {
    // A client can write anything into the name of its task.
    let millis = millis.min(253_402_300_799_999);
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(millis)).to_string()
}

/// The task that the params name, of a client that knows tasks.
fn named(call: &McpClientCall, params: &Map<String, Value>) -> Result<TurnReference, RpcFault> {
    if !call.client.takes_tasks {
        let required = json!({ "extensions": { TASKS: {} } });
        return Err(RpcFault::missing_capability(required));
    }
    let name = params.get("taskId").and_then(Value::as_str);
    let turn = name.and_then(TurnReference::parse);
    turn.filter(|turn| !turn.request.is_empty())
        .ok_or_else(unknown)
}

/// One answer for a task that never was and for somebody else's.
fn unknown() -> RpcFault {
    RpcFault::invalid("there is no such task")
}

fn as_unknown(error: CallError) -> CallError {
    match error {
        CallError::Tool(_) => unknown().into(),
        error => error,
    }
}

/// The task that the params name, if it is the caller's.
pub async fn known(
    call: &McpClientCall,
    params: &Map<String, Value>,
) -> Result<TurnReference, CallError> {
    let turn = named(call, params)?;
    let readable = readable(call, turn.session.as_str()).await;
    readable.map_err(as_unknown)?;
    Ok(turn)
}

pub async fn get(call: &McpClientCall, params: &Map<String, Value>) -> Result<Value, CallError> {
    let turn = named(call, params)?;
    count(call)?;
    state(call, &turn).await
}

/// A task as it is now.
pub async fn state(call: &McpClientCall, turn: &TurnReference) -> Result<Value, CallError> {
    let readable = readable(call, turn.session.as_str()).await;
    let (session, record) = readable.map_err(as_unknown)?;
    let TurnLookup { reader, status } = turn_lookup::of_turn(call, turn, &record).await?;
    let mut task = head(turn, record.updated);
    let mut say = |status: &str, field: &str, value: Value| {
        task["status"] = json!(status);
        if !field.is_empty() {
            task[field] = value;
        }
    };
    match (&reader.outcome, status) {
        (Some(TurnOutcome::Failed(why)), _) if is_ours(why.code) => {
            say(
                "failed",
                "error",
                json!({ "code": why.code, "message": why.message }),
            );
            task["statusMessage"] = json!(why.text());
        }
        (_, TurnStatus::Completed | TurnStatus::Failed) => {
            let result = results::of_turn(&session, &reader, status, call.revision);
            say(
                "completed",
                "result",
                results::complete(call.revision, result),
            );
        }
        (_, TurnStatus::Cancelled) => say("cancelled", "", Value::Null),
        (_, TurnStatus::InputRequired) => {
            let asked = if call.client.elicits {
                results::input_requests(&reader, call.revision)
            } else {
                json!({})
            };
            say("input_required", "inputRequests", asked);
            task["statusMessage"] = json!("the agent waits for an answer: see status");
        }
        (_, TurnStatus::Working) => say("working", "", Value::Null),
        (_, TurnStatus::Idle) => {
            say(
                "failed",
                "error",
                json!({ "code": -32603, "message": GONE }),
            );
            task["statusMessage"] = json!(GONE);
        }
    }
    Ok(task)
}

/// The turn did not fail, it was not carried out.
fn is_ours(code: i64) -> bool {
    let code = ErrorCode::of(code);
    matches!(
        code,
        Some(ErrorCode::NoWorker | ErrorCode::GivenUp | ErrorCode::Interrupted)
    )
}

/// Answers that nobody waits for are passed over.
pub async fn update(call: &McpClientCall, params: &Map<String, Value>) -> Result<Value, CallError> {
    let turn = named(call, params)?;
    count(call)?;
    let responses = params.get("inputResponses").and_then(Value::as_object);
    let responses = responses.ok_or_else(|| {
        RpcFault::invalid("params.inputResponses must be an object with a result for each question")
    })?;
    give(call, &turn, responses).await?;
    Ok(json!({}))
}

/// Gives the agent the answers of an object by the ids of its questions; returns those that it
/// waited for.
pub async fn give(
    call: &McpClientCall,
    turn: &TurnReference,
    responses: &Map<String, Value>,
) -> Result<Vec<Arc<str>>, CallError> {
    let readable = readable(call, turn.session.as_str()).await;
    let (session, _) = readable.map_err(as_unknown)?;
    let mut answered = Vec::new();
    for (id, elicited) in responses {
        let question = turn_lookup::question(call, &session, id).await?;
        let reply = question.and_then(|question| questions::answer(&question, elicited));
        if let Some(reply) = reply {
            call.tell(reply).await?;
            answered.push(id.as_str().into());
        }
    }
    Ok(answered)
}

pub async fn cancel(call: &McpClientCall, params: &Map<String, Value>) -> Result<Value, CallError> {
    let turn = named(call, params)?;
    count(call)?;
    let readable = readable(call, turn.session.as_str()).await;
    readable.map_err(as_unknown)?;
    cancel_turn(call, &turn).await?;
    Ok(json!({}))
}

/// The prompt, wherever it waits or runs, by the connection that has sent it.
pub async fn cancel_turn(call: &McpClientCall, turn: &TurnReference) -> Result<(), CallError> {
    let mut call = call.clone();
    call.access.connection.id = turn.connection.clone();
    let request: Result<Value, _> = serde_json::from_str(&turn.request);
    let request = request.map_err(|_| unknown())?;
    let params = json!({ "requestId": request });
    let method = Method::CancelRequest.name();
    call.tell(compose::notification(method, params)).await
}

/// A client that polls too fast has no tool that says so.
fn count(call: &McpClientCall) -> Result<(), CallError> {
    call.count().map_err(|error| match error {
        CallError::Tool(text) => RpcFault::invalid(text).into(),
        error => error,
    })
}
