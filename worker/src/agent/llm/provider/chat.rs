//! OpenAI Chat Completions, as many servers speak it.

use serde_json::Value;

use super::answer::{AnswerDecoder, malformed};
use super::failures::FailureContext;
use super::reply_builder::ReplyBuilder;
use crate::agent::llm::model::ModelStop;
use crate::agent::llm::model_error::ModelError;
use crate::http_client::SseEvent;

pub use self::request::body;

mod request;

#[derive(Default)]
pub struct ChatDecoder {
    /// The member in which reasoning came: it goes back in the same.
    reasoning_member: Option<&'static str>,
    /// `reasoning_details` of OpenRouter, which go back unchanged.
    details: Vec<Value>,
    /// The key of the call to which a piece without an index belongs.
    last_call: Option<u64>,
}

const REASONING_MEMBERS: [&str; 2] = ["reasoning_content", "reasoning"];

impl AnswerDecoder for ChatDecoder {
    fn read(
        &mut self,
        event: &SseEvent,
        reply: &mut ReplyBuilder,
        context: &FailureContext,
    ) -> Result<(), ModelError> {
        if event.data.trim_ascii() == b"[DONE]" {
            self.seal(reply)?;
            reply.finish();
            return Ok(());
        }
        let chunk: Value = serde_json::from_slice(&event.data)
            .map_err(|_| malformed("not JSON", event, context))?;
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            return Err(context.reported(error));
        }
        if !chunk.is_object() {
            return Err(malformed("not a chunk", event, context));
        }
        read_usage(&chunk["usage"], reply);
        let Some(choice) = chunk["choices"].get(0) else {
            return Ok(());
        };
        self.read_delta(&choice["delta"], reply)?;
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.seal(reply)?;
            reply.stop(match reason {
                "length" => ModelStop::MaxTokens,
                "content_filter" => ModelStop::Refusal,
                "tool_calls" | "function_call" => ModelStop::ToolCalls,
                "error" => return Err(context.reported(choice)),
                _ => ModelStop::EndTurn,
            });
        }
        Ok(())
    }
}

impl ChatDecoder {
    fn read_delta(&mut self, delta: &Value, reply: &mut ReplyBuilder) -> Result<(), ModelError> {
        // The same text may come under both names.
        let named = REASONING_MEMBERS.iter();
        let named = named.filter_map(|member| Some((*member, delta[*member].as_str()?)));
        let mut named = named.filter(|(_, text)| !text.is_empty());
        if let Some((member, text)) = named.next() {
            self.reasoning_member = Some(member);
            reply.reasoning(text)?;
        }
        if let Some(details) = delta["reasoning_details"].as_array() {
            reply.count(&delta["reasoning_details"].to_string())?;
            self.details.extend(details.iter().cloned());
        }
        match &delta["content"] {
            Value::String(text) if !text.is_empty() => {
                self.seal(reply)?;
                reply.text(text)?;
            }
            Value::Array(parts) => {
                for part in parts {
                    self.read_part(part, reply)?;
                }
            }
            _ => {}
        }
        if let Some(refusal) = delta["refusal"].as_str().filter(|text| !text.is_empty()) {
            reply.text(refusal)?;
            reply.stop(ModelStop::Refusal);
        }
        let calls = delta["tool_calls"].as_array();
        for call in calls.into_iter().flatten() {
            self.seal(reply)?;
            self.read_call(call, reply)?;
        }
        Ok(())
    }

    /// Mistral sends thoughts as parts of the content.
    fn read_part(&mut self, part: &Value, reply: &mut ReplyBuilder) -> Result<(), ModelError> {
        let thoughts = part["thinking"].as_array();
        for thought in thoughts.into_iter().flatten() {
            reply.reasoning(thought["text"].as_str().unwrap_or_default())?;
        }
        let text = part["text"].as_str().unwrap_or_default();
        if !text.is_empty() {
            self.seal(reply)?;
        }
        reply.text(text)
    }

    fn read_call(&mut self, call: &Value, reply: &mut ReplyBuilder) -> Result<(), ModelError> {
        let id = call["id"].as_str().unwrap_or_default();
        let function = &call["function"];
        let name = function["name"].as_str().unwrap_or_default();
        let last = self.last_call.unwrap_or_default();
        let key = match call["index"].as_u64() {
            Some(index) => index,
            // Without an index, a name begins another call.
            None if name.is_empty() => last,
            None => self.last_call.map_or(0, |last| last + 1),
        };
        self.last_call = Some(key);
        reply.call(key, id, name)?;
        match &function["arguments"] {
            Value::String(text) => reply.arguments(key, text),
            Value::Null => Ok(()),
            whole => reply.whole_arguments(key, &whole.to_string()),
        }
    }

    /// Reasoning ends where something else begins.
    fn seal(&mut self, reply: &mut ReplyBuilder) -> Result<(), ModelError> {
        let details = std::mem::take(&mut self.details);
        let member = self.reasoning_member.take();
        if !details.is_empty() {
            let details = serde_json::json!({ "reasoning_details": details });
            reply.seal_reasoning(Some(details))
        } else if let Some(member) = member {
            reply.seal_reasoning(Some(serde_json::json!({ "member": member })))
        } else {
            Ok(())
        }
    }
}

fn read_usage(usage: &Value, reply: &mut ReplyBuilder) {
    let count = |value: &Value| value.as_u64().unwrap_or_default();
    if usage.is_object() {
        let cached = &usage["prompt_tokens_details"]["cached_tokens"];
        let said = &mut reply.usage;
        said.input = count(&usage["prompt_tokens"]);
        // DeepSeek has a name of its own.
        said.cached_input = count(cached).max(count(&usage["prompt_cache_hit_tokens"]));
        said.output = count(&usage["completion_tokens"]);
        said.reasoning = count(&usage["completion_tokens_details"]["reasoning_tokens"]);
    }
}
