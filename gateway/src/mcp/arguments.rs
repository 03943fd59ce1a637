//! What the tools take. A field that no tool has is refused: a model that made it up learns what
//! there is.

use std::time::Duration;

use baton_protocol::limits;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::fault::CallError;

/// Longer than any client waits.
const MAX_WAIT: u64 = 24 * 3600;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StartArguments {
    pub prompt: String,
    pub agent: Option<String>,
    pub cwd: Option<String>,
    pub wait_seconds: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContinueArguments {
    pub session: Option<String>,
    pub prompt: Option<String>,
    #[serde(default)]
    pub fork: bool,
    pub fork_at: Option<String>,
    #[serde(default)]
    pub answers: Map<String, Value>,
    pub wait_seconds: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StatusArguments {
    pub session: Option<String>,
    pub wait_seconds: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReadArguments {
    pub session: Option<String>,
    pub cursor: Option<String>,
    pub limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionArguments {
    pub session: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListArguments {
    pub cursor: Option<String>,
    pub cwd: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoArguments {}

pub fn read<T: DeserializeOwned>(arguments: Map<String, Value>) -> Result<T, CallError> {
    serde_json::from_value(Value::Object(arguments)).map_err(|fault| {
        let fault = limits::shorten(fault.to_string());
        CallError::Tool(format!("the arguments cannot be taken: {fault}"))
    })
}

pub fn wait(seconds: Option<u64>) -> Option<Duration> {
    seconds.map(|seconds| Duration::from_secs(seconds.min(MAX_WAIT)))
}
