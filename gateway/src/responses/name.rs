//! The id of a response: `resp_SESSION_AFTER_ASKER`. It names a session and, in its log, the turn
//! that this request has begun; or, as `resp_SESSION_AFTERa_ASKER`, what came of a turn after the
//! question there was answered. Session and asker are not to be guessed, and both are looked up for
//! the caller's principal only, so an id opens nothing to others.

use std::fmt;
use std::str::FromStr;

use baton_session::id::{ConnectionId, SessionId};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseName {
    pub session: SessionId,
    /// Its events come after this one.
    pub after: u64,
    /// That one is a question of the agent, and the request has answered it.
    pub answers: bool,
    /// The connection that was made for the request, and for no other.
    pub asker: ConnectionId,
}

const ANSWERS: &str = "a";

#[derive(Debug, PartialEq, Eq)]
pub struct InvalidResponseName;

impl fmt::Display for ResponseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            session,
            after,
            asker,
            ..
        } = self;
        let answers = if self.answers { ANSWERS } else { "" };
        write!(f, "resp_{session}_{after}{answers}_{asker}")
    }
}

impl FromStr for ResponseName {
    type Err = InvalidResponseName;

    /// Takes only what is written as we write it.
    fn from_str(text: &str) -> Result<Self, InvalidResponseName> {
        let read = || {
            let mut parts = text.strip_prefix("resp_")?.split('_');
            let session = SessionId::parse(parts.next()?)?;
            let after = parts.next()?;
            let answers = after.ends_with(ANSWERS);
            let after = after.strip_suffix(ANSWERS).unwrap_or(after).parse().ok()?;
            let asker = ConnectionId::parse(parts.next()?)?;
            Some(Self {
                session,
                after,
                answers,
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
    /// The first event that has to be read.
    pub fn first(&self) -> u64 {
        if self.answers {
            self.after
        } else {
            self.after + 1
        }
    }

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
        let mut name = ResponseName {
            session: SessionId::mint(Partition(7)),
            after: 12,
            answers: true,
            asker: ConnectionId::mint(Partition(0xfff)),
        };
        assert_eq!(name.to_string().parse().as_ref(), Ok(&name));
        name.answers = false;
        let text = name.to_string();
        assert_eq!(text.parse(), Ok(name));
        assert!(text.len() <= 80, "{text}");
        for other in [
            String::new(),
            "resp_".into(),
            text.replace("_12_", "_012_"),
            text.replace("_12_", "_+12_"),
            text.replace("_12_", "__"),
            text.replace("_12_", "_12aa_"),
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
