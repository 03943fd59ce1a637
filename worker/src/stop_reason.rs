//! Why a turn ended, as the answer to a prompt says it.

use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use crate::rpc::raw;

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
