//! JSON-RPC messages, written by hand where bytes pass through untouched.

use std::borrow::Cow;
use std::sync::Arc;

use baton_session::command::Queued;
use baton_session::event::{Event, Recipient};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

pub const METHOD_NOT_FOUND: i64 = -32601;

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
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self {
            code: -32602,
            message: message.into(),
            data: None,
        }
    }

    pub fn method_not_found(method: &str) -> Self {
        Self {
            code: METHOD_NOT_FOUND,
            message: format!("the agent knows no method {method:?}"),
            data: None,
        }
    }

    /// See the table of error codes in docs/reference/errors.md.
    pub fn poisonous() -> Self {
        Self {
            code: 5004,
            message: "three workers in a row stopped while they worked on this request, so it was \
                given up: what it said until then stands; change the request before trying again"
                .into(),
            data: None,
        }
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self {
            code: -32603,
            message: message.into(),
            data: None,
        }
    }
}

#[derive(Serialize)]
struct Notification<'a, T> {
    jsonrpc: &'static str,
    method: &'a str,
    params: T,
}

#[derive(Serialize)]
struct Request<'a, T> {
    jsonrpc: &'static str,
    id: &'a str,
    method: &'a str,
    params: T,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionParams<'a, T> {
    session_id: &'a str,
    update: T,
}

pub fn update(session: &str, update: impl Serialize) -> Bytes {
    let params = SessionParams {
        session_id: session,
        update,
    };
    notification("session/update", params)
}

/// The `update` of a `session/update`; `None` if the message is none.
pub fn update_of(message: &[u8]) -> Option<Value> {
    #[derive(Deserialize)]
    struct Message {
        params: Params,
    }
    #[derive(Deserialize)]
    struct Params {
        update: Value,
    }
    let message: Message = serde_json::from_slice(message).ok()?;
    Some(message.params.update)
}

pub fn notification(method: &str, params: impl Serialize) -> Bytes {
    to_bytes(&Notification {
        jsonrpc: "2.0",
        method,
        params,
    })
}

pub fn request(id: &str, method: &str, params: impl Serialize) -> Bytes {
    to_bytes(&Request {
        jsonrpc: "2.0",
        id,
        method,
        params,
    })
}

/// In the place of a client's answer that did not come.
pub fn no_answer(id: &str, why: &str) -> Bytes {
    #[derive(Serialize)]
    struct Refused<'a> {
        jsonrpc: &'static str,
        id: &'a str,
        error: Failure,
    }
    to_bytes(&Refused {
        jsonrpc: "2.0",
        id,
        error: Failure::internal(why),
    })
}

/// The answer to a command, for the client that sent it; `None` for a notification.
pub fn response(
    asked: &Queued,
    turn: bool,
    outcome: Result<impl Serialize, Failure>,
) -> Option<Event> {
    let request: Arc<str> = asked.command.request.clone()?;
    let body = match outcome {
        Ok(result) => format!("\"result\":{}", to_text(&result)),
        Err(failure) => format!("\"error\":{}", to_text(&failure)),
    };
    let message = format!("{{\"jsonrpc\":\"2.0\",\"id\":{request},{body}}}").into();
    let to = Recipient {
        connection: asked.command.connection.clone(),
        request,
        via: asked.via,
        trace: asked.command.trace.clone(),
    };
    Some(Event::Response { to, turn, message })
}

/// The method and params of a client's call.
#[derive(Deserialize)]
pub struct Asked<'a> {
    #[serde(borrow)]
    pub method: Cow<'a, str>,
    #[serde(borrow, default = "nothing")]
    pub params: &'a RawValue,
}

fn nothing<'a>() -> &'a RawValue {
    serde_json::from_str("{}").expect("an object")
}

/// A client's message, borrowed from its bytes.
pub fn asked(message: &[u8]) -> Result<Asked<'_>, Failure> {
    serde_json::from_slice(message).map_err(|e| Failure::invalid_params(e.to_string()))
}

pub fn params<'a, T: Deserialize<'a>>(message: &'a [u8]) -> Result<T, Failure> {
    read(asked(message)?.params)
}

pub fn read<'a, T: Deserialize<'a>>(params: &'a RawValue) -> Result<T, Failure> {
    serde_json::from_str(params.get()).map_err(|e| Failure::invalid_params(e.to_string()))
}

/// The params with another `sessionId`, every other byte as it was.
pub fn readdress(params: &RawValue, session: &str) -> Box<RawValue> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Addressed<'a> {
        #[serde(borrow)]
        session_id: &'a RawValue,
    }
    let text = params.get();
    let session = serde_json::to_string(session).expect("text encodes");
    let addressed = serde_json::from_str::<Addressed>(text);
    let text = match addressed {
        Ok(Addressed { session_id: named }) if text.starts_with('{') => {
            let start = named.get().as_ptr() as usize - text.as_ptr() as usize;
            let (before, after) = (&text[..start], &text[start + named.get().len()..]);
            format!("{before}{session}{after}")
        }
        _ => return params.to_owned(),
    };
    RawValue::from_string(text).expect("made of valid JSON")
}

/// A client's answer to a request of the agent.
pub struct Answer {
    pub id: String,
    pub outcome: Result<Box<RawValue>, Failure>,
}

impl Answer {
    /// `None` if it does not even say what it answers. An answer that cannot be understood is a
    /// failure, not nothing: somebody waits for it.
    pub fn read(message: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Named {
            id: String,
        }
        #[derive(Deserialize)]
        struct Raw {
            #[serde(default, deserialize_with = "present")]
            result: Option<Box<RawValue>>,
            error: Option<Failure>,
        }
        let Named { id } = serde_json::from_slice(message).ok()?;
        let outcome = match serde_json::from_slice(message) {
            Ok(Raw {
                error: Some(failure),
                ..
            }) => Err(failure),
            Ok(Raw {
                result: Some(result),
                ..
            }) => Ok(result),
            Ok(_) => Err(Failure::internal(
                "the client answered with neither result nor error",
            )),
            Err(error) => Err(Failure::internal(format!(
                "the client's answer cannot be understood: {error}"
            ))),
        };
        Some(Self { id, outcome })
    }
}

/// `null` is a result; only an absent one is none.
fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(from).map(Some)
}

fn to_bytes(value: &impl Serialize) -> Bytes {
    // Room for what most of them say.
    let mut text = Vec::with_capacity(384);
    serde_json::to_writer(&mut text, value).expect("our own messages encode");
    text.into()
}

fn to_text(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("our own messages encode")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.into()).unwrap()
    }

    #[test]
    fn another_session_is_named_and_nothing_else_changes() {
        let params = value(r#"{ "a": 9007199254740993, "sessionId":"x\"" , "b":[ ]}"#);
        assert_eq!(
            readdress(&params, "agent\"s").get(),
            r#"{ "a": 9007199254740993, "sessionId":"agent\"s" , "b":[ ]}"#
        );
        assert_eq!(readdress(&value("[1]"), "s").get(), "[1]");
    }

    #[test]
    fn whatever_a_client_answers_is_an_outcome() {
        let read = |text: &str| Answer::read(text.as_bytes()).unwrap().outcome;
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
        assert!(Answer::read(b"{}").is_none());
    }
}
