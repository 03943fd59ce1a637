//! How commands get into a session's inbox.

use serde::{Deserialize, Serialize, Serializer};

use super::{SessionStatus, StoredSession};
use crate::command::{Command, CommandId, CommandKind, IdempotencyKey, QueuedCommand};
use crate::id::ConnectionId;
use crate::route::DeliveryPath;
use crate::store::{
    AnsweredRequest, EnqueueOutcome, EnqueueRequest, INBOX_BYTES, InboxAdmission, REMEMBERED_KEYS,
    REMEMBERED_KEYS_IN_ALL,
};

#[derive(Clone, Deserialize)]
pub struct KnownCommand {
    key: IdempotencyKey,
    command: CommandId,
    head: u64,
    via: DeliveryPath,
    /// See [`ConnectionId::key_owner`]; not in the records of the first version.
    #[serde(default)]
    owner: u16,
}

impl Serialize for KnownCommand {
    /// Without names, which would be most of a session's record.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let IdempotencyKey { key, fingerprint } = &self.key;
        (
            (key, fingerprint),
            self.command,
            self.head,
            self.via,
            self.owner,
        )
            .serialize(serializer)
    }
}

impl StoredSession {
    pub fn enqueue(&mut self, request: &EnqueueRequest) -> EnqueueOutcome {
        if !self.is_for(&request.principal) {
            return EnqueueOutcome::NotFound;
        }
        if let Some(known) = self.recall(&request.key) {
            return known;
        }
        if let Some(about) = &request.about
            && !self.known.iter().any(|known| known.key.key == *about)
        {
            return EnqueueOutcome::NotFound;
        }
        let command = &request.command;
        if self.standing == SessionStatus::Closed && !command.kind.reaches_closed() {
            return EnqueueOutcome::Closed;
        }
        // What runs is in the inbox until its end. One that only stays with its last worker has no
        // work.
        let has_work = !self.inbox.is_empty();
        match request.takes {
            InboxAdmission::Anything => {}
            InboxAdmission::MoreWork if has_work => {}
            InboxAdmission::AtRest(head) if head == self.head && self.inbox.is_empty() => {}
            InboxAdmission::MoreWork | InboxAdmission::Repetitions | InboxAdmission::AtRest(_) => {
                return EnqueueOutcome::Barred;
            }
        }
        // Cancels and answers must get through to a session whose inbox is full of prompts.
        let room = if command.kind.is_urgent() { 2 } else { 1 };
        let bytes = self.inbox_bytes + command.message.len() as u64;
        let heavy = !self.inbox.is_empty() && bytes > room * INBOX_BYTES;
        if self.inbox.len() as u64 >= request.limit.saturating_mul(room) || heavy {
            return EnqueueOutcome::Full;
        }
        let via = if request.one_shot {
            DeliveryPath::OneShot
        } else if command.request.is_none() {
            DeliveryPath::Connection
        } else {
            let head = self.head;
            let party = self.parties.join(&command.connection);
            match party.choose_stream(request.watched) {
                Some(via) => via,
                None => return EnqueueOutcome::Unwatched { head },
            }
        };
        let command = self.accept(command, via, &request.key);
        EnqueueOutcome::Accepted {
            command,
            head: self.head,
            via,
        }
    }

    /// Whether a request waits or runs.
    pub fn awaits(&self, key: &str) -> bool {
        let known = self.known.iter().find(|known| known.key.key == key);
        known.is_some_and(|known| self.is_waiting(known))
    }

    /// The keys of all requests that wait or run.
    pub fn awaited(&self) -> Vec<String> {
        let waiting = self.known.iter().filter(|known| self.is_waiting(known));
        waiting.map(|known| known.key.key.clone()).collect()
    }

    fn is_waiting(&self, known: &KnownCommand) -> bool {
        let mut inbox = self.inbox.iter();
        inbox.any(|queued| queued.id == known.command)
    }

    fn recall(&self, key: &IdempotencyKey) -> Option<EnqueueOutcome> {
        let named = !key.key.is_empty();
        let known = self
            .known
            .iter()
            .find(|known| named && known.key.key == key.key)?;
        if known.key.fingerprint != key.fingerprint {
            return Some(EnqueueOutcome::Conflict);
        }
        let (command, head, via) = (known.command, known.head, known.via);
        Some(EnqueueOutcome::Joined { command, head, via })
    }

    /// From here on, whoever prompts is in control, and what is to be closed is closed.
    pub(super) fn accept(
        &mut self,
        command: &Command,
        via: DeliveryPath,
        key: &IdempotencyKey,
    ) -> CommandId {
        self.last_command += 1;
        let id = CommandId {
            number: self.last_command,
            nonce: CommandId::random_nonce(),
        };
        let queued = QueuedCommand {
            id,
            via,
            takes_control: command.kind == CommandKind::Prompt && self.control(&command.connection),
            command: command.clone(),
        };
        if command.kind == CommandKind::Close {
            self.standing = SessionStatus::Closed;
            self.closed_by = Some(command.connection.clone());
        }
        self.inbox_bytes += command.message.len() as u64;
        self.inbox.push(queued);
        if !key.key.is_empty() {
            self.remember(KnownCommand {
                key: key.clone(),
                command: id,
                head: self.head,
                via,
                owner: command.connection.key_owner(),
            });
        }
        id
    }

    /// See `append.lua`. False if the request is known.
    pub(super) fn remember_lost(&mut self, request: &AnsweredRequest, first: u64) -> bool {
        let command = request.command;
        let is_known = |known: &KnownCommand| known.key.key == request.key.key;
        if self.inbox.iter().any(|queued| queued.id == command) || self.known.iter().any(is_known) {
            return false;
        }
        let running = self.running.filter(|running| running.command == command);
        self.remember(KnownCommand {
            key: request.key.clone(),
            command,
            head: running.map_or(first, |running| running.began) - 1,
            via: request.via,
            owner: request.connection.key_owner(),
        });
        true
    }

    /// Puts a connection in control; false if it was already.
    pub(super) fn control(&mut self, connection: &ConnectionId) -> bool {
        let new = self.controller.as_ref() != Some(connection);
        if new {
            self.controller = Some(connection.clone());
        }
        new
    }

    /// The oldest key of the same owner that nobody waits under makes room for the new one, or the
    /// oldest of all.
    fn remember(&mut self, new: KnownCommand) {
        let own = |known: &KnownCommand| known.owner == new.owner;
        if self.known.iter().filter(|known| own(known)).count() as u64 >= REMEMBERED_KEYS {
            self.forget_oldest(own);
        }
        if self.known.len() as u64 >= REMEMBERED_KEYS_IN_ALL {
            self.forget_oldest(|_| true);
        }
        self.known.push(new);
    }

    fn forget_oldest(&mut self, of: impl Fn(&KnownCommand) -> bool) {
        let done = |known: &KnownCommand| of(known) && !self.is_waiting(known);
        let oldest = self.known.iter().position(done);
        if let Some(oldest) = oldest {
            self.known.remove(oldest);
        }
    }
}
