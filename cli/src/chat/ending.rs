//! How a turn ended that did not end well.

use super::peer::PeerError;
use crate::exit;

#[derive(Debug, thiserror::Error)]
pub enum ChatEnding {
    #[error("the agent refused")]
    Refused,
    /// For the reason that the protocol gives it.
    #[error("the agent stopped early: {0}")]
    Early(String),
    #[error("cancelled")]
    Cancelled,
    #[error(transparent)]
    Failed(#[from] PeerError),
}

impl ChatEnding {
    /// `None` if it ended well.
    pub fn read(reason: &str) -> Option<Self> {
        match reason {
            "end_turn" => None,
            "refusal" => Some(Self::Refused),
            "cancelled" => Some(Self::Cancelled),
            other => Some(Self::Early(other.to_owned())),
        }
    }

    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Failed(fault) if fault.is_unreachable() => exit::UNAVAILABLE,
            Self::Failed(_) => exit::OTHER,
            Self::Refused => exit::REFUSED,
            Self::Early(_) => exit::EARLY,
            Self::Cancelled => exit::INTERRUPTED,
        }
    }
}
