//! The built-in agent: deterministic, and able to exercise the whole protocol. The demo, the tests
//! and the load tests talk to it. Each line of a prompt is a directive; other text is echoed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use baton_protocol::{Method, update};
use baton_session::event::Event;
use baton_session::store::AgentCard;
use baton_session::sync::MutexExt as _;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};

use self::directive::{ScriptDirective, lines};
use self::options::ScriptedOptions;
use super::{
    Agent, AgentMessage, CallResult, Conversation, ConversationChanges, Failure, SessionOpening,
    StopReason, Turn, raw,
};
use crate::rpc;

mod directive;
mod options;
mod perform;

pub struct ScriptedAgent;

#[async_trait]
impl Agent for ScriptedAgent {
    fn card(&self) -> AgentCard {
        let version = env!("CARGO_PKG_VERSION");
        AgentCard {
            name: "scripted".into(),
            version: version.into(),
            initialize: json!({
                "protocolVersion": 1,
                "agentInfo": {
                    "name": "scripted", "title": "Baton's scripted agent", "version": version,
                },
                "agentCapabilities": {
                    "promptCapabilities": { "image": true, "audio": true, "embeddedContext": true },
                    "mcpCapabilities": { "http": true, "sse": true, "acp": true },
                },
                "authMethods": [],
            }),
        }
    }

    async fn open(&self, session: &SessionOpening) -> Result<Arc<dyn Conversation>, Failure> {
        let is_new = session.state.is_empty();
        let mut memory = ScriptedState::default();
        if is_new {
            session.replay_log(|event| memory.recall(event)).await?;
        } else {
            memory = serde_json::from_slice(&session.state).map_err(|e| {
                Failure::internal(format!("the session's state cannot be read: {e}"))
            })?;
        }
        memory.unsaved = UnsavedFlags {
            state: is_new,
            view: is_new,
        };
        Ok(Arc::new(ScriptedConversation {
            memory: Mutex::new(memory),
            servers: ScriptedServers::of(session),
        }))
    }
}

struct ScriptedServers {
    /// The text that `/servers` prints.
    said: String,
    /// Those that live in the client: their ids by their names.
    in_client: HashMap<String, String>,
}

impl ScriptedServers {
    fn of(session: &SessionOpening) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let list = |all: &[Value], read: fn(&Value) -> &Value| {
            let all: Vec<String> = all.iter().filter_map(|it| text(read(it))).collect();
            all.join(", ")
        };
        let all = json!(session.mcp_servers());
        let all = all.as_array().map_or(&[][..], Vec::as_slice);
        let directories = session.directories();
        let directories = directories.as_array().map_or(&[][..], Vec::as_slice);
        let (servers, directories) = (list(all, |it| &it["name"]), list(directories, |it| it));
        let in_client = all.iter().filter(|server| server["type"] == "acp");
        let in_client =
            in_client.filter_map(|it| Some((text(&it["name"])?, text(&it["serverId"])?)));
        Self {
            said: format!("servers: {servers}; directories: {directories} "),
            in_client: in_client.collect(),
        }
    }
}

/// The agent's state between turns.
#[derive(Clone, Default, Serialize, Deserialize)]
struct ScriptedState {
    /// Prompts answered so far.
    prompts: u64,
    options: ScriptedOptions,
    #[serde(skip)]
    unsaved: UnsavedFlags,
}

impl ScriptedState {
    /// Out of what was said, for a session that is new or was forked from the middle of another.
    fn recall(&mut self, event: &Event) {
        match event {
            Event::Begin(_) => self.prompts += 1,
            Event::Update { message, .. } => {
                if let Some(update) = update::read::<Value>(message) {
                    self.options.recall(&update);
                }
            }
            _ => {}
        }
    }
}

/// The parts that the store does not have yet.
#[derive(Clone, Copy, Default)]
struct UnsavedFlags {
    state: bool,
    view: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SetMode {
    mode_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SetOption {
    config_id: String,
    value: Value,
}

struct ScriptedConversation {
    memory: Mutex<ScriptedState>,
    servers: ScriptedServers,
}

impl ScriptedConversation {
    fn memory(&self) -> MutexGuard<'_, ScriptedState> {
        self.memory.locked()
    }

    /// Makes a change that is known to be possible.
    fn change_again(&self, change: impl FnOnce(&mut ScriptedOptions) -> Result<Value, Failure>) {
        let _ = self.change_options(change);
    }

    /// Makes a change of the options and returns the update that announces it.
    fn change_options(
        &self,
        change: impl FnOnce(&mut ScriptedOptions) -> Result<Value, Failure>,
    ) -> Result<Value, Failure> {
        let mut memory = self.memory();
        let update = change(&mut memory.options)?;
        memory.unsaved.state = true;
        memory.unsaved.view = true;
        Ok(update)
    }
}

#[async_trait]
impl Conversation for ScriptedConversation {
    async fn prompt(&self, turn: &Turn, prompt: &AgentMessage) -> Result<Box<RawValue>, Failure> {
        #[derive(Deserialize)]
        struct ScriptParams<'a> {
            #[serde(borrow)]
            prompt: &'a RawValue,
        }
        let ScriptParams { prompt } = rpc::read(prompt.params())?;
        // Counted when the turn ends, so that a turn run again has the same number.
        let ordinal = self.memory().prompts + 1;
        let script = lines(prompt)?;
        let outcome = tokio::select! {
            biased;
            _ = turn.cancelled() => Ok(StopReason::Cancelled),
            outcome = self.play(turn, ordinal, &script) => outcome,
        };
        let mut memory = self.memory();
        memory.prompts = ordinal;
        memory.unsaved.state = true;
        outcome.map(StopReason::answer)
    }

    async fn call(&self, message: &AgentMessage) -> Result<CallResult, Failure> {
        let (method, params) = (message.method(), message.params());
        match Method::of(method) {
            Method::SetMode => {
                let SetMode { mode_id } = rpc::read(params)?;
                let update = self.change_options(|options| options.set_mode(&mode_id))?;
                Ok(CallResult {
                    result: raw(&json!({})),
                    announces: Some(update),
                })
            }
            Method::SetConfigOption => {
                let SetOption { config_id, value } = rpc::read(params)?;
                let update = self.change_options(|options| options.set(&config_id, &value))?;
                Ok(CallResult {
                    result: raw(&json!({ "configOptions": update["configOptions"] })),
                    announces: Some(update),
                })
            }
            Method::McpMessage => Ok(CallResult {
                result: raw(&json!({})),
                announces: Some(perform::overheard(params)?),
            }),
            _ => Err(Failure::method_not_found(method)),
        }
    }

    fn view(&self) -> Bytes {
        self.memory().options.view().to_string().into()
    }

    fn changes(&self) -> ConversationChanges {
        let mut memory = self.memory();
        let unsaved = std::mem::take(&mut memory.unsaved);
        let state = || {
            serde_json::to_vec(&*memory)
                .expect("plain data encodes")
                .into()
        };
        ConversationChanges {
            state: unsaved.state.then(state),
            view: unsaved
                .view
                .then(|| memory.options.view().to_string().into()),
        }
    }
}

impl ScriptedConversation {
    async fn play(
        &self,
        turn: &Turn,
        ordinal: u64,
        script: &[ScriptDirective],
    ) -> Result<StopReason, Failure> {
        for directive in script {
            if let Some(reason) = self.perform(turn, ordinal, directive).await? {
                return Ok(reason);
            }
        }
        Ok(StopReason::EndTurn)
    }
}
