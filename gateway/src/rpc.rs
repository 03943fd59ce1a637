//! JSON-RPC as bytes: the envelope is read once, payloads are never taken apart.
//!
//! Codes of our own are positive; docs/reference/errors.md has them in one table.

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::limits::Refusal;

pub use self::carried::carried;

mod carried;
pub mod readable;

pub const PARSE_ERROR: i64 = -32700;
pub const INVALID_REQUEST: i64 = -32600;
pub const METHOD_NOT_FOUND: i64 = -32601;
pub const INVALID_PARAMS: i64 = -32602;
pub const INTERNAL_ERROR: i64 = -32603;
/// ACP's own: what was named does not exist.
pub const RESOURCE_NOT_FOUND: i64 = -32002;

pub const UNKNOWN_CONNECTION: i64 = 4001;
pub const ID_REUSED: i64 = 4002;
pub const QUEUE_FULL: i64 = 4003;
pub const LIMIT_REACHED: i64 = 4004;
pub const STORE_FULL: i64 = 4005;
pub const SESSION_CLOSED: i64 = 4006;
pub const UNAUTHENTICATED: i64 = 4007;
pub const OBSERVE_ONLY: i64 = 4008;
pub const FORBIDDEN: i64 = 4009;
pub const NO_AGENT: i64 = 5001;
pub const STORE_UNAVAILABLE: i64 = 5002;
pub const NO_WORKER: i64 = 5003;

pub const STORE_IS_FULL: &str =
    "the store is nearly full: new sessions are refused, running ones go on; try again later";

/// The parts of a message that concern a gateway, borrowed from its bytes.
#[derive(Deserialize)]
pub struct Envelope<'a> {
    #[serde(borrow)]
    pub jsonrpc: Option<Cow<'a, str>>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    /// See [`Self::look`].
    #[serde(skip)]
    about: Option<Result<About<'a>, Twice>>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct About<'a> {
    #[serde(borrow)]
    session_id: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

#[derive(Clone, Copy)]
struct Twice;

impl<'a> Envelope<'a> {
    /// The id exactly as written.
    pub fn id(&self) -> Option<&'a str> {
        self.id.map(RawValue::get)
    }

    pub fn has_valid_id(&self) -> bool {
        self.id().is_none_or(|id| {
            id.starts_with(['"', '-']) || id.starts_with(|c: char| c.is_ascii_digit())
        })
    }

    pub fn params(&self) -> &'a str {
        self.params.map_or("{}", RawValue::get)
    }

    /// Reads what in the params concerns a gateway, so that nobody has to read them again.
    pub fn look(mut self) -> Self {
        self.about = Some(self.about());
        self
    }

    /// What in the params concerns a gateway. Fails if something of it is there twice: which one is meant,
    /// others may see otherwise.
    fn about(&self) -> Result<About<'a>, Twice> {
        let read = || match self.params().starts_with('{') {
            true => serde_json::from_str(self.params()).map_err(|_| Twice),
            false => Ok(About::default()),
        };
        self.about.unwrap_or_else(read)
    }

    /// `params.sessionId`, if it is there and a string.
    pub fn session_id(&self) -> Option<String> {
        serde_json::from_str(self.about().ok()?.session_id?.get()).ok()
    }

    /// `traceparent` and `tracestate` in `params._meta`.
    pub fn trace_context(&self) -> Option<(String, Option<String>)> {
        let meta = self.about().ok()?.meta?;
        let context: TraceContext = serde_json::from_str(meta.get()).ok()?;
        Some((context.traceparent, context.tracestate))
    }
}

/// ACP keeps these names in `_meta` for W3C's trace context.
#[derive(Deserialize)]
struct TraceContext {
    traceparent: String,
    tracestate: Option<String>,
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    code: i64,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<serde_json::Value>,
}

pub fn error(id: &str, code: i64, message: &str) -> Bytes {
    let data = None;
    failure(
        id,
        &ErrorBody {
            code,
            message,
            data,
        },
    )
}

/// Tells a caller at a limit which one, and when to try again.
pub fn refusal(id: &str, refusal: &Refusal) -> Bytes {
    let body = ErrorBody {
        code: LIMIT_REACHED,
        message: &refusal.text(),
        data: Some(refusal.data()),
    };
    failure(id, &body)
}

fn failure(id: &str, body: &ErrorBody<'_>) -> Bytes {
    let body = serde_json::to_string(body).expect("plain strings encode");
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{body}}}").into()
}

/// Tells a client that a question of the agent needs no answer any more.
pub fn question_is_off(id: &str) -> Bytes {
    let id = serde_json::to_string(id).expect("plain strings encode");
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"$/cancel_request\",\"params\":{{\"requestId\":{id}}}}}"
    )
    .into()
}

/// An object, with `_meta` put first. What has one already keeps it.
pub fn with_meta(result: &[u8], meta: &serde_json::Value) -> Bytes {
    let mut whole: serde_json::Value = serde_json::from_slice(result).unwrap_or_default();
    if !whole.is_object() {
        whole = serde_json::json!({});
    }
    let kept = &mut whole["_meta"];
    match (kept.as_object_mut(), meta.as_object()) {
        (Some(kept), Some(meta)) => kept.extend(meta.clone()),
        _ => *kept = meta.clone(),
    }
    whole.to_string().into()
}

/// `result` is JSON already.
pub fn result(id: &str, result: &[u8]) -> Bytes {
    let head = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":");
    [
        head.as_bytes(),
        if result.is_empty() { b"{}" } else { result },
        b"}",
    ]
    .concat()
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_survive_as_they_were_written() {
        for id in ["0", "9223372036854775807", "-1", "\"a\\u00e9\"", "\"\""] {
            let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"x\"}}");
            let envelope: Envelope = serde_json::from_str(&text).unwrap();
            assert_eq!(envelope.id(), Some(id));
            assert!(envelope.has_valid_id());
        }
        let envelope: Envelope = serde_json::from_str(r#"{"id":{},"method":"x"}"#).unwrap();
        assert!(!envelope.has_valid_id());
    }
}
