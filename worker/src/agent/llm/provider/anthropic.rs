//! Anthropic Messages.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::answer::{AnswerDecoder, malformed};
use super::failures::FailureContext;
use super::reply_builder::ReplyBuilder;
use crate::agent::llm::model::ModelStop;
use crate::agent::llm::model_error::ModelError;
use crate::http_client::SseEvent;

pub use self::request::body;

mod request;

/// Blocks that are open at once; one is usual.
const MAX_OPEN: usize = 256;

#[derive(Default)]
pub struct AnthropicDecoder {
    open: HashMap<u64, ContentBlock>,
}

enum ContentBlock {
    Text,
    Thinking {
        signature: String,
    },
    Redacted {
        data: Value,
    },
    /// With the input that it began with, which counts if no pieces of it come.
    ToolUse {
        input: Value,
    },
    /// A block of a kind that was not asked for.
    Other,
}

impl AnswerDecoder for AnthropicDecoder {
    fn read(
        &mut self,
        event: &SseEvent,
        reply: &mut ReplyBuilder,
        context: &FailureContext,
    ) -> Result<(), ModelError> {
        let news: Value = serde_json::from_slice(&event.data)
            .map_err(|_| malformed("not JSON", event, context))?;
        let key = news["index"].as_u64().unwrap_or_default();
        match news["type"].as_str() {
            Some("message_start") => {
                read_usage(&news["message"]["usage"], reply);
                Ok(())
            }
            Some("content_block_start") => self.begin(key, &news["content_block"], reply),
            Some("content_block_delta") => self.grow(key, &news["delta"], reply),
            Some("content_block_stop") => self.end(key, reply),
            Some("message_delta") => {
                read_usage(&news["usage"], reply);
                if let Some(reason) = news["delta"]["stop_reason"].as_str() {
                    reply.stop(stop(reason));
                }
                Ok(())
            }
            Some("message_stop") => {
                reply.finish();
                Ok(())
            }
            Some("error") => Err(context.reported(&news["error"])),
            // Pings, and what is not known.
            Some(_) => Ok(()),
            None => Err(match news.get("error") {
                Some(error) => context.reported(error),
                None => malformed("an event without a type", event, context),
            }),
        }
    }
}

impl AnthropicDecoder {
    fn begin(
        &mut self,
        key: u64,
        block: &Value,
        reply: &mut ReplyBuilder,
    ) -> Result<(), ModelError> {
        let text = |member: &str| block[member].as_str().unwrap_or_default();
        let begun = match text("type") {
            "text" => {
                reply.text(text("text"))?;
                ContentBlock::Text
            }
            "thinking" => {
                reply.count(text("signature"))?;
                reply.reasoning(text("thinking"))?;
                ContentBlock::Thinking {
                    signature: text("signature").to_owned(),
                }
            }
            "redacted_thinking" => ContentBlock::Redacted {
                data: counted(&block["data"], reply)?,
            },
            "tool_use" => {
                let input = counted(&block["input"], reply)?;
                reply.call(key, text("id"), text("name"))?;
                ContentBlock::ToolUse { input }
            }
            _ => ContentBlock::Other,
        };
        if self.open.len() >= MAX_OPEN {
            let detail = format!("more than {MAX_OPEN} blocks at once");
            return Err(ModelError::TooLarge { detail });
        }
        self.open.insert(key, begun);
        Ok(())
    }

    fn grow(
        &mut self,
        key: u64,
        delta: &Value,
        reply: &mut ReplyBuilder,
    ) -> Result<(), ModelError> {
        let text = |member: &str| delta[member].as_str().unwrap_or_default();
        match delta["type"].as_str() {
            Some("text_delta") => reply.text(text("text")),
            Some("thinking_delta") => reply.reasoning(text("thinking")),
            Some("signature_delta") => {
                if let Some(ContentBlock::Thinking { signature }) = self.open.get_mut(&key) {
                    reply.count(text("signature"))?;
                    signature.push_str(text("signature"));
                }
                Ok(())
            }
            Some("input_json_delta") => {
                let piece = text("partial_json");
                if !piece.is_empty()
                    && let Some(ContentBlock::ToolUse { input }) = self.open.get_mut(&key)
                {
                    *input = Value::Null;
                }
                reply.arguments(key, piece)
            }
            _ => Ok(()),
        }
    }

    fn end(&mut self, key: u64, reply: &mut ReplyBuilder) -> Result<(), ModelError> {
        match self.open.remove(&key) {
            Some(ContentBlock::Thinking { signature }) if signature.is_empty() => {
                reply.seal_reasoning(None)
            }
            Some(ContentBlock::Thinking { signature }) => {
                reply.seal_reasoning(Some(json!({ "signature": signature })))
            }
            Some(ContentBlock::Redacted { data }) => {
                reply.seal_reasoning(None)?;
                reply.seal_reasoning(Some(json!({ "data": data })))
            }
            Some(ContentBlock::ToolUse { input }) if input.is_object() => {
                reply.arguments(key, &input.to_string())
            }
            _ => Ok(()),
        }
    }
}

/// What is kept until its block ends counts from the beginning: many blocks may be open.
fn counted(value: &Value, reply: &mut ReplyBuilder) -> Result<Value, ModelError> {
    reply.count(&value.to_string())?;
    Ok(value.clone())
}

fn stop(reason: &str) -> ModelStop {
    match reason {
        "tool_use" => ModelStop::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => ModelStop::MaxTokens,
        "refusal" => ModelStop::Refusal,
        "pause_turn" => ModelStop::Paused,
        _ => ModelStop::EndTurn,
    }
}

/// Input tokens are told apart by where they came from; later counts replace earlier ones.
fn read_usage(usage: &Value, reply: &mut ReplyBuilder) {
    let count = |member: &str| usage[member].as_u64();
    let said = &mut reply.usage;
    let (read, written) = (
        count("cache_read_input_tokens").unwrap_or(said.cached_input),
        count("cache_creation_input_tokens").unwrap_or(said.cache_written),
    );
    let fresh = said.input - said.cached_input - said.cache_written;
    said.input = count("input_tokens").unwrap_or(fresh) + read + written;
    (said.cached_input, said.cache_written) = (read, written);
    said.output = count("output_tokens").unwrap_or(said.output);
}
