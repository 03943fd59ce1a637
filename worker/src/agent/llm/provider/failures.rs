//! Failures in the words of endpoints, told apart. Endpoints agree on status codes only roughly,
//! so their messages are read as well; no message leaves here with a secret in it.

use std::time::Duration;

use http::StatusCode;
use serde_json::Value;

use super::config::ModelKey;
use crate::agent::llm::model_error::{ModelError, ModelTimeout};
use crate::http_client::HttpFailure;

/// A message of an endpoint is shown up to here.
const MAX_DETAIL: usize = 400;

/// What a failure has to be told with.
#[derive(Clone, Debug)]
pub struct FailureContext {
    pub model: String,
    /// The address, without a query.
    pub endpoint: String,
    /// Never to be shown, even if an endpoint repeats them.
    pub secrets: Vec<ModelKey>,
}

/// An endpoint's own account of a failure.
#[derive(Debug, Default)]
struct ErrorReport {
    message: String,
    /// `type`, `code` and the like, in one string.
    kind: String,
    /// Endpoints that pass requests on give the status code of the other as a code.
    code: Option<u16>,
}

impl FailureContext {
    /// A response that is none of success.
    pub fn refused(
        &self,
        status: StatusCode,
        retry_after: Option<Duration>,
        body: &[u8],
    ) -> ModelError {
        let mut report = match serde_json::from_slice::<Value>(body) {
            Ok(value) => ErrorReport::read(&value),
            Err(_) => ErrorReport {
                message: String::from_utf8_lossy(body).into_owned(),
                ..ErrorReport::default()
            },
        };
        report.message = format!("{status}: {}", report.message.trim());
        self.error(status, retry_after, &report)
    }

    /// An error within a stream, or in place of one.
    pub fn reported(&self, error: &Value) -> ModelError {
        let report = ErrorReport::read(error);
        let status = report.code.and_then(|code| StatusCode::from_u16(code).ok());
        let status = status.unwrap_or_else(|| report.status());
        self.error(status, None, &report)
    }

    pub fn transport(&self, failure: &HttpFailure) -> ModelError {
        let timeout = |which, limit: &Duration| ModelError::Timeout {
            which,
            limit: *limit,
        };
        match failure {
            HttpFailure::Unreachable(reason) => ModelError::Unreachable {
                endpoint: self.endpoint.clone(),
                detail: self.shown(reason),
            },
            HttpFailure::ConnectTimeout(limit) => timeout(ModelTimeout::Connect, limit),
            HttpFailure::AnswerTimeout(limit) => timeout(ModelTimeout::FirstByte, limit),
            HttpFailure::Silence(limit) => timeout(ModelTimeout::Silence, limit),
            HttpFailure::Broken(reason) => ModelError::BrokenOff {
                detail: self.shown(reason),
            },
        }
    }

    fn error(
        &self,
        status: StatusCode,
        retry_after: Option<Duration>,
        report: &ErrorReport,
    ) -> ModelError {
        let detail = self.shown(&report.message);
        let model = self.model.clone();
        let text = format!("{} {}", report.message, report.kind).to_lowercase();
        let says = |words: &[&str]| words.iter().any(|words| text.contains(words));
        match status.as_u16() {
            401 | 403 => ModelError::Unauthorized { detail },
            402 => ModelError::QuotaSpent { detail },
            400 if text.contains("credit balance") => ModelError::QuotaSpent { detail },
            429 if says(QUOTA_WORDS) => ModelError::QuotaSpent { detail },
            429 => ModelError::RateLimited {
                retry_after,
                detail,
            },
            _ if says(CONTEXT_WORDS) => ModelError::ContextTooLong { detail },
            413 => ModelError::ContextTooLong { detail },
            400 | 404 | 422 | 500 if says(TOOL_WORDS) => {
                ModelError::ToolsUnsupported { model, detail }
            }
            400 | 404 | 422 if says(MODEL_WORDS) || (status == 404 && text.contains("model")) => {
                ModelError::UnknownModel { model, detail }
            }
            408 | 409 | 425 | 500 | 502..=599 => ModelError::Overloaded {
                retry_after,
                detail,
            },
            _ => ModelError::BadRequest { detail },
        }
    }

    /// On one line, bounded, without secrets.
    pub fn shown(&self, text: &str) -> String {
        let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for secret in &self.secrets {
            let secret = secret.expose().trim();
            // A shorter one would make any text unreadable.
            if secret.len() >= 4 {
                text = text.replace(secret, "(secret)");
            }
        }
        if text.chars().nth(MAX_DETAIL).is_some() {
            text = text.chars().take(MAX_DETAIL).chain(['…']).collect();
        }
        text
    }
}

const QUOTA_WORDS: &[&str] = &[
    "insufficient_quota",
    "exceeded your current quota",
    "credit",
];
const CONTEXT_WORDS: &[&str] = &[
    "context_length_exceeded",
    "context length",
    "context window",
    "context size",
    "prompt is too long",
    "input is too long",
    "maximum context",
    "too many tokens",
    "request_too_large",
    "exceed_context_size",
];
const TOOL_WORDS: &[&str] = &[
    "not support tool",
    "not support function",
    "not supported tool",
    "tools are not supported",
    "tool use is not supported",
    "tool calling is not supported",
    "support tool use",
    "enable-auto-tool-choice",
];
const MODEL_WORDS: &[&str] = &[
    "model_not_found",
    "no such model",
    "unknown model",
    "invalid model",
    "is not a valid model",
    "model does not exist",
];
/// Kinds of errors that have no status code, for too many requests.
const LIMIT_KINDS: &[&str] = &[
    "rate_limit",
    "insufficient_quota",
    "too_many_requests",
    "resource_exhausted",
    "throttling",
];

impl ErrorReport {
    /// OpenAI and Anthropic put it into `error`, Ollama makes that a string, others have `detail`
    /// or `message`.
    fn read(value: &Value) -> Self {
        let inner = match &value["error"] {
            Value::Null => value,
            inner => inner,
        };
        let text = |member: &str| inner[member].as_str();
        let message = match inner {
            Value::String(message) => Some(message.as_str()),
            _ => text("message").or(text("detail")).or(text("error")),
        };
        let kinds = ["type", "code", "status", "param"].map(text);
        let kinds: Vec<&str> = kinds.into_iter().flatten().collect();
        // LiteLLM writes it as a string.
        let code = |member: &str| match &inner[member] {
            Value::String(code) => code.parse().ok(),
            code => code.as_u64(),
        };
        let code = code("code").or(code("status"));
        Self {
            message: message.map_or_else(|| inner.to_string(), ToOwned::to_owned),
            kind: kinds.join(" "),
            code: code.and_then(|code| u16::try_from(code).ok()),
        }
    }

    /// The status code that this would have had outside of a stream.
    fn status(&self) -> StatusCode {
        let kind = self.kind.to_lowercase();
        let of = |words: &[&str]| words.iter().any(|word| kind.contains(word));
        if of(&["authentication", "permission", "invalid_api_key"]) {
            StatusCode::UNAUTHORIZED
        } else if of(LIMIT_KINDS) {
            StatusCode::TOO_MANY_REQUESTS
        } else if of(&["billing"]) {
            StatusCode::PAYMENT_REQUIRED
        } else if of(&["not_found"]) {
            StatusCode::NOT_FOUND
        } else if of(&["invalid_request", "invalid_prompt", "badrequest"]) {
            StatusCode::BAD_REQUEST
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        }
    }
}
