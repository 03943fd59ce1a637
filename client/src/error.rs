//! Errors, and whether to try again.

use std::time::Duration;

use baton_protocol::ErrorCode;

/// Errors found before the first request.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error("the certificates of --ca: {0}")]
    Ca(String),
    #[error("the system's certificates: {0}. Name a file with --ca")]
    SystemCa(String),
}

/// How a request to the server failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RequestFailure {
    /// May work later: the network, a server that restarts, a store that is away.
    #[error("{why}")]
    Away {
        why: String,
        /// The server asks for this pause.
        pause: Option<Duration>,
        /// Not even a connection came about, which says nothing about the way the request was made.
        unconnected: bool,
    },
    /// The connection is over: expired, revoked, or detached.
    #[error("the connection is not known any more")]
    Lost,
    /// Will not work however often it is tried. The code is that of a JSON-RPC error.
    #[error("{text}")]
    Refused { code: i64, text: String },
}

impl RequestFailure {
    pub fn invalid(why: &str) -> Self {
        Self::Refused {
            code: ErrorCode::InvalidRequest.value(),
            text: why.to_owned(),
        }
    }

    pub fn away(why: impl ToString) -> Self {
        Self::Away {
            why: why.to_string(),
            pause: None,
            unconnected: false,
        }
    }
}
