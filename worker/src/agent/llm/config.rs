//! How the native agent works. Read in `cli`, handed down.

use std::sync::Arc;
use std::time::Duration;

use super::mcp_server::McpLaunch;
use super::provider::ProviderConfig;
use super::spending::{TokenPrices, UsageLimits};
use super::tool_rules::ToolRules;
use crate::metrics::ModelMetrics;

#[derive(Clone)]
pub struct LlmConfig {
    pub endpoints: Vec<ProviderConfig>,
    /// To choose from; the first is the default.
    pub models: Vec<ModelConfig>,
    /// Instead of [`DEFAULT_PROMPT`](super::system_prompt::DEFAULT_PROMPT).
    pub system_prompt: Option<String>,
    /// Calls of a model in one turn.
    pub max_steps: usize,
    /// Of a tool's output, what the model gets.
    pub max_tool_output: usize,
    /// Several tool calls of one message are carried out at the same time.
    pub parallel_tools: bool,
    pub limits: UsageLimits,
    pub rules: ToolRules,
    /// How MCP servers are started.
    pub mcp: Arc<McpLaunch>,
    /// How long an idle session stays at its worker.
    pub idle: Duration,
    pub metrics: ModelMetrics,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// As it is chosen.
    pub id: String,
    /// As clients show it.
    pub title: String,
    /// As its endpoint knows it.
    pub name: String,
    /// Which of the endpoints has it.
    pub endpoint: usize,
    /// Tokens that fit into its context.
    pub context: u64,
    pub max_output: Option<u32>,
    pub prices: Option<TokenPrices>,
}

impl ModelConfig {
    /// Of the first endpoint, by its own name.
    pub fn named(name: &str, context: u64) -> Self {
        Self {
            id: name.to_owned(),
            title: name.to_owned(),
            name: name.to_owned(),
            endpoint: 0,
            context,
            max_output: None,
            prices: None,
        }
    }
}

impl LlmConfig {
    /// One endpoint, and all else as it is by default.
    pub fn new(endpoint: ProviderConfig, models: Vec<ModelConfig>, mcp: Arc<McpLaunch>) -> Self {
        Self {
            endpoints: vec![endpoint],
            models,
            system_prompt: None,
            max_steps: 100,
            max_tool_output: 64 << 10,
            parallel_tools: true,
            limits: UsageLimits::default(),
            rules: ToolRules::default(),
            mcp,
            idle: Duration::from_secs(60),
            metrics: ModelMetrics::default(),
        }
    }

    /// The longest context of all models, in tokens.
    pub fn longest_context(&self) -> u64 {
        let all = self.models.iter().map(|model| model.context);
        all.max().unwrap_or_default()
    }

    /// Whether anything has a price.
    pub fn has_prices(&self) -> bool {
        self.models.iter().any(|model| model.prices.is_some())
    }
}
