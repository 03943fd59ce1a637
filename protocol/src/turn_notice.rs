//! `_baton/turn`: what a turn does, for clients that asked for it with `baton/turns`. The answer of
//! a turn goes only to the client that prompted, its questions only to the one in control.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::compose;

pub const TURN_NOTICE: &str = "_baton/turn";

pub enum TurnNotice<'a> {
    /// It runs, for a prompt of the client itself or of another. A client that comes back may hear
    /// it twice, with the same name.
    Began { own: bool, turn: &'a str },
    /// One runs that began before the client joined.
    Running,
    /// A person is asked.
    Asked { id: &'a str },
    /// A question is settled.
    Answered { id: &'a str },
    /// It has ended with this answer.
    Ended { answer: &'a [u8] },
    /// None runs.
    Idle,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct TurnParams<'a> {
    session_id: &'a str,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    own: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    asked: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answered: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<TurnError>,
}

#[derive(Default, Deserialize)]
struct TurnAnswer {
    result: Option<TurnResult>,
    error: Option<TurnError>,
}

/// Its `data` is for the client that prompted: an agent may put there what others must not see.
#[derive(Deserialize, Serialize)]
struct TurnError {
    code: i64,
    message: String,
}

/// Of the message, in characters.
const MAX_MESSAGE: usize = 500;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TurnResult {
    stop_reason: Option<String>,
}

impl TurnNotice<'_> {
    pub fn message(&self, session: &str) -> Bytes {
        let mut params = TurnParams {
            session_id: session,
            state: self.state(),
            ..Default::default()
        };
        match self {
            Self::Began { own, turn } => {
                params.own = Some(*own);
                params.turn = Some(turn);
            }
            Self::Asked { id } => params.asked = Some(id),
            Self::Answered { id } => params.answered = Some(id),
            Self::Ended { answer } => {
                let ended: TurnAnswer = serde_json::from_slice(answer).unwrap_or_default();
                params.stop_reason = ended.result.and_then(|result| result.stop_reason);
                params.error = ended.error.map(|TurnError { code, message }| TurnError {
                    code,
                    message: message.chars().take(MAX_MESSAGE).collect(),
                });
            }
            Self::Running | Self::Idle => {}
        }
        compose::notification(TURN_NOTICE, params)
    }

    fn state(&self) -> &'static str {
        match self {
            Self::Began { .. } | Self::Running | Self::Answered { .. } => "working",
            Self::Asked { .. } => "waiting",
            Self::Ended { .. } | Self::Idle => "idle",
        }
    }
}

/// Whether a request of the agent is a question to a person.
pub fn asks_a_person(request: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct RequestMethod<'a> {
        #[serde(borrow)]
        method: &'a str,
    }
    let read = serde_json::from_slice::<RequestMethod>(request);
    read.is_ok_and(|it| {
        matches!(
            it.method,
            "session/request_permission" | "elicitation/create"
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn params(notice: TurnNotice) -> Value {
        let message: Value = serde_json::from_slice(&notice.message("s")).unwrap();
        assert_eq!(message["method"], TURN_NOTICE);
        message["params"].clone()
    }

    #[test]
    fn a_turn_is_told_from_its_beginning_to_its_end() {
        let began = json!({ "sessionId": "s", "state": "working", "own": true, "turn": "1-2" });
        let (own, turn) = (true, "1-2");
        assert_eq!(params(TurnNotice::Began { own, turn }), began);
        let running = json!({ "sessionId": "s", "state": "working" });
        assert_eq!(params(TurnNotice::Running), running);
        let asked = json!({ "sessionId": "s", "state": "waiting", "asked": "q" });
        assert_eq!(params(TurnNotice::Asked { id: "q" }), asked);
        let answered = json!({ "sessionId": "s", "state": "working", "answered": "q" });
        assert_eq!(params(TurnNotice::Answered { id: "q" }), answered);
        let answer = br#"{"jsonrpc":"2.0","id":1,"result":{"stopReason":"cancelled"}}"#;
        let ended = json!({ "sessionId": "s", "state": "idle", "stopReason": "cancelled" });
        assert_eq!(params(TurnNotice::Ended { answer }), ended);
        let answer = br#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no","data":{"stderr":["secret"]}}}"#;
        let error = json!({ "code": -32603, "message": "no" });
        let failed = json!({ "sessionId": "s", "state": "idle", "error": error });
        assert_eq!(params(TurnNotice::Ended { answer }), failed);
        let idle = json!({ "sessionId": "s", "state": "idle" });
        assert_eq!(params(TurnNotice::Ended { answer: b"?" }), idle);
        assert_eq!(params(TurnNotice::Idle), idle);
    }

    #[test]
    fn files_and_terminals_are_no_questions_to_a_person() {
        let request = |method: &str| json!({ "id": "1", "method": method }).to_string();
        assert!(asks_a_person(
            request("session/request_permission").as_bytes()
        ));
        assert!(asks_a_person(request("elicitation/create").as_bytes()));
        assert!(!asks_a_person(request("fs/read_text_file").as_bytes()));
        assert!(!asks_a_person(b"{}"));
    }
}
