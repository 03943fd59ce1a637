//! The interface of agents. An agent opens conversations; a conversation answers prompts through
//! the [`Turn`] it is given, and all its output goes into the session's log.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use baton_protocol::Method;
use baton_protocol::limits::{MAX_STATE, MAX_VIEW};
use baton_session::command::{ClientCapabilities, QueuedCommand};
use baton_session::event::Event;
use baton_session::id::{ConnectionId, LogId, SessionId};
use baton_session::store::{AgentCard, Claim, SessionSetup, Store};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

pub use crate::agent_policy::AgentMessage;
use crate::agent_policy::{AgentPolicy, OpeningFields};
use crate::event_writer::retry_while_unavailable;
pub use crate::rpc::Failure;
pub use crate::turn::{BetweenTurns, Turn};

pub mod scripted;
pub mod stdio;

#[async_trait]
pub trait Agent: Send + Sync + 'static {
    fn card(&self) -> AgentCard;

    /// Opens a session anew, or as an earlier conversation left it.
    async fn open(&self, session: &SessionOpening) -> Result<Arc<dyn Conversation>, Failure>;
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
    servers: Vec<Box<RawValue>>,
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

    /// Goes through all that was ever said, for an agent without a state: the session is new, was forked from
    /// the middle of another, or its agent cannot bring it back. It may be more than memory holds.
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
    pub fn mcp_servers(&self) -> &[Box<RawValue>] {
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

    pub(crate) fn admit(&mut self, servers: Vec<Box<RawValue>>) {
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
    /// session is held; returns if the agent is gone. It may be dropped wherever it waits, and is called
    /// again. A prompt is answered only when all that came before its answer was passed on.
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

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConversationChanges {
    /// For [`SessionOpening::state`].
    pub state: Option<Bytes>,
    /// As [`Conversation::view`].
    pub view: Option<Bytes>,
}

impl ConversationChanges {
    /// Those that may be kept, and the name of one that may not.
    pub(crate) fn bounded(mut self) -> (Self, Option<&'static str>) {
        let mut too_long = None;
        let fields = [
            ("view", &mut self.view, MAX_VIEW),
            ("state", &mut self.state, MAX_STATE),
        ];
        for (name, value, most) in fields {
            if value.as_ref().is_some_and(|value| value.len() > most) {
                *value = None;
                too_long = Some(name);
            }
        }
        (self, too_long)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    EndTurn,
    MaxTokens,
    MaxTurnRequests,
    Refusal,
    Cancelled,
}

impl StopReason {
    /// Reads the stop reason of a prompt's answer; `None` if it is unknown, since agents may write
    /// anything there.
    pub(crate) fn of(answer: &RawValue) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct PromptAnswer {
            stop_reason: StopReason,
        }
        let answer = serde_json::from_str(answer.get());
        answer.map(|answer: PromptAnswer| answer.stop_reason).ok()
    }

    /// As ACP has it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::EndTurn => "end_turn",
            Self::MaxTokens => "max_tokens",
            Self::MaxTurnRequests => "max_turn_requests",
            Self::Refusal => "refusal",
            Self::Cancelled => "cancelled",
        }
    }

    /// The answer to a prompt that ended so.
    pub fn answer(self) -> Box<RawValue> {
        raw(&json!({ "stopReason": self }))
    }
}

pub(crate) fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).expect("plain data encodes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_wants_kept_has_a_length() {
        let changes = |state: usize, view: usize| ConversationChanges {
            state: Some(vec![b'x'; state].into()),
            view: Some(vec![b'x'; view].into()),
        };
        let fits = changes(MAX_STATE, MAX_VIEW);
        assert_eq!(fits.clone().bounded(), (fits, None));
        let (kept, named) = changes(MAX_STATE + 1, 5).bounded();
        assert_eq!((kept.state, named), (None, Some("state")));
        assert_eq!(kept.view, Some("xxxxx".into()));
        let (kept, named) = changes(5, MAX_VIEW + 1).bounded();
        assert_eq!((kept.view, named), (None, Some("view")));
        assert_eq!(kept.state, Some("xxxxx".into()));
    }
}
