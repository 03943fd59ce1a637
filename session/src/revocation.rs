//! Revocations of tokens with a valid signature: tokens are checked without a lookup, so every
//! gateway has to know all revocations.

use std::fmt;
use std::time::Duration;

use crate::clock::unix_millis;
use crate::id::{ConnectionId, SessionId};
use crate::token::{CONNECTION_LIFETIME, MAX_SKEW};

pub use self::register::{RevocationRegister, RevokeOutcome};

mod register;

/// A token may be dated a minute ahead, so it may live as much longer.
const MARGIN: u64 = 60;
/// How far the clocks of gateways may be ahead of the one that a store was restored by, in seconds.
/// Tokens issued after the restore are dated that much ahead, and clocks that are that much behind
/// still accept them.
const AHEAD: u64 = MAX_SKEW / 2;
/// How long a connection that its client closed is refused.
pub const ENDED_FOR: Duration = Duration::from_secs(600);

const EVERYBODY: &str = "everybody";

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RevocationSubject {
    Session(SessionId),
    Connection(ConnectionId),
    Principal(String),
    /// The session tokens of one family with a generation below this one.
    Family {
        family: String,
        below: u32,
    },
    /// All logins of a principal, instead of many one by one.
    Logins(String),
    /// All tokens of all callers.
    Everybody,
}

/// Callers take back what is their own, as often as they like. So each has a budget for each of
/// these, and what it does about it harms nobody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RevocationCause {
    /// Too many become one for all logins of the principal.
    Logout,
    /// A session token was renewed. Beyond the budget none is.
    Renewal,
    /// A connection was closed. Beyond the budget the principal's oldest are removed: only their
    /// own client could come back with them.
    Ended,
}

impl RevocationCause {
    pub const fn budget(self) -> usize {
        match self {
            Self::Logout => 256,
            Self::Renewal | Self::Ended => 10_000,
        }
    }

    pub const fn letter(self) -> char {
        match self {
            Self::Logout => 'l',
            Self::Renewal => 'r',
            Self::Ended => 'e',
        }
    }

    fn of_letter(letter: char) -> Option<Self> {
        let all = [Self::Logout, Self::Renewal, Self::Ended];
        all.into_iter().find(|asked| asked.letter() == letter)
    }
}

/// The caller who has asked for a revocation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RevocationCaller {
    pub asked: RevocationCause,
    pub principal: String,
}

/// All times in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revocation {
    pub subject: RevocationSubject,
    /// Tokens issued at this time or earlier are refused.
    pub before: u64,
    /// It takes effect then.
    pub from: u64,
    /// Nothing of what it refuses is good any longer: it can be forgotten.
    pub until: u64,
    /// `None`: an administrator. Such a revocation is never removed before it has ended.
    pub asker: Option<RevocationCaller>,
}

impl Revocation {
    pub fn asked_by(mut self, asked: RevocationCause, principal: &str) -> Self {
        self.asker = Some(RevocationCaller {
            asked,
            principal: principal.to_owned(),
        });
        self
    }

    /// Revokes all tokens of the subject at once. Tokens issued later are valid again, except for a
    /// connection: that is opened only once, and the clocks of gateways may differ.
    pub fn at_once(subject: RevocationSubject) -> Self {
        let now = unix_millis() / 1000;
        let until = now + CONNECTION_LIFETIME.as_secs() + MARGIN;
        let before = match subject {
            RevocationSubject::Connection(_) => until,
            _ => now,
        };
        Self {
            subject,
            before,
            from: now,
            until,
            asker: None,
        }
    }

    /// Revokes everything that was issued before a store was restored from a backup. Revocations,
    /// renewals and uses after the backup are not known any more; they all concern tokens issued
    /// before this.
    pub fn of_the_past() -> Self {
        let now = unix_millis() / 1000;
        let before = now + AHEAD;
        Self {
            subject: RevocationSubject::Everybody,
            before,
            from: now,
            until: before + CONNECTION_LIFETIME.as_secs() + MARGIN,
            asker: None,
        }
    }

    /// Revokes a connection that its client has closed. There is one such for nearly every
    /// connection, and only its own principal could come back with it: it is kept for a while, not
    /// for a day.
    pub fn of_ended(connection: ConnectionId, principal: &str) -> Self {
        let now = unix_millis() / 1000;
        let until = now + ENDED_FOR.as_secs();
        Self {
            subject: RevocationSubject::Connection(connection),
            before: until,
            from: now,
            until,
            asker: None,
        }
        .asked_by(RevocationCause::Ended, principal)
    }

