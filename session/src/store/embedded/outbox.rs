//! A connection's outbox and the registration of its stream.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::backend::note_use;
use crate::command::IdempotencyKey;
use crate::event::{Event, Frame};
use crate::id::{Nonce, SessionId};
use crate::store::{
    OUTBOX_BYTES, OUTBOX_ENTRY, OUTBOX_WATCHES, OUTBOX_WINDOW_BYTES, OUTBOX_WINDOW_ENTRIES,
    OUTBOX_WINDOW_POSITIONS, REMEMBERED_KEYS,
};

/// The outbox without its frames, which the backend has.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Outbox {
    pub head: u64,
    known: Vec<PostedKey>,
    pub written: Option<String>,
    /// When it was last written to or read from, in milliseconds since 1970.
    pub used: u64,
    /// The last entry that has left it.
    #[serde(default)]
    pub trimmed: u64,
    /// The size of the entries that are left. Entries of versions that did not count have none.
    #[serde(default)]
    bytes: u64,
    /// The last entry that was written to the client.
    #[serde(default)]
    pub delivered: u64,
    /// Sessions to watch, by the entry that said so and has left.
    #[serde(default)]
    watches: Vec<(u64, SessionId)>,
    /// Sessions that the stream has left, by the last entry that told to watch them, as long as
    /// that is in the outbox.
    #[serde(default)]
    left: Vec<(u64, SessionId)>,
    /// The bytes of position entries.
    #[serde(default)]
    positions: u64,
    /// The client's description of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The holder of the stream; it ends with this process.
    #[serde(skip)]
    pub holder: Option<String>,
    /// The one before, until it has said how far it has written.
    #[serde(skip)]
    pub before: Option<String>,
}

/// A key that was used, and the entry it led to.
#[derive(Clone, Serialize, Deserialize)]
struct PostedKey {
    key: IdempotencyKey,
    number: u64,
    /// The session that the entry told to watch.
    #[serde(default)]
    watch: Option<SessionId>,
}

/// The earlier use of a key.
pub enum RecalledPost {
    Entry(u64),
    /// It has left the outbox.
    Trimmed(Option<SessionId>),
    SomethingElse,
}

impl Outbox {
    pub fn recall(&self, key: &IdempotencyKey) -> Option<RecalledPost> {
        if key.key.is_empty() {
            return None;
        }
        let known = self.known.iter().find(|known| known.key.key == key.key)?;
        Some(if known.key.fingerprint != key.fingerprint {
            RecalledPost::SomethingElse
        } else if known.number <= self.trimmed {
            RecalledPost::Trimmed(known.watch.clone())
        } else {
            RecalledPost::Entry(known.number)
        })
    }

    /// Whether so much more may come. An entry alone may weigh what it wants.
    pub fn has_room_for(&self, bytes: u64, most: u64) -> bool {
        fits(self.without_positions(), bytes, most)
    }

    /// Nobody is refused because of positions, which gateways write for themselves; and these not
    /// because of anybody else.
    pub fn has_room(&self, event: &Event) -> bool {
        let has = match event {
            Event::Positions { .. } => self.positions,
            _ => self.without_positions(),
        };
        fits(has, weight(event), OUTBOX_BYTES)
    }

    fn without_positions(&self) -> u64 {
        self.bytes.saturating_sub(self.positions)
    }

    /// Whether there is more than has to stay of what was delivered.
    pub fn is_beyond_its_window(&self) -> bool {
        self.without_positions() > OUTBOX_WINDOW_BYTES
            || self.positions > OUTBOX_WINDOW_POSITIONS
            || self.head - self.trimmed > OUTBOX_WINDOW_ENTRIES
    }

    /// Removes the entry, unless it has to stay. The session that it tells to watch is kept.
    pub fn trim(&mut self, entry: &Frame, upto: u64) -> bool {
        if entry.last() >= upto.min(self.head) || !self.is_beyond_its_window() {
            return false;
        }
        for (number, event) in entry.numbered() {
            if let Event::Watch { session, .. } = event
                && !self.keep_watch(number, session)
            {
                return false;
            }
        }
        let weight: u64 = entry.events.iter().map(weight).sum();
        self.bytes = self.bytes.saturating_sub(weight);
        if let [Event::Positions { .. }] = entry.events[..] {
            self.positions = self.positions.saturating_sub(weight);
        }
        self.trimmed = entry.last();
        true
    }

    /// False if there is no room for it.
    fn keep_watch(&mut self, number: u64, session: &SessionId) -> bool {
        let is_same = |entry: &(u64, SessionId)| entry.1 == *session;
        if let Some(at) = self.left.iter().position(is_same)
            && self.left[at].0 >= number
        {
            if self.left[at].0 == number {
                self.left.remove(at);
            }
            return true;
        }
        let is_full = self.watches.len() as u64 >= OUTBOX_WATCHES;
        let mut told = self.watches.iter_mut().filter(|entry| is_same(entry));
        // Cursors may name either: the first if it was watched all the time, the last if it was
        // left meanwhile.
        match (told.next(), told.next()) {
            (Some(_), Some(last)) => last.0 = number,
            (None, _) if is_full => return false,
            _ => self.watches.push((number, session.clone())),
        }
        true
    }

    /// By the entries that told so and have left it, in their order.
    pub fn watches(&self) -> Vec<(u64, SessionId)> {
        let mut watches = self.watches.clone();
        watches.sort_unstable_by_key(|(number, _)| *number);
        watches
    }

    /// Whether anything has changed.
    pub fn forget_watch(&mut self, session: &SessionId, told: u64) -> bool {
        let before = self.watches.len();
        self.watches
            .retain(|(number, known)| known != session || *number > told);
        let is_in_outbox = told > self.trimmed && told <= self.head;
        if is_in_outbox {
            self.left.retain(|(_, known)| known != session);
            self.left.push((told, session.clone()));
        }
        is_in_outbox || self.watches.len() < before
    }

    /// Notes that it is used; what was noted before, if that is too long ago to stand.
    pub fn use_now(&mut self) -> Option<u64> {
        note_use(&mut self.used)
    }

    pub fn add(&mut self, event: Event, key: &IdempotencyKey) -> Arc<Frame> {
        self.head += 1;
        self.bytes += weight(&event);
        if let Event::Positions { .. } = event {
            self.positions += weight(&event);
        }
        if !key.key.is_empty() {
            if self.known.len() as u64 >= REMEMBERED_KEYS {
                self.known.remove(0);
            }
            self.known.push(PostedKey {
                key: key.clone(),
                number: self.head,
                watch: match &event {
                    Event::Watch { session, .. } => Some(session.clone()),
                    _ => None,
                },
            });
        }
        Arc::new(Frame {
            first: self.head,
            nonce: Nonce::random(),
            events: vec![event],
        })
    }
}

fn fits(has: u64, more: u64, most: u64) -> bool {
    has == 0 || has + more <= most
}

fn weight(event: &Event) -> u64 {
    event.size() as u64 + OUTBOX_ENTRY
}
