//! The seam behind which agents live. An agent opens conversations; a conversation answers prompts
//! through the [`Turn`] it is given, and everything it says goes into the session's log.

use std::sync::Arc;

use async_trait::async_trait;
use baton_session::id::SessionId;
use baton_session::store::AgentCard;
use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, value::RawValue};

pub use crate::rpc::Failure;
pub use crate::turn::Turn;

pub mod scripted;

pub trait Agent: Send + Sync + 'static {
    fn card(&self) -> AgentCard;

    /// Opens a session anew, or as an earlier conversation left it.
    fn open(&self, session: &Opening) -> Result<Arc<dyn Conversation>, Failure>;
}

pub struct Opening {
    pub session: SessionId,
    pub cwd: String,
    /// The params of `session/new`.
    pub params: Bytes,
    /// [`Changes::state`] of the conversation before, empty at first.
    pub state: Bytes,
}

/// A conversation is shared by the turn that runs and the commands that arrive meanwhile.
#[async_trait]
pub trait Conversation: Send + Sync {
    /// Runs one turn. When a turn is taken over it is run again from its beginning, and what it
    /// says again up to where it was is skipped: it must say the same things in the same order.
    async fn prompt(&self, turn: &Turn, prompt: &RawValue) -> Result<StopReason, Failure>;

    /// Returns the update that announces the change.
    fn set_mode(&self, mode: &str) -> Result<Value, Failure>;

    /// Returns the update that announces the change.
    fn set_config_option(&self, id: &str, value: &Value) -> Result<Value, Failure>;

    /// Modes and config options as `session/new` and `session/load` answer them, a JSON object.
    fn view(&self) -> Bytes;

    /// What has to be kept that changed since this was last asked. It is written together with
    /// what the conversation has said by then.
    fn changes(&self) -> Changes;
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// For [`Opening::state`].
    pub state: Option<Bytes>,
    /// As [`Conversation::view`].
    pub view: Option<Bytes>,
    pub title: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    EndTurn,
    Refusal,
    Cancelled,
}
