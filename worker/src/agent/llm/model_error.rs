//! Why a model did not answer. The messages go to users and say what to do; none contains a key.

use std::time::Duration;

use thiserror::Error;

/// `detail` is the endpoint's own message, bounded and without secrets.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ModelError {
    #[error(
        "the model endpoint {endpoint} cannot be reached ({detail}): check that it runs and that \
         its URL, proxy and certificates are right"
    )]
    Unreachable { endpoint: String, detail: String },
    #[error("the model endpoint {which} within {limit:?}: try again, or allow it more time")]
    Timeout {
        which: ModelTimeout,
        limit: Duration,
    },
    #[error("the model endpoint refuses the key ({detail}): set BATON_LLM_KEY to a valid one")]
    Unauthorized { detail: String },
    #[error("the endpoint has no model {model:?} ({detail}): choose another one")]
    UnknownModel { model: String, detail: String },
    #[error("the model endpoint limits requests ({detail}): try again later")]
    RateLimited {
        retry_after: Option<Duration>,
        detail: String,
    },
    #[error("the account at the model endpoint has no credit or quota left ({detail}): add some")]
    QuotaSpent { detail: String },
    #[error("the model endpoint is overloaded or fails ({detail}): try again later")]
    Overloaded {
        retry_after: Option<Duration>,
        detail: String,
    },
    #[error(
        "the conversation is longer than the model's context ({detail}): compact it, or choose a \
         model with a longer context"
    )]
    ContextTooLong { detail: String },
    #[error("the model {model:?} cannot use tools ({detail}): choose one that can")]
    ToolsUnsupported { model: String, detail: String },
    #[error("the model endpoint refuses the request ({detail}): check URL, model and options")]
    BadRequest { detail: String },
    /// The stream ended before its end was said.
    #[error("the answer of the model broke off ({detail}): it can be continued")]
    BrokenOff { detail: String },
    #[error(
        "the model endpoint answered with something that cannot be read ({detail}): check that \
         the URL belongs to the protocol"
    )]
    Malformed { detail: String },
    #[error("the answer of the model is larger than allowed ({detail}): ask for less at once")]
    TooLarge { detail: String },
    #[error("the call of the model was cancelled")]
    Cancelled,
}

/// What took too long, as the words of a sentence.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ModelTimeout {
    #[error("did not accept a connection")]
    Connect,
    #[error("did not begin to answer")]
    FirstByte,
    #[error("fell silent and said nothing")]
    Silence,
}

impl ModelError {
    /// Whether the same request may succeed a little later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::Timeout { .. }
            | Self::RateLimited { .. }
            | Self::Overloaded { .. }
            | Self::BrokenOff { .. } => true,
            Self::Unauthorized { .. }
            | Self::UnknownModel { .. }
            | Self::QuotaSpent { .. }
            | Self::ContextTooLong { .. }
            | Self::ToolsUnsupported { .. }
            | Self::BadRequest { .. }
            | Self::Malformed { .. }
            | Self::TooLarge { .. }
            | Self::Cancelled => false,
        }
    }

    /// How long the endpoint wants to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Overloaded { retry_after, .. } => {
                *retry_after
            }
            _ => None,
        }
    }

    /// A label for metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "unreachable",
            Self::Timeout { .. } => "timeout",
            Self::Unauthorized { .. } => "unauthorized",
            Self::UnknownModel { .. } => "unknown_model",
            Self::RateLimited { .. } => "rate_limited",
            Self::QuotaSpent { .. } => "quota_spent",
            Self::Overloaded { .. } => "overloaded",
            Self::ContextTooLong { .. } => "context_too_long",
            Self::ToolsUnsupported { .. } => "tools_unsupported",
            Self::BadRequest { .. } => "bad_request",
            Self::BrokenOff { .. } => "broken_off",
            Self::Malformed { .. } => "malformed",
            Self::TooLarge { .. } => "too_large",
            Self::Cancelled => "cancelled",
        }
    }
}
