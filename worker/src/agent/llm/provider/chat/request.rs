//! The body of a request.

use serde_json::{Map, Value, json};

use crate::agent::llm::model::{
    AssistantMessage, AssistantPart, MessagePart, ModelMessage, ModelProtocol, ModelRequest,
};
use crate::agent::llm::provider::config::ChatDialect;
use crate::agent::llm::provider::content::{
    NO_TEXT, arguments_text, data_url, has_images, joined_text, portable_id,
};
use crate::agent::llm::provider::continuation::{
    CONTINUE_REQUEST, ContinuationWay, ReplyBeginning,
};

pub fn body(
    request: &ModelRequest,
    dialect: ChatDialect,
    beginning: Option<&ReplyBeginning>,
) -> Value {
    let mut body = json!({
        "model": request.model,
        "messages": messages(request, beginning),
        "stream": true,
        "stream_options": { "include_usage": true },
    });
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({ "type": "function", "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
            }})
        });
        body["tools"] = tools.collect();
        if !request.parallel_tools {
            body["parallel_tool_calls"] = json!(false);
        }
    }
    if let Some(max) = request.max_output_tokens {
        let member = match dialect {
            ChatDialect::OpenAi => "max_completion_tokens",
            _ => "max_tokens",
        };
        body[member] = json!(max);
    }
    if let Some(effort) = &request.reasoning_effort {
        match dialect {
            ChatDialect::OpenRouter => body["reasoning"] = json!({ "effort": effort }),
            _ => body["reasoning_effort"] = json!(effort),
        }
    }
    if beginning.is_some_and(|it| it.way == ContinuationWay::FinalMessage) {
        body["add_generation_prompt"] = json!(false);
        body["continue_final_message"] = json!(true);
    }
    body
}

fn messages(request: &ModelRequest, beginning: Option<&ReplyBeginning>) -> Vec<Value> {
    let mut written = Vec::new();
    if !request.system.is_empty() {
        written.push(json!({ "role": "system", "content": request.system }));
    }
    let messages = match request.messages.split_last() {
        Some((ModelMessage::Assistant(_), before)) => before,
        _ => &request.messages,
    };
    let is_user = |message: &ModelMessage| matches!(message, ModelMessage::User(_));
    let turn = messages.iter().rposition(is_user).unwrap_or(0);
    // Images in results of tools have to come from the user, after the last result.
    let mut shown = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        if !matches!(message, ModelMessage::ToolResult { .. }) {
            show(&mut written, &mut shown);
        }
        match message {
            ModelMessage::User(parts) => {
                written.push(json!({ "role": "user", "content": content(parts) }));
            }
            ModelMessage::Assistant(message) => {
                written.extend(assistant(message, at > turn));
            }
            ModelMessage::ToolResult {
                call_id,
                tool,
                content,
                is_error,
            } => {
                written.push(tool_result(call_id, content, *is_error));
                if has_images(content) {
                    shown.push(json!({ "type": "text", "text": format!("Images of {tool}:") }));
                    shown.extend(content.iter().filter_map(image));
                }
            }
        }
    }
    show(&mut written, &mut shown);
    if let Some(beginning) = beginning {
        let mut last = json!({ "role": "assistant", "content": beginning.text });
        if beginning.way == ContinuationWay::PrefixMark {
            last["prefix"] = json!(true);
        }
        written.push(last);
        if beginning.way == ContinuationWay::Ask {
            written.push(json!({ "role": "user", "content": CONTINUE_REQUEST }));
        }
    }
    written
}

fn show(written: &mut Vec<Value>, shown: &mut Vec<Value>) {
    if !shown.is_empty() {
        let images = std::mem::take(shown);
        written.push(json!({ "role": "user", "content": images }));
    }
}

fn content(parts: &[MessagePart]) -> Value {
    if !has_images(parts) {
        return json!(joined_text(parts));
    }
    let written = parts.iter().filter_map(|part| match part {
        MessagePart::Text(text) if text.is_empty() => None,
        MessagePart::Text(text) => Some(json!({ "type": "text", "text": text })),
        MessagePart::Image { .. } => image(part),
    });
    written.collect()
}

fn image(part: &MessagePart) -> Option<Value> {
    match part {
        MessagePart::Text(_) => None,
        MessagePart::Image { mime_type, data } => {
            Some(json!({ "type": "image_url", "image_url": { "url": data_url(mime_type, data) } }))
        }
    }
}

fn tool_result(call_id: &str, content: &[MessagePart], is_error: bool) -> Value {
    let text = joined_text(content);
    let text = if is_error {
        format!("Error: {text}")
    } else if text.is_empty() {
        NO_TEXT.to_owned()
    } else {
        text
    };
    json!({ "role": "tool", "tool_call_id": portable_id(call_id), "content": text })
}

/// Reasoning goes back only within the turn: earlier one is of no use to any model, and refused by
/// some endpoints.
fn assistant(message: &AssistantMessage, within_turn: bool) -> Option<Value> {
    let mut written = Map::new();
    let mut calls = Vec::new();
    for part in &message.parts {
        match part {
            AssistantPart::Text(_) => {}
            AssistantPart::Reasoning {
                text,
                opaque: Some(opaque),
                protocol: ModelProtocol::Chat,
            } if within_turn => add_reasoning(&mut written, text, opaque),
            AssistantPart::Reasoning { .. } => {}
            AssistantPart::ToolCall {
                id,
                name,
                arguments,
            } => calls.push(json!({
                "id": portable_id(id),
                "type": "function",
                "function": { "name": name, "arguments": arguments_text(arguments) },
            })),
        }
    }
    let text = message.text();
    if text.is_empty() && calls.is_empty() {
        return None;
    }
    written.insert("role".into(), json!("assistant"));
    let text = (!text.is_empty()).then_some(text);
    written.insert("content".into(), json!(text));
    if !calls.is_empty() {
        written.insert("tool_calls".into(), json!(calls));
    }
    Some(Value::Object(written))
}

fn add_reasoning(written: &mut Map<String, Value>, text: &str, opaque: &Value) {
    if let Some(details) = opaque["reasoning_details"].as_array() {
        let before = written.entry("reasoning_details");
        if let Value::Array(before) = before.or_insert_with(|| json!([])) {
            before.extend(details.iter().cloned());
        }
    }
    if let Some(member) = opaque["member"].as_str() {
        let before = written.get(member).and_then(Value::as_str);
        let whole = format!("{}{text}", before.unwrap_or_default());
        written.insert(member.to_owned(), json!(whole));
    }
}
