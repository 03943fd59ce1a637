//! Answers that are errors. Those of the request as such are for the client; what a model can mend
//! is a result that says so.

use baton_protocol::limits::echo;
use baton_protocol::{ErrorCode, compose};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use super::revision::McpRevision;
use crate::error::GatewayError;
use crate::limits::LimitRefusal;

const HEADER_MISMATCH: i64 = -32020;
const MISSING_CAPABILITY: i64 = -32021;
const UNSUPPORTED_REVISION: i64 = -32022;

/// A JSON-RPC error.
#[derive(Debug)]
pub struct RpcFault {
    pub code: i64,
    message: String,
    data: Option<Value>,
}

/// Why a request has no result.
#[derive(Debug)]
pub enum CallError {
    Rpc(RpcFault),
    /// For the model, which may do better next time.
    Tool(String),
    /// The message of ACP that it became was refused.
    Refused(AcpRefusal),
    /// The request is refused as a whole.
    Request(GatewayError),
}

/// The `error` of an answer in ACP.
#[derive(Debug, Deserialize)]
pub struct AcpRefusal {
    pub code: i64,
    pub message: String,
    #[serde(default)]
    pub data: Option<Value>,
}

impl<E: Into<GatewayError>> From<E> for CallError {
    fn from(error: E) -> Self {
        Self::Request(error.into())
    }
}

impl From<RpcFault> for CallError {
    fn from(fault: RpcFault) -> Self {
        Self::Rpc(fault)
    }
}

impl RpcFault {
    fn new(code: impl Into<i64>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            data: None,
        }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidParams, message)
    }

    pub fn unknown_method(name: &str) -> Self {
        let text = format!("there is no method {}", echo(name));
        Self::new(ErrorCode::MethodNotFound, text)
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InternalError, message)
    }

    pub fn no_resource(revision: McpRevision) -> Self {
        let text = "there is no such resource: resources/list has those that there are";
        if revision.is_sessionless() {
            Self::invalid(text)
        } else {
            Self::new(ErrorCode::ResourceNotFound, text)
        }
    }

    pub fn header_mismatch(header: &str) -> Self {
        let text = format!("the header {header} does not say what the body says");
        Self::new(HEADER_MISMATCH, text)
    }

    pub fn missing_capability(required: Value) -> Self {
        let data = Some(json!({ "requiredCapabilities": required }));
        Self {
            data,
            ..Self::new(MISSING_CAPABILITY, "missing required client capability")
        }
    }

    pub fn unsupported_revision(requested: &str) -> Self {
        let supported = McpRevision::ALL.map(McpRevision::name);
        let data = json!({ "supported": supported, "requested": requested });
        Self {
            data: Some(data),
            ..Self::new(UNSUPPORTED_REVISION, "unsupported protocol version")
        }
    }

    /// `id` as it was written.
    pub fn answer(self, id: &str) -> Bytes {
        compose::error_with(id, self.code, &self.message, self.data)
    }

    pub fn is_invalid(&self) -> bool {
        self.code == ErrorCode::InvalidParams.value()
    }

    pub fn is_unknown_method(&self) -> bool {
        self.code == ErrorCode::MethodNotFound.value()
    }
}

/// One text for a session that never was, that is gone, and that is somebody else's.
pub fn unknown_session(named: &str) -> CallError {
    CallError::Tool(format!(
        "there is no session {}: make one with start, or look for yours with list_sessions",
        echo(named)
    ))
}

impl AcpRefusal {
    pub fn is(&self, code: ErrorCode) -> bool {
        self.code == code.value()
    }

    /// For the model.
    pub fn text(&self) -> String {
        let wait = self
            .data
            .as_ref()
            .and_then(|it| it["retryAfterMs"].as_u64());
        match wait {
            Some(wait) => format!("{} (try again after {wait} ms)", self.message),
            None => self.message.clone(),
        }
    }
}

impl CallError {
    pub fn limited(refusal: LimitRefusal) -> Self {
        let wait = refusal.wait.map(|wait| wait.as_millis().max(1));
        Self::Tool(match wait {
            Some(wait) => format!("{} (try again after {wait} ms)", refusal.text()),
            None => refusal.text().into_owned(),
        })
    }
}
