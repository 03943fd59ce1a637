//! The interface of agents. An agent opens conversations; a conversation answers prompts through
//! the [`Turn`] it is given, and all its output goes into the session's log.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use baton_protocol::Method;
use baton_session::command::{ClientCapabilities, QueuedCommand};
use baton_session::event::Event;
use baton_session::id::{ConnectionId, LogId, SessionId};
use baton_session::store::{AgentCard, Claim, SessionSetup, Store};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

pub use crate::agent_policy::AgentMessage;
use crate::agent_policy::{AgentPolicy, OpeningFields};
pub use crate::conversation_changes::ConversationChanges;
use crate::mcp::AdmittedServer;
pub use crate::rpc::Failure;
pub(crate) use crate::rpc::raw;
pub use crate::stop_reason::StopReason;
use crate::store_retry::retry_while_unavailable;
pub use crate::turn::{BetweenTurns, Turn};

pub mod llm;
pub mod scripted;
pub mod stdio;

#[async_trait]
pub trait Agent: Send + Sync + 'static {
    fn card(&self) -> AgentCard;

    /// Whether so many sessions can be held at once. Others are left to other workers, or wait.
    fn room_for(&self, sessions: usize) -> AgentRoom {
        let _ = sessions;
        AgentRoom::Free
    }

    /// Opens a session anew, or as an earlier conversation left it.
    async fn open(&self, session: &SessionOpening) -> Result<Arc<dyn Conversation>, Failure>;
}

/// Room for sessions, as far as their agent's resources decide about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentRoom {
    Free,
    /// There will be when processes that were asked to end have ended.
    Soon,
    Full,
}

#[derive(Clone)]
pub struct SessionOpening {
    pub session: SessionId,
    /// The owner of the session.
    pub principal: String,
    pub cwd: String,
    /// The params of `session/new`.
    pub params: Bytes,
    /// Replaces values of the params; set by a later load, resume or fork.
    pub setup: SessionSetup,
    /// [`ConversationChanges::state`] of the conversation before, empty at first.
    pub state: Bytes,
    /// The client that asked first.
    pub client: Option<AskingClient>,
    /// The session's directories are beneath it, if there is such a rule.
    pub(crate) beneath: Option<PathBuf>,
    /// The MCP servers to work with, those that were admitted.
    servers: Vec<AdmittedServer>,
    policy: Arc<AgentPolicy>,
    store: Arc<dyn Store>,
}

impl SessionOpening {
    pub(crate) fn of(claim: &Claim, store: Arc<dyn Store>, policy: Arc<AgentPolicy>) -> Self {
        Self {
            session: claim.session.clone(),
            principal: claim.principal.clone(),
            cwd: claim.cwd.clone(),
            params: claim.params.clone(),
            setup: claim.setup.clone(),
            state: claim.state.clone(),
            client: claim.inbox.first().map(AskingClient::of),
            beneath: None,
            servers: Vec::new(),
            policy,
            store,
        }
    }

