//! What is asked of a model and what it answers, whatever protocol its endpoint speaks. The
//! messages are kept in the log of a session, so their form may only grow.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One call of a model.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// The name by which the endpoint knows the model.
    pub model: String,
    /// May be empty.
    pub system: String,
    /// If the last one is of the assistant, the stream broke off there, and the model is to go on
    /// after exactly this beginning.
    pub messages: Vec<ModelMessage>,
    pub tools: Arc<[ToolDefinition]>,
    /// Every protocol but one has a limit of its own; Anthropic Messages demands one, and gets
    /// [`DEFAULT_OUTPUT_TOKENS`].
    pub max_output_tokens: Option<u32>,
    /// As the endpoint knows it: `low`, `medium`, `high` and the like. `None`: as the model does
    /// by itself.
    pub reasoning_effort: Option<String>,
    /// Whether the model may ask for several tools at once.
    pub parallel_tools: bool,
}

pub const DEFAULT_OUTPUT_TOKENS: u32 = 16_384;

/// A tool as the model sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    pub name: String,
    pub description: String,
    /// The JSON schema of its arguments, an object.
    pub parameters: Value,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelMessage {
    User(Vec<MessagePart>),
    Assistant(AssistantMessage),
    /// The answer to a tool call of the assistant's message before. Every call has to have one
    /// before the next message of user or assistant.
    ToolResult {
        call_id: String,
        tool: String,
        content: Vec<MessagePart>,
        is_error: bool,
    },
}

/// A piece of what is said to a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessagePart {
    Text(String),
    Image {
        mime_type: String,
        /// Base64, as ACP and all protocols have it.
        data: String,
    },
}

/// A message of the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AssistantMessage {
    pub parts: Vec<AssistantPart>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AssistantPart {
    Text(String),
    Reasoning {
        /// May be empty, if the model keeps its reasoning to itself.
        text: String,
        /// A signature, encrypted content and the like: goes back unchanged to an endpoint of the
        /// same protocol, and is left out for any other.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opaque: Option<Value>,
        protocol: ModelProtocol,
    },
    ToolCall {
        id: String,
        name: String,
        /// JSON as the model wrote it, which may be malformed. No arguments at all are `{}`.
        arguments: String,
    },
}

/// How an endpoint is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelProtocol {
    /// OpenAI Chat Completions, which most servers speak.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Anthropic,
}

/// A piece of an answer. Texts are never empty.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelEvent {
    Text(String),
    Reasoning(String),
    /// A tool call begins. Calls may be interleaved: `index` says which one arguments belong to,
    /// and counts from zero in the order in which they began.
    ToolCall {
        index: usize,
        id: String,
        name: String,
    },
    /// The next piece of the call's arguments.
    ToolArguments {
        index: usize,
        text: String,
    },
    /// The last event.
    Done(Box<ModelReply>),
}

/// A complete answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelReply {
    /// All of it; if a beginning was continued, with that beginning.
    pub message: AssistantMessage,
    pub stop: ModelStop,
    pub usage: TokenUsage,
}

/// Why the model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelStop {
    EndTurn,
    ToolCalls,
    MaxTokens,
    Refusal,
    /// The endpoint has paused a long answer: the message goes back as it is, to be continued.
    Paused,
}

/// Tokens of one call; zero where the endpoint does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenUsage {
    /// All that was read, from a cache or not.
    pub input: u64,
    /// The part of `input` that came from a cache.
    pub cached_input: u64,
    /// The part of `input` that was written into a cache.
    pub cache_written: u64,
    /// All that was written, with reasoning.
    pub output: u64,
    /// The part of `output` that is reasoning.
    pub reasoning: u64,
}

impl AssistantMessage {
    /// All that was said aloud.
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            AssistantPart::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    pub fn has_tool_calls(&self) -> bool {
        let mut parts = self.parts.iter();
        parts.any(|part| matches!(part, AssistantPart::ToolCall { .. }))
    }
}
