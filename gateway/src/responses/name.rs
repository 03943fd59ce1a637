//! The id of a response: `resp_SESSION_AFTER_ASKER`. It names a session and, in its log, the turn
//! that this request has begun. Session and asker are not to be guessed, and both are looked up for
//! the caller's principal only, so an id opens nothing to others.

use std::fmt;
use std::str::FromStr;

use baton_session::id::{ConnectionId, SessionId};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseName {
    pub session: SessionId,
    /// Its events come after this one.
    pub after: u64,
    /// The connection that was made for the request, and for no other.
    pub asker: ConnectionId,
}

#[derive(Debug, PartialEq, Eq)]
pub struct InvalidResponseName;

impl fmt::Display for ResponseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "resp_{}_{}_{}", self.session, self.after, self.asker)
    }
}

impl FromStr for ResponseName {
    type Err = InvalidResponseName;

    /// Takes only what is written as we write it.
    fn from_str(text: &str) -> Result<Self, InvalidResponseName> {
        let read = || {
            let mut parts = text.strip_prefix("resp_")?.split('_');
            let session = SessionId::parse(parts.next()?)?;
            let after = parts.next()?.parse().ok()?;
            let asker = ConnectionId::parse(parts.next()?)?;
            Some(Self {
                session,
                after,
                asker,
            })
        };
        let name = read().ok_or(InvalidResponseName)?;
        if name.to_string() == text {
            Ok(name)
        } else {
            Err(InvalidResponseName)
        }
    }
}

impl ResponseName {
    /// The id of one of its items, by the kind of item: `msg`, `rs`, `fc`.
    pub fn item(&self, kind: &str, index: u32) -> String {
        format!("{kind}_{}_{index}", self.asker)
    }
}

#[cfg(test)]
mod tests {
    use baton_session::id::Partition;

    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_written_and_in_no_other_form() {
        let name = ResponseName {
            session: SessionId::mint(Partition(7)),
            after: 12,
            asker: ConnectionId::mint(Partition(0xfff)),
        };
        let text = name.to_string();
        assert_eq!(text.parse(), Ok(name));
        assert!(text.len() <= 80, "{text}");
        for other in [
            String::new(),
            "resp_".into(),
            text.replace("_12_", "_012_"),
            text.replace("_12_", "_+12_"),
            text.replace("_12_", "__"),
            format!("{text}_"),
            format!("{text}_1"),
            text.replace("resp", "msg"),
        ] {
            assert_eq!(
                other.parse::<ResponseName>(),
                Err(InvalidResponseName),
                "{other}"
            );
        }
    }
}
