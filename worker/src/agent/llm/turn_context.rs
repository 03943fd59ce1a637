//! The surroundings that every part of a turn needs.

use serde_json::{Value, json};

use super::config::LlmConfig;
use super::mcp_tools::McpServers;
use super::memory::LlmMemory;
use super::models::{ChosenModel, ModelEndpoints};
use crate::agent::Turn;

#[derive(Clone, Copy)]
pub struct TurnContext<'a> {
    pub turn: &'a Turn,
    pub memory: &'a LlmMemory,
    pub config: &'a LlmConfig,
    pub endpoints: &'a ModelEndpoints,
    pub servers: &'a McpServers,
    pub cwd: &'a str,
}

impl<'a> TurnContext<'a> {
    /// The model that is chosen now.
    pub fn model(&self) -> ChosenModel<'a> {
        let memory = self.memory.fields();
        self.endpoints.model(self.config, &memory.settings.model)
    }
}

/// A piece of a text or a thought.
pub fn text_chunk(kind: &str, id: &str, text: &str) -> Value {
    json!({
        "sessionUpdate": kind,
        "content": { "type": "text", "text": text },
        "messageId": id,
    })
}
