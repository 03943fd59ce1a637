//! The body of a request.

use serde_json::{Value, json};

use crate::agent::llm::model::{
    AssistantMessage, AssistantPart, MessagePart, ModelMessage, ModelProtocol, ModelRequest,
};
use crate::agent::llm::provider::content::{
    NO_TEXT, arguments_text, data_url, has_images, joined_text, portable_id,
};
use crate::agent::llm::provider::continuation::{CONTINUE_REQUEST, ReplyBeginning};

/// `encrypted_reasoning` is refused for models that do not reason.
pub fn body(
    request: &ModelRequest,
    beginning: Option<&ReplyBeginning>,
    encrypted_reasoning: bool,
) -> Value {
    let mut body = json!({
        "model": request.model,
        "input": input(request, beginning),
        "stream": true,
        "store": false,
    });
    if !request.system.is_empty() {
        body["instructions"] = json!(request.system);
    }
    if encrypted_reasoning {
        body["include"] = json!(["reasoning.encrypted_content"]);
    }
    if let Some(effort) = &request.reasoning_effort {
        body["reasoning"] = json!({ "effort": effort, "summary": "auto" });
    }
    if let Some(max) = request.max_output_tokens {
        body["max_output_tokens"] = json!(max);
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "strict": false,
            })
        });
        body["tools"] = tools.collect();
        body["parallel_tool_calls"] = json!(request.parallel_tools);
    }
    body
}

fn input(request: &ModelRequest, beginning: Option<&ReplyBeginning>) -> Vec<Value> {
    let messages = match request.messages.split_last() {
        Some((ModelMessage::Assistant(_), before)) => before,
        _ => &request.messages,
    };
    let mut items = Vec::new();
    for message in messages {
        match message {
            ModelMessage::User(parts) => items.push(user(content(parts))),
            ModelMessage::Assistant(message) => add_assistant(message, &mut items),
            ModelMessage::ToolResult {
                call_id,
                content: parts,
                is_error,
                ..
            } => items.push(json!({
                "type": "function_call_output",
                "call_id": portable_id(call_id),
                "output": output(parts, *is_error),
            })),
        }
    }
    if let Some(beginning) = beginning {
        items.push(assistant(&beginning.text));
        let ask = json!([{ "type": "input_text", "text": CONTINUE_REQUEST }]);
        items.push(user(ask));
    }
    items
}

fn user(content: Value) -> Value {
    json!({ "type": "message", "role": "user", "content": content })
}

fn assistant(text: &str) -> Value {
    let content = json!([{ "type": "output_text", "text": text }]);
    json!({ "type": "message", "role": "assistant", "content": content })
}

fn content(parts: &[MessagePart]) -> Value {
    let written = parts.iter().map(|part| match part {
        MessagePart::Text(text) => json!({ "type": "input_text", "text": text }),
        MessagePart::Image { mime_type, data } => {
            json!({ "type": "input_image", "image_url": data_url(mime_type, data) })
        }
    });
    written.collect()
}

fn output(parts: &[MessagePart], is_error: bool) -> Value {
    if has_images(parts) {
        return content(parts);
    }
    let text = joined_text(parts);
    if is_error {
        json!(format!("Error: {text}"))
    } else if text.is_empty() {
        json!(NO_TEXT)
    } else {
        json!(text)
    }
}

fn add_assistant(message: &AssistantMessage, items: &mut Vec<Value>) {
    for part in &message.parts {
        match part {
            AssistantPart::Text(text) => items.push(assistant(text)),
            AssistantPart::Reasoning {
                opaque: Some(item),
                protocol: ModelProtocol::Responses,
                ..
            } => items.push(item.clone()),
            AssistantPart::Reasoning { .. } => {}
            AssistantPart::ToolCall {
                id,
                name,
                arguments,
            } => items.push(json!({
                "type": "function_call",
                "call_id": portable_id(id),
                "name": name,
                "arguments": arguments_text(arguments),
            })),
        }
    }
}
