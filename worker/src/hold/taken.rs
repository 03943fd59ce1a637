//! Which commands this holder has read. The store is asked for all others, by name: numbers may come again after a
//! store has lost its tail.

use std::collections::VecDeque;

use baton_session::command::{CommandId, Queued};

/// Commands of the past that are recognised if they come back.
const REMEMBERED: usize = 1024;

#[derive(Default)]
pub(super) struct Taken {
    /// Read and not done with.
    open: Vec<CommandId>,
    /// Acknowledged, latest last.
    done: VecDeque<CommandId>,
}

/// Whether a command that was read from the inbox is new to this holder.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadCommand {
    New,
    /// It was acknowledged, and the store has lost that or has not got it yet.
    Done,
}

impl Taken {
    pub fn of(inbox: &[Queued]) -> Self {
        Self {
            open: inbox.iter().map(|queued| queued.id).collect(),
            done: VecDeque::new(),
        }
    }

    /// Those that need not be read again.
    pub fn open(&self) -> &[CommandId] {
        &self.open
    }

    pub fn take(&mut self, id: CommandId) -> ReadCommand {
        if self.done.contains(&id) {
            return ReadCommand::Done;
        }
        self.open.push(id);
        ReadCommand::New
    }

    pub fn acknowledge(&mut self, id: CommandId) {
        self.open.retain(|open| *open != id);
        if self.done.len() == REMEMBERED {
            self.done.pop_front();
        }
        self.done.push_back(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_comes_again_is_another_command() {
        let id = |number, nonce| CommandId { number, nonce };
        let mut taken = Taken::default();
        assert_eq!(taken.take(id(1, 7)), ReadCommand::New);
        assert_eq!(taken.open(), [id(1, 7)]);
        taken.acknowledge(id(1, 7));
        assert!(taken.open().is_empty());
        assert_eq!(taken.take(id(1, 7)), ReadCommand::Done);
        assert_eq!(taken.take(id(1, 8)), ReadCommand::New);
    }

    #[test]
    fn memory_is_bounded() {
        let mut taken = Taken::default();
        for number in 0..2 * REMEMBERED as u64 {
            let id = CommandId { number, nonce: 0 };
            taken.take(id);
            taken.acknowledge(id);
        }
        assert_eq!((taken.open.len(), taken.done.len()), (0, REMEMBERED));
    }
}