    /// Whether it revokes a connection that its client has closed.
    pub fn is_of_ended(&self) -> bool {
        let lasts = self.until.saturating_sub(self.from);
        matches!(self.subject, RevocationSubject::Connection(_)) && lasts <= ENDED_FOR.as_secs()
    }

    /// For one subject the later `before` wins; of equal ones the last.
    pub fn gives_way_to(&self, other: &Self) -> bool {
        other.before >= self.before
    }

    /// One line: a version, three times, the subject; in version 2 who has asked for it and for
    /// what.
    pub fn text(&self) -> String {
        let Self {
            subject,
            before,
            from,
            until,
            asker,
        } = self;
        match asker {
            None => format!("1 {before} {from} {until} {subject}"),
            Some(RevocationCaller { asked, principal }) => {
                let letter = asked.letter();
                format!("2 {before} {from} {until} {subject}\t{letter}{principal}")
            }
        }
    }

    /// `None` for what a newer version has written.
    pub fn from_text(text: &str) -> Option<Self> {
        let (text, asker) = match text.strip_prefix("1 ") {
            Some(text) => (text, None),
            None => {
                let (text, asker) = text.strip_prefix("2 ")?.rsplit_once('\t')?;
                (text, Some(RevocationCaller::from_text(asker)?))
            }
        };
        let mut parts = text.splitn(4, ' ');
        let mut number = || parts.next()?.parse().ok();
        let (before, from, until) = (number()?, number()?, number()?);
        Some(Self {
            subject: RevocationSubject::from_text(parts.next()?)?,
            before,
            from,
            until,
            asker,
        })
    }
}

impl RevocationCaller {
    fn from_text(text: &str) -> Option<Self> {
        let mut letters = text.chars();
        Some(Self {
            asked: RevocationCause::of_letter(letters.next()?)?,
            principal: letters.as_str().to_owned(),
        })
    }
}

impl RevocationSubject {
    fn from_text(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once(' ')?;
        match kind {
            "s" => SessionId::parse(name).map(Self::Session),
            "c" => ConnectionId::parse(name).map(Self::Connection),
            "p" => Some(Self::Principal(name.to_owned())),
            "l" => Some(Self::Logins(name.to_owned())),
            "a" if name == EVERYBODY => Some(Self::Everybody),
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
impl fmt::Display for RevocationSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(id) => write!(f, "s {id}"),
            Self::Connection(id) => write!(f, "c {id}"),
            Self::Principal(name) => write!(f, "p {name}"),
            Self::Family { family, below } => write!(f, "f {below} {family}"),
            Self::Logins(name) => write!(f, "l {name}"),
            Self::Everybody => write!(f, "a {EVERYBODY}"),
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
            RevocationSubject::Session(SessionId::mint(Partition(3))),
            RevocationSubject::Connection(ConnectionId::mint(Partition(4))),
            RevocationSubject::Principal("https://issuer.example  some one".into()),
            RevocationSubject::Family {
                family: "abc".into(),
                below: 7,
            },
            RevocationSubject::Logins("some one".into()),
            RevocationSubject::Everybody,
        ];
        for subject in subjects {
            let own = Revocation {
                subject,
                before: 1,
                from: 2,
                until: u64::MAX,
                asker: None,
            };
            let asked = [
                RevocationCause::Logout,
                RevocationCause::Renewal,
                RevocationCause::Ended,
            ]
            .map(|asked| own.clone().asked_by(asked, "some  one"));
            for revocation in asked.into_iter().chain([own]) {
                let text = revocation.text();
                assert_eq!(text.lines().count(), 1);
                assert_eq!(Revocation::from_text(&text), Some(revocation), "{text}");
            }
        }
    }

    #[test]
    fn what_a_newer_version_writes_is_skipped() {
        for text in [
            "",
            "1",
            "2 1 2 3 p alice",
            "2 1 2 3 p alice\tx",
            "3 1 2 3 p alice\tlbob",
            "1 1 2 3 q alice",
            "1 1 2 x p alice",
            "1 1 2 3 s not-an-id",
            "1 1 2 3 a nobody",
            "1 1 2 3 f family",
        ] {
            assert_eq!(Revocation::from_text(text), None, "{text}");
        }
    }

    #[test]
    fn a_connection_is_refused_whatever_the_date_of_its_token() {
        let id = ConnectionId::mint(Partition(0));
        let revocation = Revocation::at_once(RevocationSubject::Connection(id));
        assert_eq!(revocation.before, revocation.until);
        let revocation = Revocation::at_once(RevocationSubject::Principal("a".into()));
        assert_eq!(revocation.before, revocation.from);
    }
}
