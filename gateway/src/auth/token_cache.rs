//! A cache of verified tokens: a request with a known token costs a map lookup instead of
//! cryptography.

use std::collections::HashMap;
use std::sync::Mutex;

use baton_session::clock::unix_seconds;
use baton_session::sync::MutexExt as _;
use sha2::{Digest as _, Sha256};

/// More than these are forgotten and verified anew.
const ROOM: usize = 1 << 16;

pub struct TokenCache<T> {
    known: Mutex<CachedTokens<T>>,
}

struct CachedTokens<T> {
    /// By the hash of the token, with when it expires: credentials are not kept, and a long one
    /// takes no more room than a short one.
    tokens: HashMap<[u8; 32], (T, u64)>,
    /// Of the keys they were verified with.
    version: u64,
}

impl<T> Default for TokenCache<T> {
    fn default() -> Self {
        Self {
            known: Mutex::new(CachedTokens {
                tokens: HashMap::new(),
                version: 0,
            }),
        }
    }
}

impl<T: Clone> TokenCache<T> {
    /// Only what was verified with this version of the keys.
    pub fn get(&self, token: &str, version: u64) -> Option<T> {
        let hash: [u8; 32] = Sha256::digest(token).into();
        let known = self.known.locked();
        let (value, expires) = known.tokens.get(&hash)?;
        (known.version == version && *expires > unix_seconds()).then(|| value.clone())
    }

    /// `expires` in seconds since 1970.
    pub fn put(&self, token: &str, value: T, expires: u64, version: u64) {
        let hash: [u8; 32] = Sha256::digest(token).into();
        let mut known = self.known.locked();
        if known.version != version {
            known.tokens.clear();
            known.version = version;
        }
        if known.tokens.len() >= ROOM {
            let now = unix_seconds();
            known.tokens.retain(|_, (_, expires)| *expires > now);
            // All of them are valid for long: evicted tokens are verified on next use.
            if known.tokens.len() >= ROOM {
                known.tokens.clear();
            }
        }
        known.tokens.insert(hash, (value, expires));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_expired_is_not_known_and_there_is_a_bound() {
        let verified = TokenCache::default();
        let later = unix_seconds() + 100;
        verified.put("good", 1, later, 0);
        verified.put("old", 2, 5, 0);
        assert_eq!(verified.get("good", 0), Some(1));
        assert_eq!(verified.get("old", 0), None);
        verified.put("just now", 4, unix_seconds(), 0);
        assert_eq!(verified.get("just now", 0), None);
        for number in 0..ROOM * 2 {
            verified.put(&number.to_string(), 3, u64::MAX, 0);
        }
        assert!(verified.known.lock().unwrap().tokens.len() <= ROOM);
    }

    #[test]
    fn what_has_expired_makes_room_for_the_rest() {
        let verified = TokenCache::default();
        verified.put("good", 1, u64::MAX, 0);
        for number in 1..ROOM {
            verified.put(&number.to_string(), 2, 5, 0);
        }
        verified.put("next", 3, u64::MAX, 0);
        assert_eq!(verified.get("good", 0), Some(1));
        assert_eq!(verified.known.lock().unwrap().tokens.len(), 2);
    }

    #[test]
    fn other_keys_mean_another_look() {
        let verified = TokenCache::default();
        let later = unix_seconds() + 100;
        verified.put("a", 1, later, 7);
        assert_eq!(verified.get("a", 8), None);
        verified.put("b", 2, later, 8);
        assert_eq!(
            (verified.get("a", 8), verified.get("b", 8)),
            (None, Some(2))
        );
    }
}
