//! Failures as clients see them, and the answers to commands.

use std::borrow::Cow;
use std::sync::Arc;

use baton_protocol::envelope::EnvelopeError;
use baton_protocol::{Envelope, ErrorCode, compose};
use baton_session::clock::unix_millis;
use baton_session::command::QueuedCommand;
use baton_session::event::{Event, ResponseRecipient};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// A failure as the client sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message} ({code})")]
pub struct Failure {
    pub code: i64,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<serde_json::Value>,
}

impl Failure {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code: code.value(),
            message: message.into(),
            data: None,
        }
    }

    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidParams, message)
    }

    pub fn method_not_found(method: &str) -> Self {
        let message = format!("the agent knows no method {method:?}");
        Self::new(ErrorCode::MethodNotFound, message)
    }

    pub fn poisonous() -> Self {
        Self::new(
            ErrorCode::GivenUp,
            "three workers in a row stopped while they worked on this request, so it was \
             given up: what it said until then stands; change the request before trying again",
        )
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InternalError, message)
    }

    /// The answer with this failure. The id is JSON.
    pub fn answer(&self, id: &str) -> Bytes {
        compose::error_with(id, self.code, &self.message, self.data.clone())
    }

    pub fn is(&self, code: ErrorCode) -> bool {
        self.code == code.value()
    }
}

/// A value of ours as JSON text.
pub(crate) fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).expect("plain data encodes")
}

/// In the place of a client's answer that did not come.
pub fn no_answer(id: &str, why: &str) -> Bytes {
    compose::error(&to_text(&id), ErrorCode::InternalError, why)
}

/// The answer to a command, for the client that sent it; `None` for a notification.
pub fn response(
    asked: &QueuedCommand,
    turn: bool,
    outcome: Result<impl Serialize, Failure>,
) -> Option<Event> {
    let request: Arc<str> = asked.command.request.clone()?;
    let message = match outcome {
        Ok(result) => compose::result(&request, to_text(&result).as_bytes()),
        Err(failure) => failure.answer(&request),
    };
    let to = ResponseRecipient {
        connection: asked.command.connection.clone(),
        request,
        via: asked.via,
        trace: asked.command.trace.clone(),
        at: turn.then(unix_millis),
    };
    Some(Event::Response { to, turn, message })
}

/// The method that a client calls, and its params.
pub struct ClientCall<'a> {
    pub method: Cow<'a, str>,
    pub params: &'a RawValue,
}

/// A client's message, borrowed from its bytes.
pub fn client_call(message: &[u8]) -> Result<ClientCall<'_>, Failure> {
    let envelope = Envelope::read(message).map_err(unreadable)?;
    let params = envelope.params();
    let method = envelope.method;
    let method = method.ok_or_else(|| Failure::invalid_params("missing field `method`"))?;
    Ok(ClientCall { method, params })
}

fn unreadable(error: EnvelopeError) -> Failure {
    Failure::invalid_params(error.to_string())
}

pub fn params<'a, T: Deserialize<'a>>(message: &'a [u8]) -> Result<T, Failure> {
    read(client_call(message)?.params)
}

pub fn read<'a, T: Deserialize<'a>>(params: &'a RawValue) -> Result<T, Failure> {
    serde_json::from_str(params.get()).map_err(|e| Failure::invalid_params(e.to_string()))
}

/// A client's answer to a request of the agent.
pub struct ClientAnswer {
    pub id: String,
    pub outcome: Result<Box<RawValue>, Failure>,
}

impl ClientAnswer {
    /// `None` if it does not even say what it answers. An answer that cannot be understood is a
    /// failure, not nothing: somebody waits for it.
    pub fn read(message: &[u8]) -> Option<Self> {
        let envelope = Envelope::read(message).ok()?;
        let id = serde_json::from_str(envelope.id()?).ok()?;
        let outcome = match (envelope.error, envelope.result) {
            (Some(error), _) => Err(failure(error)),
            (None, Some(result)) => Ok(result.to_owned()),
            (None, None) => Err(Failure::internal(
                "the client answered with neither result nor error",
            )),
        };
        Some(Self { id, outcome })
    }
}

fn failure(error: &RawValue) -> Failure {
    serde_json::from_str(error.get()).unwrap_or_else(|error| {
        Failure::internal(format!("the client's answer cannot be understood: {error}"))
    })
}

fn to_text(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("our own messages encode")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_client_answers_is_an_outcome() {
        let read = |text: &str| ClientAnswer::read(text.as_bytes()).unwrap().outcome;
        assert_eq!(read(r#"{"id":"a","result":null}"#).unwrap().get(), "null");
        assert_eq!(
            read(r#"{"id":"a","result":{"x":1}}"#).unwrap().get(),
            r#"{"x":1}"#
        );
        assert_eq!(
            read(r#"{"id":"a","error":{"code":7,"message":"no"}}"#)
                .unwrap_err()
                .code,
            7
        );
        for broken in [
            r#"{"id":"a"}"#,
            r#"{"id":"a","error":{"code":-32000}}"#,
            r#"{"id":"a","error":{"code":1.5,"message":""}}"#,
        ] {
            assert_eq!(read(broken).unwrap_err().code, -32603, "{broken}");
        }
        assert!(ClientAnswer::read(b"{}").is_none());
    }
}
