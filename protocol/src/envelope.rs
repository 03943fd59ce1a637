//! The parts of a JSON-RPC message, borrowed from its bytes. Unknown fields are passed over, and
//! payloads are not looked at.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::Method;

#[derive(Deserialize)]
pub struct Envelope<'a> {
    /// Only a gateway insists on it.
    #[serde(borrow)]
    pub jsonrpc: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub params: Option<&'a RawValue>,
    /// `null` is a result; only an absent one is none.
    #[serde(borrow, default, deserialize_with = "present")]
    pub result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub error: Option<&'a RawValue>,
}

/// The role of a message, with the id as it was written.
#[derive(Debug, PartialEq, Eq)]
pub enum MessageKind<'a> {
    Request(&'a str),
    Notification,
    /// `null` if the message has no id.
    Answer(&'a str),
}

/// Why bytes are not a JSON-RPC message.
#[derive(Debug, thiserror::Error)]
pub enum EnvelopeError {
    /// A batch, or the fields of a message as a list.
    #[error("a list, not a message")]
    List,
    #[error("not JSON: {0}")]
    NotJson(serde_json::Error),
    /// A field has the wrong type, or is there twice.
    #[error("not a JSON-RPC message: {0}")]
    Field(serde_json::Error),
}

impl<'a> Envelope<'a> {
    pub fn read(message: &'a [u8]) -> Result<Self, EnvelopeError> {
        // serde would take a list for the fields in their order.
        if message.trim_ascii_start().starts_with(b"[") {
            return Err(EnvelopeError::List);
        }
        serde_json::from_slice(message).map_err(|error| {
            if error.is_data() {
                EnvelopeError::Field(error)
            } else {
                EnvelopeError::NotJson(error)
            }
        })
    }

    /// The id exactly as it was written, so that integers up to 2^63 survive. `null` is none.
    pub fn id(&self) -> Option<&'a str> {
        self.id.map(RawValue::get)
    }

    pub fn kind(&self) -> MessageKind<'a> {
        match (self.id(), &self.method) {
            (Some(id), Some(_)) => MessageKind::Request(id),
            (None, Some(_)) => MessageKind::Notification,
            (id, None) => MessageKind::Answer(id.unwrap_or("null")),
        }
    }

    /// The id, if it is a request.
    pub fn request_id(&self) -> Option<&'a str> {
        self.method.as_ref().and(self.id())
    }

    pub fn is(&self, method: Method) -> bool {
        self.method.as_deref() == Some(method.name())
    }

    /// An empty object, if there are none.
    pub fn params(&self) -> &'a RawValue {
        self.params.unwrap_or_else(no_params)
    }
}

fn no_params<'a>() -> &'a RawValue {
    serde_json::from_str("{}").expect("an object")
}

fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Envelope<'_> {
        Envelope::read(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_message_is_told_by_its_fields_whatever_else_it_has() {
        let request = read(r#"{"x":[1],"method":"a","id":9007199254740993,"params":{"x": 1.0}}"#);
        assert_eq!(request.kind(), MessageKind::Request("9007199254740993"));
        assert_eq!(request.params().get(), r#"{"x": 1.0}"#);
        let answer = read(r#"{"id":"a:1","result":null}"#);
        assert_eq!(answer.kind(), MessageKind::Answer("\"a:1\""));
        assert_eq!(answer.result.map(RawValue::get), Some("null"));
        let null = read(r#"{"id":null,"error":{}}"#);
        assert_eq!(null.kind(), MessageKind::Answer("null"));
        assert!(null.result.is_none() && null.error.is_some());
        let cancel = read(r#"{"method":"$/cancel_request"}"#);
        assert_eq!(cancel.kind(), MessageKind::Notification);
        assert!(cancel.is(Method::CancelRequest));
        assert_eq!(cancel.params().get(), "{}");
    }

    #[test]
    fn ids_survive_as_they_were_written() {
        for id in ["0", "9223372036854775807", "-1", "\"a\\u00e9\"", "\"\""] {
            let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"x\"}}");
            assert_eq!(read(&text).id(), Some(id));
        }
    }

    #[test]
    fn other_texts_are_told_apart() {
        let error = |text: &str| match Envelope::read(text.as_bytes()) {
            Ok(_) => panic!("{text} was read"),
            Err(error) => error,
        };
        assert!(matches!(error("{"), EnvelopeError::NotJson(_)));
        assert!(matches!(error(" [1]"), EnvelopeError::List));
        for text in ["17", r#"{"method":7}"#, r#"{"method":"x","method":"y"}"#] {
            assert!(matches!(error(text), EnvelopeError::Field(_)), "{text}");
        }
    }
}
