//! The response object: all its fields are there, whatever is known of them.

use std::fmt::Write as _;

use bytes::BytesMut;
use serde::Deserialize;
use serde_json::json;

use super::name::ResponseName;
use super::terms::{REPORTED, ResponseTerms};
use crate::door::RpcError;

/// How a response has ended.
#[derive(Debug, PartialEq, Eq)]
pub struct ResponseOutcome {
    pub status: &'static str,
    /// The last event of its stream.
    pub event: &'static str,
    /// Why it is not all that the agent would have said.
    pub incomplete: Option<&'static str>,
    /// The agent would not go on.
    pub refused: bool,
    /// Code and message.
    pub error: Option<(&'static str, String)>,
    pub usage: Option<TokenUsage>,
    /// When, in seconds since 1970, if its worker has written it down.
    pub at: Option<u64>,
}

/// As the answer to a prompt has it.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenUsage {
    input_tokens: u64,
    output_tokens: u64,
    total_tokens: u64,
    #[serde(default)]
    thought_tokens: Option<u64>,
    #[serde(default)]
    cached_read_tokens: Option<u64>,
}

impl ResponseOutcome {
    /// From the answer to the prompt.
    pub fn of(answer: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct PromptAnswer {
            result: PromptResult,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct PromptResult {
            stop_reason: String,
            #[serde(default)]
            usage: Option<TokenUsage>,
        }
        let read: Result<PromptAnswer, _> = serde_json::from_slice(answer);
        let Ok(PromptAnswer { result }) = read else {
            let error = RpcError::of(answer);
            return Self {
                error: Some(match error {
                    Some(error) => (error.code_name(), error.message),
                    None => ("server_error", "the agent's answer cannot be read".into()),
                }),
                ..Self::ended("failed", "response.failed")
            };
        };
        let incomplete = |reason| Self {
            incomplete: Some(reason),
            ..Self::ended("incomplete", "response.incomplete")
        };
        let mut outcome = match result.stop_reason.as_str() {
            "max_tokens" => incomplete("max_output_tokens"),
            "max_turn_requests" => incomplete("max_tool_calls"),
            "cancelled" => Self::ended("cancelled", "response.incomplete"),
            "refusal" => Self {
                refused: true,
                ..Self::ended("completed", "response.completed")
            },
            _ => Self::ended("completed", "response.completed"),
        };
        outcome.usage = result.usage;
        outcome
    }

    /// The turn waits for an answer.
    pub fn asked() -> Self {
        Self::ended("completed", "response.completed")
    }

    pub fn failed(code: &'static str, message: &str) -> Self {
        Self {
            error: Some((code, message.to_owned())),
            ..Self::ended("failed", "response.failed")
        }
    }

    fn ended(status: &'static str, event: &'static str) -> Self {
        Self {
            status,
            event,
            incomplete: None,
            refused: false,
            error: None,
            usage: None,
            at: None,
        }
    }
}

/// All that an object is made of.
pub struct ResponseObject<'a> {
    pub name: &'a ResponseName,
    pub terms: &'a ResponseTerms,
    pub status: &'a str,
    /// Items, with commas between them.
    pub output: &'a [u8],
    pub outcome: Option<&'a ResponseOutcome>,
}

impl ResponseObject<'_> {
    pub fn write(&self, to: &mut BytesMut) {
        let Self { name, terms, .. } = self;
        let outcome = self.outcome;
        let completed_at = outcome.and_then(|outcome| outcome.at);
        let completed_at = completed_at.filter(|_| self.status == "completed");
        let incomplete = outcome.and_then(|outcome| outcome.incomplete);
        let incomplete = incomplete.map(|reason| json!({ "reason": reason }));
        let error = outcome.and_then(|outcome| outcome.error.as_ref());
        let error = error.map(|(code, message)| json!({ "code": code, "message": message }));
        let usage = outcome.and_then(|outcome| outcome.usage.as_ref());
        let written = write!(
            to,
            "{{\"id\":\"{name}\",\"object\":\"response\",\"created_at\":{},\"completed_at\":{},\
             \"status\":\"{}\",\"incomplete_details\":{},\"model\":{},\
             \"previous_response_id\":{},\"error\":{},\"usage\":{},",
            terms.at,
            json!(completed_at),
            self.status,
            json!(incomplete),
            json!(terms.model),
            json!(terms.previous),
            json!(error),
            json!(usage.map(TokenUsage::reported)),
        );
        written.expect("a buffer grows");
        for (field, unsent) in REPORTED {
            let value = terms.field(field).unwrap_or(unsent);
            write!(to, "\"{field}\":{value},").expect("a buffer grows");
        }
        to.extend_from_slice(b"\"output\":[");
        to.extend_from_slice(self.output);
        to.extend_from_slice(b"]}");
    }
}

impl TokenUsage {
    fn reported(&self) -> serde_json::Value {
        json!({
            "input_tokens": self.input_tokens,
            "input_tokens_details": { "cached_tokens": self.cached_read_tokens.unwrap_or(0) },
            "output_tokens": self.output_tokens,
            "output_tokens_details": { "reasoning_tokens": self.thought_tokens.unwrap_or(0) },
            "total_tokens": self.total_tokens,
        })
    }
}
