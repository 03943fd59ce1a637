//! Why a token is refused.

/// The sender gets the same answer for all of them; the reason is for logs and metrics only. It
/// never quotes the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a valid token: {}", self.text())]
pub enum TokenRefusal {
    Malformed,
    TooLong,
    Kind,
    Key,
    Algorithm,
    Signature,
    Audience,
    Expired,
    Early,
    List,
    Control,
    Archive,
}

impl TokenRefusal {
    fn text(self) -> &'static str {
        match self {
            Self::Malformed => "not a JWT of ours",
            Self::TooLong => "too long",
            Self::Kind => "another kind of token",
            Self::Key => "unknown key",
            Self::Algorithm => "not its key's algorithm",
            Self::Signature => "not signed with its key",
            Self::Audience => "for another audience",
            Self::Expired => "expired",
            Self::Early => "not valid yet",
            Self::List => "a place in another list",
            Self::Control => "control is not shared",
            Self::Archive => "the seal of another archive",
        }
    }

    /// One word, for metrics.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::TooLong => "too_long",
            Self::Kind => "kind",
            Self::Key => "key",
            Self::Algorithm => "algorithm",
            Self::Signature => "signature",
            Self::Audience => "audience",
            Self::Expired => "expired",
            Self::Early => "early",
            Self::List => "list",
            Self::Control => "control",
            Self::Archive => "archive",
        }
    }
}
