//! What a tool answers: the agent's words for the model, and the same with the handle of the
//! session as fields. Clients that show a model the content alone find the handle there, too.

use baton_session::id::SessionId;
use serde_json::{Value, json};

use super::fault::CallError;
use super::questions;
use super::revision::McpRevision;
use super::turn_reader::{TurnOutcome, TurnReader};
use super::turn_reference::TurnReference;

const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// As far as a turn is, when its call is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnStatus {
    Idle,
    Working,
    InputRequired,
    Completed,
    Failed,
    Cancelled,
}

impl TurnStatus {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// `busy`: the prompt, or another, is not done with.
    pub fn of(reader: &TurnReader, busy: bool) -> Self {
        match &reader.outcome {
            Some(TurnOutcome::Failed(_)) => Self::Failed,
            Some(TurnOutcome::Done { stop_reason }) if stop_reason == "cancelled" => {
                Self::Cancelled
            }
            Some(TurnOutcome::Done { .. }) => Self::Completed,
            None if !reader.open.is_empty() => Self::InputRequired,
            None if busy => Self::Working,
            None => Self::Idle,
        }
    }

    fn advice(self) -> Option<&'static str> {
        match self {
            Self::Working => Some("The turn goes on. Call status to wait for its end."),
            Self::InputRequired => Some(
                "The agent waits for an answer to its questions. Call continue with answers, \
                 after asking the user.",
            ),
            Self::Cancelled => Some("The turn was cancelled."),
            Self::Idle | Self::Completed | Self::Failed => None,
        }
    }
}

/// `CallToolResult` about a turn.
pub fn of_turn(
    session: &SessionId,
    reader: &TurnReader,
    status: TurnStatus,
    revision: McpRevision,
) -> Value {
    let (words, cut) = reader.words();
    let mut handle = json!({ "session": session, "status": status.as_str() });
    match &reader.outcome {
        Some(TurnOutcome::Done { stop_reason }) => handle["stopReason"] = json!(stop_reason),
        Some(TurnOutcome::Failed(why)) => {
            handle["error"] = json!({ "code": why.code, "message": why.message });
        }
        None => {}
    }
    if !reader.open.is_empty() {
        handle["questions"] = reader.open.iter().map(questions::describe).collect();
    }
    if cut {
        handle["truncated"] = json!(true);
    }
    let mut content = Vec::new();
    if !words.is_empty() {
        content.push(text(&words));
    }
    content.extend(reader.blocks().iter().map(|block| shown(block, revision)));
    if let Some(TurnOutcome::Failed(why)) = &reader.outcome {
        content.push(text(&format!("The turn failed: {}", why.text())));
    }
    content.extend(status.advice().map(text));
    content.push(text(&handle.to_string()));
    let mut structured = handle;
    structured["text"] = json!(words);
    json!({
        "content": content,
        "structuredContent": structured,
        "isError": status == TurnStatus::Failed,
    })
}

/// The questions of a turn, for a client that calls again with the answers. `requestState` says
/// what it then goes on with.
pub fn input_required(reader: &TurnReader, turn: &TurnReference, revision: McpRevision) -> Value {
    json!({
        "resultType": "input_required",
        "inputRequests": input_requests(reader, revision),
        "requestState": turn.text(),
    })
}

/// Each under the id of its question, which no other ever has.
pub fn input_requests(reader: &TurnReader, revision: McpRevision) -> Value {
    let asked = reader.open.iter().filter_map(|question| {
        let params = questions::elicitation(question, revision)?;
        let request = json!({ "method": "elicitation/create", "params": params });
        Some((question.id.to_string(), request))
    });
    Value::Object(asked.collect())
}

/// A result as its revision has it.
pub fn complete(revision: McpRevision, mut result: Value) -> Value {
    if revision.is_sessionless() {
        if result.get("resultType").is_none() {
            result["resultType"] = json!("complete");
        }
        result["_meta"][SERVER_INFO] = server();
    }
    result
}

/// Who answers.
pub fn server() -> Value {
    json!({ "name": "baton", "title": "Baton", "version": env!("CARGO_PKG_VERSION") })
}

/// `CallToolResult` with fields alone.
pub fn of_fields(fields: Value) -> Value {
    json!({
        "content": [text(&fields.to_string())],
        "structuredContent": fields,
        "isError": false,
    })
}

/// What a model can mend is no error of the protocol.
pub fn of_failure(message: &str) -> Value {
    json!({ "content": [text(message)], "isError": true })
}

/// The failure as a result, if a model can do anything about it.
pub fn mendable(error: CallError) -> Result<Value, CallError> {
    match error {
        CallError::Tool(message) => Ok(of_failure(&message)),
        CallError::Refused(refusal) => Ok(of_failure(&refusal.text())),
        CallError::Rpc(_) | CallError::Request(_) => Err(error),
    }
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// Blocks of content are the same in both protocols, but for what older revisions do not have.
fn shown(block: &Value, revision: McpRevision) -> Value {
    if block["type"] == "resource_link" && !revision.has_resource_links() {
        return text(block["uri"].as_str().unwrap_or_default());
    }
    block.clone()
}
