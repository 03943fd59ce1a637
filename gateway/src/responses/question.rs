//! A question of the agent, as clients of this protocol know one: as a function call, which they
//! answer with its output, and beside it as a request for approval.

use std::borrow::Cow;
use std::sync::Arc;

use baton_protocol::limits::echo;
use baton_protocol::{Method, meta};
use bytes::{Bytes, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::fault::invalid;
use super::input::{APPROVAL, CALL, GivenAnswer};
use super::item::EventSink;
use super::name::ResponseName;
use crate::error::GatewayError;

/// The function that a permission is asked by. None of a client has this name.
pub const FUNCTION: &str = "request_permission";

#[derive(Debug)]
pub struct AgentQuestion {
    pub id: Arc<str>,
    /// The function that is to be called.
    name: String,
    /// As the text of a JSON object.
    arguments: String,
    kind: QuestionKind,
}

#[derive(Debug)]
enum QuestionKind {
    /// Somebody has to give or refuse it, by one of the options.
    Permission {
        title: String,
        options: Vec<PermissionOption>,
    },
    /// A function of the client's own.
    Function,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PermissionOption {
    option_id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    kind: String,
}

#[derive(Deserialize)]
struct RequestMessage<'a> {
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PermissionParams<'a> {
    #[serde(borrow)]
    tool_call: &'a RawValue,
    options: Vec<PermissionOption>,
}

#[derive(Deserialize)]
struct ToolTitle {
    title: Option<String>,
}

impl AgentQuestion {
    /// `None` for what no client of this protocol can be asked.
    pub fn read(id: &Arc<str>, message: &[u8]) -> Option<Self> {
        let message: RequestMessage = serde_json::from_slice(message).ok()?;
        match Method::of(&message.method) {
            Method::RequestPermission => Self::permission(id, message.params),
            Method::McpMessage => Self::function(id, message.params),
            _ => None,
        }
    }

    fn permission(id: &Arc<str>, params: &RawValue) -> Option<Self> {
        let params: PermissionParams = serde_json::from_str(params.get()).ok()?;
        let title: Option<ToolTitle> = serde_json::from_str(params.tool_call.get()).ok();
        let title = title.and_then(|tool| tool.title);
        let options = params.options.iter();
        let options: Vec<Value> = options
            .map(|it| json!({ "optionId": it.option_id, "name": it.name, "kind": it.kind }))
            .collect();
        let asked = json!({ "toolCall": params.tool_call, "options": options });
        Some(Self {
            id: id.clone(),
            name: FUNCTION.into(),
            arguments: asked.to_string(),
            kind: QuestionKind::Permission {
                title: title.unwrap_or_else(|| "tool".into()),
                options: params.options,
            },
        })
    }

    fn function(id: &Arc<str>, params: &RawValue) -> Option<Self> {
        let message: Value = serde_json::from_str(params.get()).ok()?;
        let (server, method) = (&message["serverId"], &message["method"]);
        if server != meta::FUNCTIONS_SERVER || method != "tools/call" {
            return None;
        }
        let call = &message["params"];
        let arguments = &call["arguments"];
        let arguments = if arguments.is_object() {
            arguments.to_string()
        } else {
            "{}".into()
        };
        Some(Self {
            id: id.clone(),
            name: call["name"].as_str()?.to_owned(),
            arguments,
            kind: QuestionKind::Function,
        })
    }

    /// As output items, and the events of these.
    pub fn tell(
        &self,
        name: &ResponseName,
        count: &mut u32,
        sink: &mut EventSink,
        items: &mut BytesMut,
    ) {
        let item = name.item("fc", *count);
        let call = |arguments: &str, status: &str| {
            json!({
                "type": "function_call", "id": item, "call_id": format!("{CALL}{}", self.id),
                "name": self.name, "arguments": arguments, "status": status,
            })
        };
        let index = *count;
        added(sink, index, &call("", "in_progress"));
        for (kind, field) in [("delta", "delta"), ("done", "arguments")] {
            let kind = format!("response.function_call_arguments.{kind}");
            let mut told = json!({ "item_id": item, "output_index": index, field: self.arguments });
            if field == "arguments" {
                told["name"] = json!(self.name);
            }
            event(sink, &kind, &told);
        }
        done(sink, items, index, &call(&self.arguments, "completed"));
        *count += 1;
        if let QuestionKind::Permission { title, .. } = &self.kind {
            let approval = json!({
                "type": "mcp_approval_request", "id": format!("{APPROVAL}{}", self.id),
                "name": title, "server_label": "baton", "arguments": self.arguments,
            });
            added(sink, index + 1, &approval);
            done(sink, items, index + 1, &approval);
            *count += 1;
        }
    }

    /// The result that the agent gets.
    pub fn answer(&self, given: &GivenAnswer) -> Result<Value, GatewayError> {
        match (&self.kind, given) {
            (QuestionKind::Permission { options, .. }, _) => chosen(options, given),
            (QuestionKind::Function, GivenAnswer::Output(text)) => {
                let content = json!([{ "type": "text", "text": text }]);
                Ok(json!({ "result": { "content": content } }))
            }
            (QuestionKind::Function, GivenAnswer::Approval(_)) => {
                let text = format!("{} is a function: send its output", self.name);
                Err(invalid("input", text))
            }
        }
    }
}

fn chosen(options: &[PermissionOption], given: &GivenAnswer) -> Result<Value, GatewayError> {
    let of_kind = |kinds: [&str; 2]| {
        let mut kinds = kinds.into_iter();
        kinds.find_map(|kind| options.iter().find(|option| option.kind == kind))
    };
    let option = match given {
        GivenAnswer::Approval(true) => of_kind(["allow_once", "allow_always"]),
        GivenAnswer::Approval(false) => match of_kind(["reject_once", "reject_always"]) {
            Some(option) => Some(option),
            None => return Ok(json!({ "outcome": { "outcome": "cancelled" } })),
        },
        GivenAnswer::Output(text) => named(options, text),
    };
    let option = option.ok_or_else(|| {
        let names = options.iter().map(|it| it.option_id.as_str());
        let names: Vec<&str> = names.collect();
        let text = format!(
            "the output of {FUNCTION} must be the optionId of one of its options: {}",
            echo(&names.join(", "))
        );
        invalid("input", text)
    })?;
    Ok(json!({ "outcome": { "outcome": "selected", "optionId": option.option_id } }))
}

/// As a bare name, as a JSON string, or in an object.
fn named<'a>(options: &'a [PermissionOption], text: &str) -> Option<&'a PermissionOption> {
    let json: Value = serde_json::from_str(text).unwrap_or_default();
    let inner = json.as_str().or(json["optionId"].as_str());
    let name = inner.unwrap_or(text).trim();
    options.iter().find(|option| option.option_id == name)
}

fn added(sink: &mut EventSink, index: u32, item: &Value) {
    let told = json!({ "output_index": index, "item": item });
    event(sink, "response.output_item.added", &told);
}

fn done(sink: &mut EventSink, items: &mut BytesMut, index: u32, item: &Value) {
    let told = json!({ "output_index": index, "item": item });
    event(sink, "response.output_item.done", &told);
    if !items.is_empty() {
        items.extend_from_slice(b",");
    }
    items.extend_from_slice(item.to_string().as_bytes());
}

fn event(sink: &mut EventSink, kind: &str, fields: &Value) {
    let text = Bytes::from(fields.to_string());
    sink.event(kind, |out| {
        out.extend_from_slice(b",");
        out.extend_from_slice(&text[1..text.len() - 1]);
    });
}
