//! OpenAI Responses, without anything kept by the endpoint: reasoning goes back encrypted.

use std::collections::HashSet;

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
pub struct ResponsesDecoder {
    /// Output items whose text came in pieces. Bounded by the bytes of the pieces.
    told: HashSet<u64>,
}

impl AnswerDecoder for ResponsesDecoder {
    fn read(
        &mut self,
        event: &SseEvent,
        reply: &mut ReplyBuilder,
        context: &FailureContext,
    ) -> Result<(), ModelError> {
        // Some servers end like Chat Completions.
        if event.data.trim_ascii() == b"[DONE]" {
            return Ok(());
        }
        let news: Value = serde_json::from_slice(&event.data)
            .map_err(|_| malformed("not JSON", event, context))?;
        let kind = news["type"].as_str().unwrap_or(&event.name);
        let key = news["output_index"].as_u64().unwrap_or_default();
        let delta = news["delta"].as_str().unwrap_or_default();
        match kind {
            "response.output_text.delta" | "response.refusal.delta" if !delta.is_empty() => {
                self.told.insert(key);
                if kind.contains("refusal") {
                    reply.stop(ModelStop::Refusal);
                }
                reply.text(delta)
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                reply.reasoning(delta)
            }
            "response.reasoning_summary_part.added" if news["summary_index"].as_u64() > Some(0) => {
                reply.reasoning("\n\n")
            }
            "response.function_call_arguments.delta" => reply.arguments(key, delta),
            "response.function_call_arguments.done" => {
                let whole = news["arguments"].as_str().unwrap_or_default();
                reply.whole_arguments(key, whole)
            }
            "response.output_item.added" => begin_item(key, &news["item"], reply),
            "response.output_item.done" => self.end_item(key, &news["item"], reply),
            "response.completed" | "response.incomplete" => {
                read_usage(&news["response"]["usage"], reply);
                if kind == "response.incomplete" {
                    let reason = &news["response"]["incomplete_details"]["reason"];
                    reply.stop(match reason.as_str() {
                        Some("content_filter") => ModelStop::Refusal,
                        _ => ModelStop::MaxTokens,
                    });
                }
                reply.stop(ModelStop::EndTurn);
                reply.finish();
                Ok(())
            }
            "response.failed" => Err(context.reported(&news["response"]["error"])),
            "error" => Err(context.reported(news.get("error").unwrap_or(&news))),
            "" => Err(match news.get("error") {
                Some(error) => context.reported(error),
                None => malformed("an event without a type", event, context),
            }),
            _ => Ok(()),
        }
    }
}

fn begin_item(key: u64, item: &Value, reply: &mut ReplyBuilder) -> Result<(), ModelError> {
    if item["type"] != "function_call" {
        return Ok(());
    }
    let id = item["call_id"].as_str().or(item["id"].as_str());
    let name = item["name"].as_str().unwrap_or_default();
    reply.call(key, id.unwrap_or_default(), name)?;
    reply.arguments(key, item["arguments"].as_str().unwrap_or_default())
}

impl ResponsesDecoder {
    /// An item as a whole, after its pieces or instead of them.
    fn end_item(
        &mut self,
        key: u64,
        item: &Value,
        reply: &mut ReplyBuilder,
    ) -> Result<(), ModelError> {
        match item["type"].as_str() {
            Some("reasoning") => {
                let encrypted = item["encrypted_content"].is_string();
                reply.seal_reasoning(encrypted.then(|| item.clone()))
            }
            Some("function_call") => {
                let id = item["call_id"].as_str().or(item["id"].as_str());
                let name = item["name"].as_str().unwrap_or_default();
                reply.call(key, id.unwrap_or_default(), name)?;
                reply.whole_arguments(key, item["arguments"].as_str().unwrap_or_default())
            }
            Some("message") if !self.told.contains(&key) => {
                let parts = item["content"].as_array();
                for part in parts.into_iter().flatten() {
                    reply.text(part["text"].as_str().unwrap_or_default())?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn read_usage(usage: &Value, reply: &mut ReplyBuilder) {
    let count = |value: &Value| value.as_u64().unwrap_or_default();
    reply.usage.input = count(&usage["input_tokens"]);
    reply.usage.cached_input = count(&usage["input_tokens_details"]["cached_tokens"]);
    reply.usage.output = count(&usage["output_tokens"]);
    reply.usage.reasoning = count(&usage["output_tokens_details"]["reasoning_tokens"]);
}
