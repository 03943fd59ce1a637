//! How the native agent works. Read in `cli`, handed down.

use std::sync::Arc;
use std::time::Duration;

use super::mcp_server::McpLaunch;
use super::provider::ProviderConfig;

#[derive(Clone)]
pub struct LlmConfig {
    pub provider: ProviderConfig,
    /// As the endpoint names them; the first is that of new sessions.
    pub models: Vec<String>,
    /// Tokens that fit into a model's context.
    pub context: u64,
    /// Instead of [`DEFAULT_PROMPT`](super::system_prompt::DEFAULT_PROMPT).
    pub system_prompt: Option<String>,
    /// Calls of a model in one turn.
    pub max_steps: usize,
    /// Of a tool's output, what the model gets.
    pub max_tool_output: usize,
    /// How MCP servers are started.
    pub mcp: Arc<McpLaunch>,
    /// How long an idle session stays at its worker.
    pub idle: Duration,
}
