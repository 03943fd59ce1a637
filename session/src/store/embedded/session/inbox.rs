//! How commands get into a session's inbox.

use serde::{Deserialize, Serialize, Serializer};

use super::{Session, Standing};
use crate::command::{Command, Idempotency, Kind, Queued};
use crate::id::ConnectionId;
use crate::route::Via;
use crate::store::{Enqueue, Enqueued, INBOX_BYTES, REMEMBERED_KEYS, Takes};

#[derive(Clone, Deserialize)]
pub struct Known {
    key: Idempotency,
    number: u64,
    head: u64,
    via: Via,
}

impl Serialize for Known {
    /// Without names, which would be most of a session's record.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Idempotency { key, fingerprint } = &self.key;
        ((key, fingerprint), self.number, self.head, self.via).serialize(serializer)
    }
}

impl Session {
    pub fn enqueue(&mut self, request: &Enqueue) -> Enqueued {
        if !self.is_for(&request.principal) {
            return Enqueued::NotFound;
        }
        if let Some(known) = self.recall(&request.key) {
            return known;
        }
        if let Some(about) = &request.about
            && !self.known.iter().any(|known| known.key.key == *about)
        {
            return Enqueued::NotFound;
        }
        let command = &request.command;
        if self.standing == Standing::Closed && !command.kind.reaches_closed() {
            return Enqueued::Closed;
        }
        let has_work = self.lease.is_some() || !self.inbox.is_empty();
        match request.takes {
            Takes::Anything => {}
            Takes::MoreWork if has_work => {}
            Takes::MoreWork | Takes::Repetitions => return Enqueued::Barred,
        }
        // Cancels and answers must get through to a session whose inbox is full of prompts.
        let room = if command.kind.is_urgent() { 2 } else { 1 };
        let bytes = self.inbox_bytes + command.message.len() as u64;
        let heavy = !self.inbox.is_empty() && bytes > room * INBOX_BYTES;
        if self.inbox.len() as u64 >= request.limit.saturating_mul(room) || heavy {
            return Enqueued::Full;
        }
        let via = if request.one_shot {
            Via::OneShot
        } else if command.request.is_none() {
            Via::Connection
        } else {
            let head = self.head;
            match self
                .parties
                .entry(command.connection.clone())
                .or_default()
                .settle(request.watched)
            {
                Some(via) => via,
                None => return Enqueued::Unwatched { head },
            }
        };
        let number = self.accept(command, via, &request.key);
        Enqueued::Accepted {
            number,
            head: self.head,
            via,
        }
    }

    fn recall(&self, key: &Idempotency) -> Option<Enqueued> {
        let named = !key.key.is_empty();
        let known = self
            .known
            .iter()
            .find(|known| named && known.key.key == key.key)?;
        if known.key.fingerprint != key.fingerprint {
            return Some(Enqueued::Conflict);
        }
        let (number, head, via) = (known.number, known.head, known.via);
        Some(Enqueued::Joined { number, head, via })
    }

    /// From here on, whoever prompts is in control, and what is to be closed is closed.
    pub(super) fn accept(&mut self, command: &Command, via: Via, key: &Idempotency) -> u64 {
        self.last_command += 1;
        let number = self.last_command;
        let queued = Queued {
            number,
            via,
            takes_control: command.kind == Kind::Prompt && self.control(&command.connection),
            command: command.clone(),
        };
        if command.kind == Kind::Close {
            self.standing = Standing::Closed;
        }
        self.inbox_bytes += command.message.len() as u64;
        self.inbox.push(queued);
        if !key.key.is_empty() {
            self.remember(Known {
                key: key.clone(),
                number,
                head: self.head,
                via,
            });
        }
        number
    }

    /// Puts a connection in control; false if it was already.
    pub(super) fn control(&mut self, connection: &ConnectionId) -> bool {
        let new = self.controller.as_ref() != Some(connection);
        if new {
            self.controller = Some(connection.clone());
        }
        new
    }

    /// The oldest key that nobody waits under makes room for the new one.
    fn remember(&mut self, new: Known) {
        if self.known.len() as u64 >= REMEMBERED_KEYS {
            let waits = |known: &Known| {
                self.inbox
                    .iter()
                    .any(|queued| queued.number == known.number)
            };
            if let Some(oldest) = self.known.iter().position(|known| !waits(known)) {
                self.known.remove(oldest);
            }
        }
        self.known.push(new);
    }
}
