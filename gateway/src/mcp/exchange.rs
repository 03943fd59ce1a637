//! One request of an MCP client, and its reply.

use baton_protocol::{Inbound, Method, compose};
use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::call::{McpClient, McpClientCall};
use super::fault::{CallError, RpcFault};
use super::invoke::{PromptedTurn, ToolCall, ToolReply};
use super::named_session::readable;
use super::results::mendable;
use super::revision::McpRevision;
use super::task_watch::TaskWatch;
use super::tools::{self, TASKS};
use super::turn_feed::TurnFeed;
use super::turn_reference::{FollowedCall, TurnReference};
use super::{questions, resources, results, tasks, turn_lookup};
use crate::error::GatewayError;

/// How long clients may keep what is the same for everybody, in milliseconds.
const KEPT: u64 = 3_600_000;

pub enum McpReply {
    /// A whole message.
    Message(Bytes),
    /// An error that its revision answers with a status of its own.
    Fault(RpcFault),
    Stream(Box<TurnFeed>),
    Listen(Box<TaskWatch>),
}

/// The answer to `initialize`: the revision that both speak, and what is offered.
pub fn initialize(params: &Map<String, Value>) -> (McpRevision, McpClient, Value) {
    let asked = params.get("protocolVersion").and_then(Value::as_str);
    let revision = asked.and_then(McpRevision::parse);
    let revision = revision.filter(|revision| !revision.is_sessionless());
    let revision = revision.unwrap_or(McpRevision::LAST_WITH_SESSIONS);
    let capabilities = params.get("capabilities").unwrap_or(&Value::Null);
    let result = json!({
        "protocolVersion": revision.name(),
        "capabilities": capabilities_of(revision),
        "serverInfo": results::server(),
        "instructions": tools::INSTRUCTIONS,
    });
    (revision, McpClient::of(capabilities), result)
}

fn capabilities_of(revision: McpRevision) -> Value {
    let mut offered = json!({ "tools": {}, "resources": {} });
    if revision.is_sessionless() {
        offered["extensions"] = json!({ TASKS: {} });
    }
    offered
}

pub async fn handle(
    call: McpClientCall,
    method: &str,
    params: Map<String, Value>,
) -> Result<McpReply, GatewayError> {
    let (id, revision) = (call.id.clone(), call.revision);
    if method == "subscriptions/listen" && revision.is_sessionless() {
        return match TaskWatch::open(call, &params).await {
            Ok(watch) => Ok(McpReply::Listen(Box::new(watch))),
            Err(error) => refused(error),
        };
    }
    let outcome = match method {
        "tools/call" => call_tool(&call, &params).await,
        _ => plain(&call, method, &params).await.map(ToolReply::Result),
    };
    let reply = match outcome {
        Ok(ToolReply::Turn(turn)) => turn_reply(call, *turn).await,
        Ok(ToolReply::Result(result)) => Ok(message(&id, revision, result)),
        Err(error) => Err(error),
    };
    let reply = match method {
        "tools/call" => reply.or_else(|error| Ok(message(&id, revision, mendable(error)?))),
        _ => reply,
    };
    reply.or_else(refused)
}

fn refused(error: CallError) -> Result<McpReply, GatewayError> {
    match error {
        CallError::Request(error) => Err(error),
        CallError::Rpc(fault) => Ok(McpReply::Fault(fault)),
        CallError::Tool(text) => Ok(McpReply::Fault(RpcFault::invalid(text))),
        CallError::Refused(why) => Ok(McpReply::Fault(RpcFault::invalid(why.text()))),
    }
}

fn message(id: &str, revision: McpRevision, result: Value) -> McpReply {
    let result = results::complete(revision, result);
    McpReply::Message(compose::result(id, result.to_string().as_bytes()))
}

async fn turn_reply(call: McpClientCall, turn: PromptedTurn) -> Result<McpReply, CallError> {
    let is_task = turn.is_new && !turn.follow.throw_away && call.client.takes_tasks;
    if is_task && call.revision.is_sessionless() {
        let created = tasks::created(&turn.follow.turn);
        return Ok(message(&call.id, call.revision, created));
    }
    let feed = turn.open(call).await?;
    Ok(McpReply::Stream(Box::new(feed)))
}

