//! One line of an agent's output, and what is written to its input. Only envelopes are read.

use std::borrow::Cow;

use baton_protocol::{Envelope, compose};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::agent::raw;
use crate::agent_policy::{AgentAnswer, AgentMessage};
use crate::rpc::Failure;

/// An answer, as the agent gave it.
pub type AgentReply = Result<Box<RawValue>, Failure>;

#[derive(Debug)]
pub enum IncomingMessage {
    Notice {
        method: String,
        session: Option<String>,
    },
    Question {
        id: Box<RawValue>,
        method: String,
        params: Box<RawValue>,
        session: Option<String>,
    },
    Answer {
        call: u64,
        reply: AgentReply,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionParam<'a> {
    #[serde(borrow)]
    session_id: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct ErrorObject {
    code: i64,
    #[serde(default)]
    message: String,
    data: Option<serde_json::Value>,
}

impl IncomingMessage {
    /// `None` if it is none.
    pub fn read(line: &[u8]) -> Option<Self> {
        // Text as a whole, also where nobody looks: it is passed on to clients.
        let line = std::str::from_utf8(line).ok()?;
        let envelope = Envelope::read(line.as_bytes()).ok()?;
        let id = envelope.id();
        let params = envelope.params();
        let Some(method) = envelope.method else {
            return Some(Self::Answer {
                call: id?.parse().ok()?,
                reply: reply(envelope.result, envelope.error),
            });
        };
        let method = method.into_owned();
        // A session that is named twice could be read in two ways: then it is no message.
        let session = if params.get().starts_with('{') {
            serde_json::from_str::<SessionParam>(params.get())
                .ok()?
                .session_id
        } else {
            None
        };
        let session = session.map(Cow::into_owned);
        Some(match id {
            Some(id) => Self::Question {
                id: RawValue::from_string(id.to_owned()).ok()?,
                method,
                params: params.to_owned(),
                session,
            },
            None => Self::Notice { method, session },
        })
    }
}

/// A result may be `null`, which looks like none.
fn reply(result: Option<&RawValue>, error: Option<&RawValue>) -> AgentReply {
    let Some(error) = error else {
        return Ok(result.map_or_else(|| raw(&serde_json::Value::Null), RawValue::to_owned));
    };
    let error: Result<ErrorObject, _> = serde_json::from_str(error.get());
    Err(match error {
        Ok(error) => Failure {
            code: error.code,
            message: error.message,
            data: error.data,
        },
        Err(_) => Failure::internal("the agent answered with an error that cannot be read"),
    })
}

/// The line of a call, or of a notification if there is no id.
pub fn call(id: Option<u64>, message: &AgentMessage) -> Bytes {
    let (method, params) = (message.method(), message.params());
    line(match id {
        Some(id) => compose::request(id, method, params),
        None => compose::notification(method, params),
    })
}

/// The line that answers an agent's question.
pub fn answer(id: &RawValue, answer: &AgentAnswer) -> Bytes {
    line(answer.message(id.get()))
}

/// JSON may be written on several lines; an agent reads one line a message.
fn line(message: Bytes) -> Bytes {
    let mut line = Vec::from(compose::one_line(message));
    line.push(b'\n');
    line.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent_policy::AgentPolicy;

    fn value(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.into()).unwrap()
    }

    #[test]
    fn lines_are_told_apart() {
        let read = |line: &str| IncomingMessage::read(line.as_bytes());
        assert!(matches!(
            read(r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{}}}"#),
            Some(IncomingMessage::Notice { session: Some(session), .. }) if session == "s"
        ));
        assert!(matches!(
            read(r#"{"id":"q","method":"fs/read_text_file","params":{"path":"/x"}}"#),
            Some(IncomingMessage::Question { session: None, .. })
        ));
        let Some(IncomingMessage::Answer { call: 7, reply }) = read(r#"{"id":7,"result":null}"#)
        else {
            panic!("an answer")
        };
        assert_eq!(reply.unwrap().get(), "null");
        let Some(IncomingMessage::Answer { reply, .. }) =
            read(r#"{"id":7,"error":{"code":-32000,"message":"who are you","data":{"x":1}}}"#)
        else {
            panic!("an answer")
        };
        assert_eq!(reply.unwrap_err().code, -32000);
        for junk in [
            "",
            "hello",
            "[]",
            "17",
            "{}",
            r#"[null,"session/update",{},null,null]"#,
            r#"{"id":"not ours","result":1}"#,
            r#"{"method":"x","params":{"sessionId":"a","sessionId":"b"}}"#,
            r#"{"method":"x","method":"y"}"#,
        ] {
            assert!(read(junk).is_none(), "{junk}");
        }
        assert!(IncomingMessage::read(b"{\"method\":\"x\",\"y\":\"\xff\"}").is_none());
    }

    #[test]
    fn a_message_is_one_line() {
        let params = value("{\n \"text\": \"a\\nb\"\r\n}");
        let message = AgentPolicy::open().message("_x", &params).unwrap();
        let written = call(Some(1), &message);
        assert_eq!(written.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert!(written.ends_with(b"}\n"));
        assert!(String::from_utf8_lossy(&written).contains(r#""a\nb""#));
    }
}
