//! What is refused although its signature is good: tokens are checked without asking anybody, so what
//! was taken back has to be known.

use std::fmt;
use std::time::Duration;

use crate::clock::unix_millis;
use crate::id::{ConnectionId, SessionId};
use crate::token::CONNECTION_LIFETIME;

/// A token may be dated a minute ahead, so it may live as much longer.
const MARGIN: u64 = 60;
/// How long a connection that was given up is refused.
pub const ENDED_FOR: Duration = Duration::from_secs(600);

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    Session(SessionId),
    Connection(ConnectionId),
    Principal(String),
    /// The session tokens of one family with a generation below this one.
    Family {
        family: String,
        below: u32,
    },
}

/// All times in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revocation {
    pub subject: Subject,
    /// What was issued then or earlier is refused.
    pub before: u64,
    /// It takes effect then.
    pub from: u64,
    /// Nothing of what it refuses is good any longer: it can be forgotten.
    pub until: u64,
}

impl Revocation {
    /// Of everything that is out, at once. What is issued later is good again, but for a connection:
    /// that is opened only once, and the clocks of gateways may differ.
    pub fn at_once(subject: Subject) -> Self {
        let now = unix_millis() / 1000;
        let until = now + CONNECTION_LIFETIME.as_secs() + MARGIN;
        let before = match subject {
            Subject::Connection(_) => until,
            _ => now,
        };
        Self {
            subject,
            before,
            from: now,
            until,
        }
    }

    /// Of a connection that its client has given up. There is one such for nearly every connection, and
    /// only its own principal could come back with it: it is remembered for a while, not for a day.
    pub fn of_ended(connection: ConnectionId) -> Self {
        let now = unix_millis() / 1000;
        let until = now + ENDED_FOR.as_secs();
        Self {
            subject: Subject::Connection(connection),
            before: until,
            from: now,
            until,
        }
    }

    /// Of a connection that its client has given up.
    pub fn is_of_ended(&self) -> bool {
        let lasts = self.until.saturating_sub(self.from);
        matches!(self.subject, Subject::Connection(_)) && lasts <= ENDED_FOR.as_secs()
    }

    /// For one subject the later `before` wins; of equal ones the last.
    pub fn gives_way_to(&self, other: &Self) -> bool {
        other.before >= self.before
    }

    /// One line: a version, three times, the subject.
    pub fn text(&self) -> String {
        let Self {
            subject,
            before,
            from,
            until,
        } = self;
        format!("1 {before} {from} {until} {subject}")
    }

    /// `None` for what a newer version has written.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix("1 ")?.splitn(4, ' ');
        let mut number = || parts.next()?.parse().ok();
        let (before, from, until) = (number()?, number()?, number()?);
        Some(Self {
            subject: Subject::from_text(parts.next()?)?,
            before,
            from,
            until,
        })
    }
}

impl Subject {
    fn from_text(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once(' ')?;
        match kind {
            "s" => SessionId::parse(name).map(Self::Session),
            "c" => ConnectionId::parse(name).map(Self::Connection),
            "p" => Some(Self::Principal(name.to_owned())),
            "f" => {
                let (below, family) = name.split_once(' ')?;
                Some(Self::Family {
                    family: family.to_owned(),
                    below: below.parse().ok()?,
                })
            }
            _ => None,
        }
    }
}

/// As stores know it by.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(id) => write!(f, "s {id}"),
            Self::Connection(id) => write!(f, "c {id}"),
            Self::Principal(name) => write!(f, "p {name}"),
            Self::Family { family, below } => write!(f, "f {below} {family}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Partition;

    #[test]
    fn what_is_written_can_be_read() {
        let subjects = [
            Subject::Session(SessionId::mint(Partition(3))),
            Subject::Connection(ConnectionId::mint(Partition(4))),
            Subject::Principal("https://issuer.example  some one".into()),
            Subject::Family {
                family: "abc".into(),
                below: 7,
            },
        ];
        for subject in subjects {
            let revocation = Revocation {
                subject,
                before: 1,
                from: 2,
                until: u64::MAX,
            };
            let text = revocation.text();
            assert_eq!(text.lines().count(), 1);
            assert_eq!(Revocation::from_text(&text), Some(revocation), "{text}");
        }
    }

    #[test]
    fn what_a_newer_version_writes_is_skipped() {
        for text in [
            "",
            "1",
            "2 1 2 3 p alice",
            "1 1 2 3 q alice",
            "1 1 2 x p alice",
            "1 1 2 3 s not-an-id",
            "1 1 2 3 f family",
        ] {
            assert_eq!(Revocation::from_text(text), None, "{text}");
        }
    }

    #[test]
    fn a_connection_is_refused_whatever_the_date_of_its_token() {
        let id = ConnectionId::mint(Partition(0));
        let revocation = Revocation::at_once(Subject::Connection(id));
        assert_eq!(revocation.before, revocation.until);
        let revocation = Revocation::at_once(Subject::Principal("a".into()));
        assert_eq!(revocation.before, revocation.from);
    }
}
