//! A connection's outbox and the registration of its stream.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::shelf::note_use;
use crate::command::Idempotency;
use crate::event::{Event, Frame};
use crate::id::Nonce;
use crate::store::REMEMBERED_KEYS;

/// The frames themselves are on the shelf.
#[derive(Default, Serialize, Deserialize)]
pub struct Outbox {
    pub head: u64,
    known: Vec<Known>,
    pub written: Option<String>,
    /// When it was last written to or read from, in milliseconds since 1970.
    pub used: u64,
    /// Who holds the stream; that holder ends with this process.
    #[serde(skip)]
    pub holder: Option<String>,
}

/// A key that was used, and the entry it led to.
#[derive(Serialize, Deserialize)]
struct Known {
    key: Idempotency,
    number: u64,
}

impl Outbox {
    /// The entry that was made under this key: its number, or `None` if it was something else.
    pub fn recall(&self, key: &Idempotency) -> Option<Option<u64>> {
        if key.key.is_empty() {
            return None;
        }
        let known = self.known.iter().find(|known| known.key.key == key.key)?;
        Some((known.key.fingerprint == key.fingerprint).then_some(known.number))
    }

    /// Notes that it is used; what was noted before, if that is too long ago to stand.
    pub fn use_now(&mut self) -> Option<u64> {
        note_use(&mut self.used)
    }

    pub fn add(&mut self, event: Event, key: &Idempotency) -> Arc<Frame> {
        self.head += 1;
        if !key.key.is_empty() {
            if self.known.len() as u64 >= REMEMBERED_KEYS {
                self.known.remove(0);
            }
            self.known.push(Known {
                key: key.clone(),
                number: self.head,
            });
        }
        Arc::new(Frame {
            first: self.head,
            nonce: Nonce(0),
            events: vec![event],
        })
    }
}
