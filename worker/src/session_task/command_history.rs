//! Which commands this holder has read. The store is asked for all others, by name: numbers may
//! come again after a store has lost its tail.
//!
//! A client repeats a request that it has no answer to. If the store has lost the command that it
//! became the first time, it becomes another one, while this holder still has the first: it is the
//! same request, and is answered once.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use baton_session::command::{Command, CommandId, QueuedCommand};

/// Commands of the past that are recognised if they come back.
const REMEMBERED: usize = 1024;

#[derive(Default)]
pub(super) struct CommandHistory {
    /// Read and not done with.
    open: Vec<SeenCommand>,
    /// Acknowledged, latest last.
    done: VecDeque<SeenCommand>,
    /// The highest number so far.
    last: u64,
    /// Numbers went back: the store has lost commands.
    went_back: bool,
}

#[derive(Clone, Copy)]
struct SeenCommand {
    id: CommandId,
    /// A hash of connection, request id and message; `None` for notifications.
    request: Option<u64>,
    /// The command that it repeats, and with which it is done.
    repeats: Option<CommandId>,
}

/// Whether a command that was read from the inbox is new to this holder.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadCommand {
    New,
    /// The same request is under way under another name, and is done with together with it.
    Repeated,
    /// It was acknowledged, or the same request was, and the store has lost that or has not got it
    /// yet.
    Done,
}

impl CommandHistory {
    pub fn of(inbox: &[QueuedCommand]) -> Self {
        let mut taken = Self::default();
        for queued in inbox {
            taken.take(queued.id, &queued.command);
        }
        taken
    }

    /// Whether these come right after the last one that was read, so that there are none between.
    pub fn is_followed_by(&self, commands: &[QueuedCommand]) -> bool {
        let numbers = commands.iter().map(|queued| queued.id.number);
        !self.went_back && numbers.eq((self.last + 1..).take(commands.len()))
    }

    /// Those that need not be read again.
    pub fn open(&self) -> Vec<CommandId> {
        self.open.iter().map(|reading| reading.id).collect()
    }

    pub fn take(&mut self, id: CommandId, command: &Command) -> ReadCommand {
        self.took(id, digest(command))
    }

    fn took(&mut self, id: CommandId, request: Option<u64>) -> ReadCommand {
        if self.done.iter().any(|done| done.id == id) {
            return ReadCommand::Done;
        }
        self.went_back |= id.number <= self.last;
        self.last = self.last.max(id.number);
        let same =
            |other: &&SeenCommand| self.went_back && request.is_some() && other.request == request;
        if self.done.iter().any(|done| same(&done)) {
            return ReadCommand::Done;
        }
        let repeats = self.open.iter().find(same).map(|first| first.id);
        self.open.push(SeenCommand {
            id,
            request,
            repeats,
        });
        match repeats {
            Some(_) => ReadCommand::Repeated,
            None => ReadCommand::New,
        }
    }

    /// The request is done with. Returns its other names.
    pub fn acknowledge(&mut self, id: CommandId) -> Vec<CommandId> {
        let is_done = |reading: &mut SeenCommand| reading.id == id || reading.repeats == Some(id);
        let done: Vec<SeenCommand> = self.open.extract_if(.., is_done).collect();
        let names = done.iter().map(|done| done.id);
        let names = names.filter(|name| *name != id).collect();
        for reading in done {
            if self.done.len() == REMEMBERED {
                self.done.pop_front();
            }
            self.done.push_back(reading);
        }
        names
    }
}

fn digest(command: &Command) -> Option<u64> {
    let request = command.request.as_ref()?;
    let mut hasher = DefaultHasher::new();
    (&command.connection, request, &command.message).hash(&mut hasher);
    Some(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64, nonce: u32) -> CommandId {
        CommandId { number, nonce }
    }

    #[test]
    fn a_number_that_comes_again_is_another_command() {
        let mut taken = CommandHistory::default();
        assert_eq!(taken.took(id(1, 7), None), ReadCommand::New);
        assert_eq!(taken.open(), [id(1, 7)]);
        taken.acknowledge(id(1, 7));
        assert!(taken.open().is_empty());
        assert_eq!(taken.took(id(1, 7), None), ReadCommand::Done);
        assert_eq!(taken.took(id(1, 8), None), ReadCommand::New);
    }

    #[test]
    fn a_request_that_was_lost_and_is_repeated_is_done_once() {
        let mut taken = CommandHistory::default();
        assert_eq!(taken.took(id(4, 7), Some(1)), ReadCommand::New);
        // Another one is first after the failover.
        assert_eq!(taken.took(id(4, 8), Some(2)), ReadCommand::New);
        assert_eq!(taken.took(id(5, 9), Some(1)), ReadCommand::Repeated);
        assert_eq!(taken.open(), [id(4, 7), id(4, 8), id(5, 9)]);
        assert_eq!(taken.acknowledge(id(4, 7)), [id(5, 9)]);
        assert_eq!(taken.open(), [id(4, 8)]);
        assert_eq!(taken.took(id(6, 1), Some(1)), ReadCommand::Done);
    }

    #[test]
    fn the_same_words_under_the_same_id_are_new_while_numbers_rise() {
        let mut taken = CommandHistory::default();
        for number in 1..4 {
            assert_eq!(taken.took(id(number, 7), Some(1)), ReadCommand::New);
            taken.acknowledge(id(number, 7));
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut taken = CommandHistory::default();
        for number in 0..2 * REMEMBERED as u64 {
            let id = id(number, 0);
            taken.took(id, None);
            taken.acknowledge(id);
        }
        assert_eq!((taken.open.len(), taken.done.len()), (0, REMEMBERED));
    }
}
