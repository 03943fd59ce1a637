//! The body of a request.

use serde_json::{Value, json};

use crate::agent::llm::model::{
    AssistantMessage, AssistantPart, DEFAULT_OUTPUT_TOKENS, MessagePart, ModelMessage,
    ModelProtocol, ModelRequest,
};
use crate::agent::llm::provider::content::{NO_TEXT, arguments_object, portable_id};
use crate::agent::llm::provider::continuation::{
    CONTINUE_REQUEST, ContinuationWay, ReplyBeginning,
};

/// An answer has at least this much room beside a budget for thinking.
const ROOM_TO_ANSWER: u32 = 4096;

pub fn body(request: &ModelRequest, beginning: Option<&ReplyBeginning>) -> Value {
    let mut body = json!({
        "model": request.model,
        "max_tokens": request.max_output_tokens.unwrap_or(DEFAULT_OUTPUT_TOKENS),
        "messages": messages(request, beginning),
        "stream": true,
    });
    if !request.system.trim().is_empty() {
        body["system"] = json!([cached(json!({ "type": "text", "text": request.system }))]);
    }
    if !request.tools.is_empty() {
        let mut tools: Vec<Value> = request.tools.iter().map(tool).collect();
        if let Some(last) = tools.last_mut() {
            *last = cached(last.take());
        }
        body["tools"] = json!(tools);
        if !request.parallel_tools {
            body["tool_choice"] = json!({ "type": "auto", "disable_parallel_tool_use": true });
        }
    }
    if let Some(effort) = &request.reasoning_effort {
        think(&mut body, effort);
    }
    body
}

fn tool(tool: &crate::agent::llm::model::ToolDefinition) -> Value {
    json!({
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.parameters,
    })
}

/// Everything up to here is worth keeping for the next request.
fn cached(mut block: Value) -> Value {
    block["cache_control"] = json!({ "type": "ephemeral" });
    block
}

/// A number is a budget of tokens, as models before Claude 4.6 have it; a word is an effort.
fn think(body: &mut Value, effort: &str) {
    match effort.parse::<u32>() {
        Ok(budget) => {
            let max = body["max_tokens"].as_u64().unwrap_or_default();
            let room = u64::from(budget.saturating_add(ROOM_TO_ANSWER));
            body["max_tokens"] = json!(max.max(room));
            body["thinking"] = json!({ "type": "enabled", "budget_tokens": budget });
        }
        Err(_) if effort == "none" => body["thinking"] = json!({ "type": "disabled" }),
        Err(_) => {
            body["thinking"] = json!({ "type": "adaptive", "display": "summarized" });
            body["output_config"] = json!({ "effort": effort });
        }
    }
}

/// Roles take turns: results of tools are the user's, together with what the user says next.
fn messages(request: &ModelRequest, beginning: Option<&ReplyBeginning>) -> Vec<Value> {
    let messages = match request.messages.split_last() {
        Some((ModelMessage::Assistant(_), before)) => before,
        _ => &request.messages,
    };
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    let mut add = |role, blocks: Vec<Value>| match turns.last_mut() {
        Some((last, before)) if *last == role => before.extend(blocks),
        _ => turns.push((role, blocks)),
    };
    for message in messages {
        match message {
            ModelMessage::User(parts) => add("user", content(parts)),
            ModelMessage::Assistant(message) => {
                let blocks = assistant(message);
                if !blocks.is_empty() {
                    add("assistant", blocks);
                }
            }
            ModelMessage::ToolResult {
                call_id,
                content: parts,
                is_error,
                ..
            } => add(
                "user",
                vec![json!({
                    "type": "tool_result",
                    "tool_use_id": portable_id(call_id),
                    "content": content(parts),
                    "is_error": is_error,
                })],
            ),
        }
    }
    if let Some((_, blocks)) = turns.iter_mut().rfind(|(role, _)| *role == "user")
        && let Some(last) = blocks.last_mut()
    {
        *last = cached(last.take());
    }
    if let Some(beginning) = beginning {
        let block = json!({ "type": "text", "text": beginning.text });
        turns.push(("assistant", vec![block]));
        if beginning.way == ContinuationWay::Ask {
            let ask = json!({ "type": "text", "text": CONTINUE_REQUEST });
            turns.push(("user", vec![ask]));
        }
    }
    let written = turns.into_iter();
    let written = written.map(|(role, content)| json!({ "role": role, "content": content }));
    written.collect()
}

/// Never empty, and without texts that are nothing but space: both are refused.
fn content(parts: &[MessagePart]) -> Vec<Value> {
    let written = parts.iter().filter_map(|part| match part {
        MessagePart::Text(text) if text.trim().is_empty() => None,
        MessagePart::Text(text) => Some(json!({ "type": "text", "text": text })),
        MessagePart::Image { mime_type, data } => Some(json!({
            "type": "image",
            "source": { "type": "base64", "media_type": mime_type, "data": data },
        })),
    });
    let mut written: Vec<Value> = written.collect();
    if written.is_empty() {
        written.push(json!({ "type": "text", "text": NO_TEXT }));
    }
    written
}

fn assistant(message: &AssistantMessage) -> Vec<Value> {
    let blocks = message.parts.iter().filter_map(|part| match part {
        AssistantPart::Text(text) if text.trim().is_empty() => None,
        AssistantPart::Text(text) => Some(json!({ "type": "text", "text": text })),
        AssistantPart::Reasoning {
            text,
            opaque: Some(opaque),
            protocol: ModelProtocol::Anthropic,
        } => Some(match opaque.get("data") {
            Some(data) => json!({ "type": "redacted_thinking", "data": data }),
            None => json!({
                "type": "thinking", "thinking": text, "signature": opaque["signature"],
            }),
        }),
        AssistantPart::Reasoning { .. } => None,
        AssistantPart::ToolCall {
            id,
            name,
            arguments,
        } => Some(json!({
            "type": "tool_use",
            "id": portable_id(id),
            "name": name,
            "input": arguments_object(arguments),
        })),
    });
    blocks.collect()
}
