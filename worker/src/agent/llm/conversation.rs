//! One session of the native agent. All that it knows is in the session's log and state; what is
//! here is a copy, for as long as the worker holds the session.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use baton_protocol::{Method, compose};
use baton_session::id::SessionId;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::commands;
use super::config::LlmConfig;
use super::history_reader::HistoryReader;
use super::mcp_tools::McpServers;
use super::memory::{LlmMemory, MemoryFields};
use super::models::ModelEndpoints;
use super::session_history::SessionHistory;
use super::settings::{LlmSettings, ModelChoice};
use super::turn_context::TurnContext;
use super::turn_loop::TurnLoop;
use super::turn_record::TurnRecord;
use super::user_content::parts_of;
use crate::agent::{
    AgentMessage, CallResult, Conversation, ConversationChanges, Failure, ListenContext,
    SessionOpening, StopReason, Turn, raw,
};
use crate::rpc;

pub struct LlmConversation {
    config: Arc<LlmConfig>,
    endpoints: Arc<ModelEndpoints>,
    session: SessionId,
    cwd: String,
    servers: McpServers,
    memory: LlmMemory,
}

impl LlmConversation {
    /// Reads what the session's log and state say of it.
    pub async fn open(
        opening: &SessionOpening,
        config: Arc<LlmConfig>,
        endpoints: Arc<ModelEndpoints>,
    ) -> Result<Self, Failure> {
        let is_new = opening.state.is_empty();
        let models = config.models.iter().map(|model| ModelChoice {
            id: model.id.clone(),
            title: model.title.clone(),
        });
        let models: Vec<ModelChoice> = models.collect();
        let settings = if is_new {
            LlmSettings::new(&models)
        } else {
            LlmSettings::read(&opening.state, &models)?
        };
        let history = SessionHistory::new(config.longest_context());
        let mut reader = HistoryReader::new(history, settings.clone());
        opening.replay_log(|event| reader.read(event)).await?;
        if !is_new {
            // The state has the choices that were made last, also outside of turns.
            reader.settings = settings.told_as(&reader.settings);
        }
        Ok(Self {
            servers: McpServers::of(opening, &config.mcp),
            config,
            endpoints,
            session: opening.session.clone(),
            cwd: opening.cwd.clone(),
            memory: LlmMemory::new(MemoryFields {
                history: reader.history,
                settings: reader.settings,
                running: reader.running,
                used: reader.used,
                unsaved: is_new,
            }),
        })
    }

    /// The turn as far as it has come.
    fn record(&self, turn: &Turn, prompt: &Value) -> TurnRecord {
        let running = self.memory.fields().running.take();
        if let Some(running) = running {
            if turn.was_interrupted() {
                turn.resume_from_log();
                return running;
            }
            // A prompt that had no id to be answered by.
            self.memory.fields().history.add(&running);
        }
        TurnRecord {
            user: parts_of(&prompt["prompt"]),
            ..TurnRecord::default()
        }
    }
}

/// Never, if there is no limit.
async fn passed(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChosenMode {
    mode_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChosenOption {
    config_id: String,
    value: Value,
}

#[async_trait]
impl Conversation for LlmConversation {
    async fn prompt(&self, turn: &Turn, prompt: &AgentMessage) -> Result<Box<RawValue>, Failure> {
        let prompt: Value = rpc::read(prompt.params())?;
        let mut record = self.record(turn, &prompt);
        let turn_loop = TurnLoop(TurnContext {
            turn,
            memory: &self.memory,
            config: &self.config,
            endpoints: &self.endpoints,
            servers: &self.servers,
            cwd: &self.cwd,
        });
        let time_left = self.config.limits.turn.time_left(record.used);
        let outcome = tokio::select! {
            biased;
            () = turn.cancelled() => Some(Ok(StopReason::Cancelled)),
            outcome = turn_loop.run(&mut record) => Some(outcome),
            () = passed(time_left) => None,
        };
        turn_loop.close(&mut record).await;
        let outcome = match outcome {
            Some(outcome) => outcome,
            None => Ok(turn_loop.end_of_time(&mut record).await),
        };
        self.memory.fields().history.add(&record);
        outcome.map(StopReason::answer)
    }

    async fn call(&self, message: &AgentMessage) -> Result<CallResult, Failure> {
        let (method, params) = (message.method(), message.params());
        match Method::of(method) {
            Method::SetMode => {
                let ChosenMode { mode_id } = rpc::read(params)?;
                let update = self.memory.change(|settings| settings.set_mode(&mode_id))?;
                Ok(CallResult {
                    result: raw(&json!({})),
                    announces: Some(update),
                })
            }
            Method::SetConfigOption => {
                let ChosenOption { config_id, value } = rpc::read(params)?;
                let update = self
                    .memory
                    .change(|settings| settings.set(&config_id, &value))?;
                Ok(CallResult {
                    result: raw(&json!({ "configOptions": update["configOptions"] })),
                    announces: Some(update),
                })
            }
            Method::McpMessage => {
                self.servers.note(&rpc::read(params)?);
                Ok(CallResult {
                    result: raw(&json!({})),
                    announces: None,
                })
            }
            _ => Err(Failure::method_not_found(method)),
        }
    }

    /// Clients are told the commands once, as soon as there is a session.
    async fn listen(&self, stage: ListenContext<'_>) {
        if let ListenContext::Rest(rest) = stage
            && !self.memory.fields().settings.commands_said
        {
            self.memory.change(|settings| settings.commands_said = true);
            let session = self.session.as_str();
            rest.forward(compose::update(session, commands::announcement(&[])))
                .await;
        }
        std::future::pending().await
    }

    fn idle_timeout(&self) -> Option<Duration> {
        Some(self.config.idle)
    }

    fn view(&self) -> Bytes {
        self.memory.fields().settings.view().to_string().into()
    }

    fn changes(&self) -> ConversationChanges {
        let mut memory = self.memory.fields();
        if !std::mem::take(&mut memory.unsaved) {
            return ConversationChanges::default();
        }
        let state = serde_json::to_vec(&memory.settings).expect("plain data encodes");
        ConversationChanges {
            state: Some(state.into()),
            view: Some(memory.settings.view().to_string().into()),
        }
    }
}