async fn call_tool(
    call: &McpClientCall,
    params: &Map<String, Value>,
) -> Result<ToolReply, CallError> {
    let tool = ToolCall::read(params)?;
    match params.get("requestState").and_then(Value::as_str) {
        Some(state) if call.revision.is_sessionless() => {
            let turn = TurnReference::parse(state);
            let turn =
                turn.ok_or_else(|| RpcFault::invalid("params.requestState is none of ours"))?;
            let answered = match params.get("inputResponses").and_then(Value::as_object) {
                Some(given) => tasks::give(call, &turn, given).await?,
                None => Vec::new(),
            };
            // Whether it is the caller's is asked whatever was given.
            readable(call, turn.session.as_str()).await?;
            Ok(tool.resume(call, turn, answered))
        }
        _ => tool.carry_out(call).await,
    }
}

async fn plain(
    call: &McpClientCall,
    method: &str,
    params: &Map<String, Value>,
) -> Result<Value, CallError> {
    let sessionless = call.revision.is_sessionless();
    let cached = |mut result: Value, scope: &str, kept: u64| {
        if sessionless {
            result["ttlMs"] = json!(kept);
            result["cacheScope"] = json!(scope);
        }
        result
    };
    match method {
        "ping" => Ok(json!({})),
        "server/discover" if sessionless => Ok(cached(discover(call.revision), "public", KEPT)),
        "tools/list" => Ok(cached(json!({ "tools": tools::list() }), "public", KEPT)),
        "resources/list" => Ok(cached(resources::list(call, params).await?, "private", 0)),
        "resources/templates/list" => Ok(cached(resources::templates(), "public", KEPT)),
        "resources/read" => Ok(cached(resources::read(call, params).await?, "private", 0)),
        "tasks/get" if sessionless => tasks::get(call, params).await,
        "tasks/update" if sessionless => tasks::update(call, params).await,
        "tasks/cancel" if sessionless => tasks::cancel(call, params).await,
        _ => Err(RpcFault::unknown_method(method).into()),
    }
}

fn discover(revision: McpRevision) -> Value {
    json!({
        "supportedVersions": McpRevision::ALL.map(McpRevision::name),
        "capabilities": capabilities_of(revision),
        "instructions": tools::INSTRUCTIONS,
    })
}

/// The client's answer to a question that it was asked on a stream, this gateway's or another's.
/// One that nobody waits for is nothing to complain about.
pub async fn answer_question(call: &McpClientCall, answer: &Inbound) -> Result<(), CallError> {
    let id: Option<String> = answer.id().and_then(|id| serde_json::from_str(id).ok());
    let Some((session, id)) = id
        .as_deref()
        .and_then(|id| Some((id.split_once(':')?.0, id)))
    else {
        return Ok(());
    };
    let Ok((session, _)) = readable(call, session).await else {
        return Ok(());
    };
    let Some(question) = turn_lookup::question(call, &session, id).await? else {
        return Ok(());
    };
    let said: Value = serde_json::from_slice(answer.bytes()).unwrap_or_default();
    let elicited = match said.get("result") {
        Some(result) => result.clone(),
        None => json!({ "action": "cancel" }),
    };
    match questions::answer(&question, &elicited) {
        Some(reply) => call.tell(reply).await,
        None => Ok(()),
    }
}

/// `notifications/cancelled`: the user does not want the turn any more. A client that has only lost
/// its patience finds it with `status`.
pub async fn cancel(call: &McpClientCall, params: &Map<String, Value>) -> Result<(), CallError> {
    let reason = params.get("reason").and_then(Value::as_str);
    let reason = reason.unwrap_or_default().to_ascii_lowercase();
    let Some(request) = params.get("requestId") else {
        return Ok(());
    };
    if reason.contains("timed out") || reason.contains("timeout") {
        return Ok(());
    }
    let cancelled = McpClientCall {
        id: request.to_string().into(),
        ..call.clone()
    };
    let params = json!({ "requestId": cancelled.step_id("prompt") });
    let message = compose::notification(Method::CancelRequest.name(), params);
    call.tell(message).await
}

impl FollowedCall {
    /// The rest of a stream that was cut.
    pub async fn go_on(
        self,
        call: McpClientCall,
        seen: baton_session::cursor::Cursor,
    ) -> Result<TurnFeed, CallError> {
        readable(&call, self.turn.session.as_str()).await?;
        TurnFeed::open(call, self, Some(seen), None).await
    }
}
