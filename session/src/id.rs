//! Names of things. A session or connection id begins with its partition, so that anybody who holds
//! the id can compute where its keys live without asking.

use std::fmt;
use std::sync::Arc;

use rand::RngExt as _;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

const ALPHABET: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// 22 characters of 62 are 131 bits: not to be guessed.
const RANDOM_CHARS: usize = 22;
const TAG_CHARS: usize = 3;

/// Returns `len` random characters of an alphabet that is safe in headers, cookies and keys.
pub fn random_text(len: usize) -> String {
    let mut rng = rand::rng();
    (0..len)
        .map(|_| ALPHABET[rng.random_range(0..ALPHABET.len())] as char)
        .collect()
}

/// One of the slices that sessions and connections are spread over; all keys of one step share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Partition(pub u16);

impl Partition {
    /// The hash tag, without braces.
    pub fn tag(self) -> String {
        format!("{:03x}", self.0)
    }

    pub fn random(count: u16) -> Self {
        Self(rand::rng().random_range(0..count.max(1)))
    }

    /// The same seed falls into the same one, as long as there are as many.
    pub fn derived(seed: &[u8], count: u16) -> Self {
        let hash = Sha256::digest(seed);
        Self(u16::from_be_bytes([hash[0], hash[1]]) % count.max(1))
    }
}

macro_rules! partitioned_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn mint(partition: Partition) -> Self {
                Self(format!("{}-{}", partition.tag(), random_text(RANDOM_CHARS)).into())
            }

            /// The same seed gives the same id; whoever does not know the seed cannot guess it.
            pub fn derived(partition: Partition, seed: &[u8]) -> Self {
                let hash = Sha256::digest(seed);
                let letter = |byte: &u8| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()]);
                let text: String = hash.iter().take(RANDOM_CHARS).map(letter).collect();
                Self(format!("{}-{text}", partition.tag()).into())
            }

            /// Accepts only what [`Self::mint`] could have made.
            pub fn parse(text: &str) -> Option<Self> {
                let (tag, random) = text.split_once('-')?;
                let tag_ok = tag.len() == TAG_CHARS
                    && tag.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
                let random_ok =
                    random.len() == RANDOM_CHARS
                        && random.bytes().all(|b| b.is_ascii_alphanumeric());
                (tag_ok && random_ok).then(|| Self(text.into()))
            }

            pub fn partition(&self) -> Partition {
                let tag = u16::from_str_radix(&self.0[..TAG_CHARS], 16);
                Partition(tag.expect("checked when the id was made"))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = &'static str;
            fn try_from(text: String) -> Result<Self, Self::Error> {
                Self::parse(&text).ok_or(concat!("not a ", stringify!($name)))
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0.to_string()
            }
        }
    };
}

partitioned_id!(
    /// A conversation. Outlives connections, workers and gateways.
    SessionId
);
partitioned_id!(
    /// A connection that `initialize` opened. Has no process: any gateway can serve it.
    ConnectionId
);

impl ConnectionId {
    /// Tells the idempotency keys of one connection from those of another, nearly always.
    pub(crate) fn key_owner(&self) -> u16 {
        let hash = Sha256::digest(self.as_str());
        u16::from_be_bytes([hash[0], hash[1]])
    }
}

/// A log is either a session's or the outbox of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LogId {
    Session(SessionId),
    Outbox(ConnectionId),
}

impl LogId {
    pub fn partition(&self) -> Partition {
        match self {
            Self::Session(id) => id.partition(),
            Self::Outbox(id) => id.partition(),
        }
    }
}

/// Drawn at every claim and written into each frame, so that a cursor names the history it belongs
/// to: after a store lost its tail, an old cursor is recognised instead of silently continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Nonce(pub u32);

impl Nonce {
    pub fn random() -> Self {
        Self(rand::rng().random())
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_carries_its_partition() {
        let id = SessionId::mint(Partition(0x7a));
        assert!(id.as_str().starts_with("07a-"));
        assert_eq!(
            SessionId::parse(id.as_str()).unwrap().partition(),
            Partition(0x7a)
        );
    }

    #[test]
    fn a_derived_id_is_as_good_as_a_minted_one() {
        let derived = SessionId::derived(Partition(3), b"seed");
        assert_eq!(SessionId::parse(derived.as_str()), Some(derived.clone()));
        assert_eq!(SessionId::derived(Partition(3), b"seed"), derived);
        assert_ne!(SessionId::derived(Partition(3), b"seeds"), derived);
    }

    #[test]
    fn what_was_never_minted_is_refused() {
        for text in [
            "",
            "07a",
            "07a-",
            "07A-0123456789012345678901",
            "07a-012345678901234567890!",
            "../etc/passwd",
        ] {
            assert_eq!(SessionId::parse(text), None, "{text}");
        }
    }
}
