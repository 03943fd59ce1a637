//! What was verified before is not verified again: a request that brings a known token costs a look
//! into a map instead of cryptography.

use std::collections::HashMap;
use std::sync::Mutex;

use baton_session::clock::unix_millis;

/// More than these are forgotten and verified anew.
const ROOM: usize = 1 << 16;

pub struct Verified<T> {
    /// By the token, with when it expires.
    known: Mutex<HashMap<Box<str>, (T, u64)>>,
}

impl<T> Default for Verified<T> {
    fn default() -> Self {
        Self {
            known: Mutex::default(),
        }
    }
}

impl<T: Clone> Verified<T> {
    pub fn get(&self, token: &str) -> Option<T> {
        let known = self.known.lock().expect("held for moments only");
        let (value, expires) = known.get(token)?;
        (*expires > unix_millis() / 1000).then(|| value.clone())
    }

    /// `expires` in seconds since 1970.
    pub fn put(&self, token: &str, value: T, expires: u64) {
        let mut known = self.known.lock().expect("held for moments only");
        if known.len() >= ROOM {
            let now = unix_millis() / 1000;
            known.retain(|_, (_, expires)| *expires > now);
            // All of them are good for long: who comes again is verified again.
            if known.len() >= ROOM {
                known.clear();
            }
        }
        known.insert(token.into(), (value, expires));
    }

    pub fn clear(&self) {
        self.known.lock().expect("held for moments only").clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_expired_is_not_known_and_there_is_a_bound() {
        let verified = Verified::default();
        let later = unix_millis() / 1000 + 100;
        verified.put("good", 1, later);
        verified.put("old", 2, 5);
        assert_eq!(verified.get("good"), Some(1));
        assert_eq!(verified.get("old"), None);
        for number in 0..ROOM * 2 {
            verified.put(&number.to_string(), 3, later);
        }
        assert!(verified.known.lock().unwrap().len() <= ROOM);
        verified.clear();
        assert_eq!(verified.get("0"), None);
    }
}
