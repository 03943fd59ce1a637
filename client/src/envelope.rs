//! JSON-RPC as bytes: only the envelope is read, and messages of our own are few.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

pub const PARSE_ERROR: i64 = -32700;
pub const INVALID_REQUEST: i64 = -32600;
/// The server turned the credential down.
pub const UNAUTHENTICATED: i64 = 4007;
/// The server was away for too long.
pub const UNREACHABLE: i64 = 5010;
/// The connection that the request was made on is over, and its answer with it.
pub const INTERRUPTED: i64 = 5011;

/// The parts of a message that a client needs, borrowed from its bytes.
#[derive(Deserialize)]
pub struct Envelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub error: Option<&'a RawValue>,
}

/// The fields of params and results that a client follows.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct About {
    pub session_id: Option<String>,
    pub cwd: Option<String>,
}

/// The JSON-RPC kind of a message.
#[derive(Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    /// With its id as it was written.
    Request(&'a str),
    Notification,
    Answer(&'a str),
}

impl<'a> Envelope<'a> {
    /// The code and text of what is wrong otherwise.
    pub fn read(message: &'a [u8]) -> Result<Self, (i64, String)> {
        let first = message.iter().find(|byte| !byte.is_ascii_whitespace());
        if first == Some(&b'[') {
            let text = "a message at a time: batches are not part of this protocol";
            return Err((INVALID_REQUEST, text.into()));
        }
        serde_json::from_slice(message).map_err(|error| {
            if error.is_data() {
                (INVALID_REQUEST, "not a JSON-RPC message".into())
            } else {
                (PARSE_ERROR, format!("not JSON: {error}"))
            }
        })
    }

    pub fn kind(&self) -> Kind<'a> {
        match (self.id.map(RawValue::get), &self.method) {
            (Some(id), Some(_)) => Kind::Request(id),
            (None, Some(_)) => Kind::Notification,
            (id, None) => Kind::Answer(id.unwrap_or("null")),
        }
    }

    /// The id, if it is a request.
    pub fn request(&self) -> Option<String> {
        match self.kind() {
            Kind::Request(id) => Some(id.to_owned()),
            Kind::Notification | Kind::Answer(_) => None,
        }
    }

    pub fn is(&self, method: &str) -> bool {
        self.method.as_deref() == Some(method)
    }
}

/// Nothing, if it is of another shape: the server says what is wrong with it.
pub fn about(part: Option<&RawValue>) -> About {
    let read = part.and_then(|part| serde_json::from_str(part.get()).ok());
    read.unwrap_or_default()
}

pub fn error(id: &str, code: i64, text: &str) -> Bytes {
    let text = serde_json::Value::from(text);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{text}}}}}"#).into()
}

/// Line breaks between the tokens of a message would make two of it. Inside of strings there are none.
pub fn one_line(message: Bytes) -> Bytes {
    let breaks = |byte: &u8| matches!(byte, b'\n' | b'\r');
    if !message.iter().any(breaks) {
        return message;
    }
    let flat = message
        .iter()
        .map(|byte| if breaks(byte) { b' ' } else { *byte });
    flat.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_told_by_its_fields_whatever_else_it_has() {
        let request =
            br#"{"x":[1],"method":"a","id":9007199254740993,"params":{"sessionId":"s","cwd":"/"}}"#;
        let envelope = Envelope::read(request).unwrap();
        assert_eq!(envelope.kind(), Kind::Request("9007199254740993"));
        assert_eq!(about(envelope.params).session_id.as_deref(), Some("s"));
        let kind = |text: &'static str| Envelope::read(text.as_bytes()).unwrap().kind();
        assert_eq!(kind(r#"{"id":"a:1","result":{}}"#), Kind::Answer("\"a:1\""));
        assert_eq!(kind(r#"{"id":null,"error":{}}"#), Kind::Answer("null"));
        assert_eq!(kind(r#"{"method":"b"}"#), Kind::Notification);
    }

    #[test]
    fn what_is_no_message_is_told_apart() {
        let code = |text: &str| Envelope::read(text.as_bytes()).map(|_| ()).unwrap_err().0;
        assert_eq!(code("{"), PARSE_ERROR);
        assert_eq!(code(r#"[{"method":"b"}]"#), INVALID_REQUEST);
        assert_eq!(code(r#"{"method":7}"#), INVALID_REQUEST);
    }

    #[test]
    fn a_message_of_several_lines_becomes_one() {
        let message = one_line(Bytes::from_static(b"{\n\"a\":\r\n\"b\\n\"}"));
        assert_eq!(&message[..], b"{ \"a\":  \"b\\n\"}");
    }
}