    /// Goes through all that was ever said, for an agent without a state: the session is new, was
    /// forked from the middle of another, or its agent cannot bring it back. It may be more than
    /// memory holds.
    pub async fn replay_log(&self, mut hear: impl FnMut(&Event)) -> Result<(), Failure> {
        let log = LogId::Session(self.session.clone());
        let mut next = 1;
        loop {
            // A Redis restart must not fail the waiting request.
            let page = retry_while_unavailable(|| self.store.read(&log, next, PAGE)).await;
            let page = page.map_err(|error| Failure::internal(error.to_string()))?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            let said = page.iter().flat_map(|frame| frame.numbered());
            said.filter(|(seq, _)| *seq >= next)
                .for_each(|(_, event)| hear(event));
            next = last.last() + 1;
        }
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// The MCP servers to work with, as the client or the operator has written them.
    pub fn mcp_servers(&self) -> &[AdmittedServer] {
        &self.servers
    }

    /// Filters what agents get from clients.
    pub(crate) fn policy(&self) -> &Arc<AgentPolicy> {
        &self.policy
    }

    /// How the session is opened at an agent, or brought back by the agent's own name for it.
    pub(crate) fn message(
        &self,
        method: Method,
        session: Option<&str>,
    ) -> Result<AgentMessage, Failure> {
        let opened = OpeningFields {
            stored: &self.params,
            cwd: &self.cwd,
            servers: &self.servers,
            directories: self.directories(),
            session,
        };
        self.policy.opening(method, opened)
    }

    pub(crate) fn admit(&mut self, servers: Vec<AdmittedServer>) {
        self.servers = servers;
    }

    /// The MCP servers that the client has named, whatever may become of them.
    pub(crate) fn asked_servers(&self) -> Result<Vec<&RawValue>, Failure> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct McpServersParams<'a> {
            #[serde(borrow, default)]
            mcp_servers: Vec<&'a RawValue>,
        }
        let read = match self.setup.mcp_servers.as_deref() {
            Some(given) => serde_json::from_slice(given),
            None => {
                serde_json::from_slice::<McpServersParams>(&self.params).map(|it| it.mcp_servers)
            }
        };
        read.map_err(|_| Failure::invalid_params("params.mcpServers must be an array, once"))
    }

    /// More directories to work in, a JSON array.
    pub fn directories(&self) -> Value {
        let given = self.setup.directories.as_deref();
        let given = given.and_then(|given| serde_json::from_slice(given).ok());
        given.unwrap_or_else(|| self.param("additionalDirectories"))
    }

    fn param(&self, name: &str) -> Value {
        let params: Value = serde_json::from_slice(&self.params).unwrap_or_default();
        params.get(name).cloned().unwrap_or_else(|| json!([]))
    }
}

/// A client that has asked something of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskingClient {
    pub connection: ConnectionId,
    /// As far as its token says them.
    pub capabilities: ClientCapabilities,
}

impl AskingClient {
    pub(crate) fn of(queued: &QueuedCommand) -> Self {
        Self {
            connection: queued.command.connection.clone(),
            capabilities: queued.command.client,
        }
    }
}

/// Frames per read from the store.
const PAGE: usize = 256;

/// A conversation is shared by the turn that runs and the commands that arrive meanwhile.
#[async_trait]
pub trait Conversation: Send + Sync {
    /// Runs one turn; `prompt` is the `session/prompt`, the result is its answer. When a turn is
    /// taken over it is run again from its beginning, and what it says again up to where it was is
    /// skipped: it must say the same things in the same order, or say that it cannot
    /// ([`Turn::discard_replay`]).
    async fn prompt(&self, turn: &Turn, prompt: &AgentMessage) -> Result<Box<RawValue>, Failure>;

    /// Any other call of a client, also while a turn runs.
    async fn call(&self, message: &AgentMessage) -> Result<CallResult, Failure>;

    /// The same for a notification.
    async fn notify(&self, message: &AgentMessage) -> Result<CallResult, Failure> {
        self.call(message).await
    }

    /// Passes on what the agent says of its own accord. Runs beside everything else as long as the
    /// session is held; returns if the agent is gone. It may be dropped wherever it waits, and is
    /// called again. A prompt is answered only when all that came before its answer was passed on.
    async fn listen(&self, stage: ListenContext<'_>) {
        let _ = stage;
        std::future::pending().await
    }

    /// How long the session stays at this worker when it is idle, because another worker would have
    /// to start its agent again. `None`: it is released at once.
    fn idle_timeout(&self) -> Option<Duration> {
        None
    }

    /// Whether another worker can resume a turn at any moment. One that cannot be moved has until
    /// the end of the grace period when its worker stops.
    fn can_move(&self) -> bool {
        true
    }

    /// Modes and config options as `session/new` and `session/load` answer them, a JSON object.
    fn view(&self) -> Bytes;

    /// Returns the state that changed since the last call. It is written together with the events
    /// up to now.
    fn changes(&self) -> ConversationChanges;
}

/// Where an agent's output goes.
#[derive(Clone, Copy)]
pub enum ListenContext<'a> {
    Turn(&'a Turn),
    /// Between turns.
    Rest(&'a BetweenTurns),
}

/// The answer to a [`Conversation::call`].
#[derive(Debug)]
pub struct CallResult {
    pub result: Box<RawValue>,
    /// An update for the other clients, if the agent has not sent one itself.
    pub announces: Option<Value>,
}
