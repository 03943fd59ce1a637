//! The native agent: it talks to any model endpoint, uses tools, and keeps nothing in its process.
//!
//! | file | what |
//! |---|---|
//! | [`config`], [`tool_rules`] | how it works, as `cli` reads it |
//! | [`models`] | the models, each with its endpoint |
//! | [`spending`] | tokens, money and time, and their limits |
//! | [`conversation`], [`memory`], [`settings`] | one session: what is chosen, what was said |
//! | [`history_reader`], [`session_history`] | the session's log, as a model is told it |
//! | [`turn_record`], [`turn_loop`] | a turn: messages of the model and tool calls, step by step |
//! | [`model_step`] | a message of the model, and its rest if it broke off |
//! | [`compaction`] | a conversation that is too long is summed up |
//! | [`step_mark`] | what is kept in `_meta["baton/llm"]` |
//! | [`tool`], [`tool_run`], [`call_run`] | the tools, and how a call is carried out |
//! | [`permission`] | what is asked before |
//! | [`mcp_server`] | MCP servers of the session |
//! | [`mcp_tools`], [`mcp_prompts`] | their tools and prompts |
//! | [`mcp_call`], [`sampling`] | a call of such a tool, and what its server asks meanwhile |
//! | [`model`] | what is asked of a model and what it answers, whatever protocol it speaks |
//! | [`model_error`] | why a model did not answer, and what to do about it |
//! | [`provider`] | the protocols of model endpoints |

use std::sync::Arc;

use async_trait::async_trait;
use baton_session::store::AgentCard;
use serde_json::json;

use self::config::LlmConfig;
use self::conversation::LlmConversation;
use self::models::ModelEndpoints;
use super::{Agent, Conversation, Failure, SessionOpening};

mod call_run;
mod commands;
mod compaction;
pub mod config;
mod conversation;
mod history_reader;
mod mcp_call;
mod mcp_prompts;
pub mod mcp_server;
mod mcp_tools;
mod memory;
pub mod model;
pub mod model_error;
mod model_step;
mod models;
mod permission;
pub mod provider;
mod sampling;
mod session_history;
mod settings;
pub mod spending;
mod step_mark;
mod system_prompt;
pub mod tool;
pub mod tool_rules;
mod tool_run;
mod tool_view;
mod turn_context;
mod turn_loop;
mod turn_record;
mod user_content;

pub struct LlmAgent {
    config: Arc<LlmConfig>,
    endpoints: Arc<ModelEndpoints>,
}

impl LlmAgent {
    /// Fails if there is no model, or a URL or certificates cannot be used; does not connect.
    pub fn new(config: LlmConfig) -> Result<Self, String> {
        if config.models.is_empty() {
            return Err("there is no model".into());
        }
        let endpoints = ModelEndpoints::new(&config)?;
        Ok(Self {
            config: Arc::new(config),
            endpoints: Arc::new(endpoints),
        })
    }
}

#[async_trait]
impl Agent for LlmAgent {
    fn card(&self) -> AgentCard {
        let version = env!("CARGO_PKG_VERSION");
        AgentCard {
            name: "llm".into(),
            version: version.into(),
            initialize: json!({
                "protocolVersion": 1,
                "agentInfo": { "name": "llm", "title": "Baton's agent", "version": version },
                "agentCapabilities": {
                    "promptCapabilities": { "image": true, "embeddedContext": true },
                    "mcpCapabilities": { "http": true, "sse": true, "acp": true },
                },
                "authMethods": [],
            }),
        }
    }

    async fn open(&self, session: &SessionOpening) -> Result<Arc<dyn Conversation>, Failure> {
        let (config, endpoints) = (self.config.clone(), self.endpoints.clone());
        let conversation = LlmConversation::open(session, config, endpoints).await?;
        Ok(Arc::new(conversation))
    }
}
