//! How a caller is told that it has to wait.

use std::borrow::Cow;
use std::time::Duration;

use axum::http::HeaderValue;
use baton_protocol::{ErrorCode, compose};
use bytes::Bytes;
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitKind {
    Requests,
    Bytes,
    Streams,
    Sessions,
    Turns,
    InflightBytes,
    Outbox,
    /// Bytes that are kept, and how many may be.
    Storage {
        used: u64,
        most: u64,
    },
}

impl LimitKind {
    /// As errors and metrics name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Bytes => "bytes",
            Self::Streams => "streams",
            Self::Sessions => "sessions",
            Self::Turns => "turns",
            Self::InflightBytes => "inflight_bytes",
            Self::Outbox => "outbox",
            Self::Storage { .. } => "storage",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitRefusal {
    pub limit: LimitKind,
    /// When to try again. `None`: waiting alone does not help.
    pub wait: Option<Duration>,
}

impl LimitRefusal {
    pub fn text(&self) -> Cow<'static, str> {
        let text = match self.limit {
            LimitKind::Requests => "too many requests: wait, then send it again with a new id",
            LimitKind::Bytes => "too much was sent at once: wait, then send it again with a new id",
            LimitKind::Streams => "too many streams are open: close one, or try again later",
            LimitKind::Sessions => {
                "there are as many sessions as this caller may have: remove one with session/delete"
            }
            LimitKind::InflightBytes => {
                "too much of this caller is being received at once (--max-inflight-bytes): wait, \
                 then send it again"
            }
            LimitKind::Outbox => {
                "too much waits on this connection's stream: read that with GET, or open another \
                 connection with initialize"
            }
            LimitKind::Turns => {
                "as many sessions work as this caller may have at once: wait for an answer, then \
                 send it again with a new id"
            }
            LimitKind::Storage { used, most } => {
                return format!(
                    "{used} bytes are kept for this caller, {most} may be: remove sessions with \
                     session/delete, then send it again with a new id; a session that was removed \
                     counts for another minute"
                )
                .into();
            }
        };
        text.into()
    }

    /// Tells the caller which limit it is at, and when to try again.
    pub fn answer(&self, id: &str) -> Bytes {
        let (text, data) = (self.text(), Some(self.data()));
        compose::error_with(id, ErrorCode::LimitReached, &text, data)
    }

    fn data(&self) -> Value {
        let mut data = json!({ "limit": self.limit.as_str(), "retryable": self.wait.is_some() });
        if let LimitKind::Storage { used, most } = self.limit {
            data["used"] = json!(used);
            data["most"] = json!(most);
        }
        if let Some(wait) = self.wait {
            data["retryAfterMs"] = json!(wait.as_millis().max(1) as u64);
        }
        data
    }

    /// For `Retry-After`, in whole seconds: rather a little too late.
    pub fn retry_after(&self) -> Option<HeaderValue> {
        let seconds = self.wait?.as_millis().div_ceil(1000).max(1) as u64;
        Some(seconds.into())
    }
}
