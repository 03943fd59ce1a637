//! The lines of a converted file. Every line but the head of a session is one event, so whoever
//! writes them can name events by number: forks do.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::SourceTool;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HistoryLine<U = Box<RawValue>> {
    /// A session begins, and the one before it is complete.
    Session(HistoryHead),
    /// A turn begins.
    Begin,
    /// Words of the user, as an update.
    User(U),
    Update(U),
    /// The turn is over.
    End(TurnEnding),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryHead {
    pub from: SourceTool,
    /// The session's id in the tool it comes from.
    pub source: String,
    /// Which branch of it: empty for the first.
    #[serde(default)]
    pub branch: String,
    /// The branch, earlier in the file, whose first events these continue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<HistoryFork>,
    #[serde(default)]
    pub title: String,
    pub cwd: String,
    /// In milliseconds since 1970.
    pub updated: u64,
    /// The branch that the tool would go on with.
    #[serde(default)]
    pub live: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryFork {
    pub branch: String,
    /// So many events are shared.
    pub after: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnEnding {
    pub stop_reason: StopCause,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TurnUsage>,
}

/// Why a turn ended, as ACP says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCause {
    EndTurn,
    MaxTokens,
    Refusal,
    Cancelled,
}

/// The tokens of a turn, as ACP counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnUsage {
    pub total_tokens: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    #[serde(default)]
    pub cached_read_tokens: u64,
    #[serde(default)]
    pub cached_write_tokens: u64,
}

impl TurnUsage {
    pub fn add(&mut self, other: &Self) {
        let sum = |a: &mut u64, b: u64| *a = a.saturating_add(b);
        sum(&mut self.total_tokens, other.total_tokens);
        sum(&mut self.input_tokens, other.input_tokens);
        sum(&mut self.output_tokens, other.output_tokens);
        sum(&mut self.cached_read_tokens, other.cached_read_tokens);
        sum(&mut self.cached_write_tokens, other.cached_write_tokens);
    }
}
