//! What a worker has heard of the inbox of a session that it holds: commands themselves, or only
//! that there is something to read.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use baton_session::command::QueuedCommand;
use baton_session::sync::MutexExt as _;
use tokio::sync::Notify;

/// More than this is read from the inbox instead.
const MOST_COMMANDS: usize = 64;
const MOST_BYTES: usize = 256 << 10;

#[derive(Default)]
pub(crate) struct InboxHints {
    heard: Mutex<HeardCommands>,
    has_new_setup: AtomicBool,
    notify: Notify,
}

#[derive(Default)]
struct HeardCommands {
    commands: Vec<QueuedCommand>,
    bytes: usize,
    /// Something may have been missed.
    is_unsure: bool,
}

impl InboxHints {
    /// The inbox has to be read.
    pub fn doubt(&self) {
        let mut heard = self.heard.locked();
        heard.is_unsure = true;
        drop(heard);
        self.notify.notify_one();
    }

    pub fn hear(&self, command: QueuedCommand) {
        let mut heard = self.heard.locked();
        heard.bytes += command.command.message.len();
        heard.commands.push(command);
        if heard.commands.len() > MOST_COMMANDS || heard.bytes > MOST_BYTES {
            *heard = HeardCommands {
                is_unsure: true,
                ..HeardCommands::default()
            };
        }
        drop(heard);
        self.notify.notify_one();
    }

    /// The session has other settings than those with which it was opened here.
    pub fn note_new_setup(&self) {
        self.has_new_setup.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    pub fn has_new_setup(&self) -> bool {
        self.has_new_setup.load(Ordering::Acquire)
    }

    pub async fn notified(&self) {
        self.notify.notified().await;
    }

    /// The commands that were heard since the last call; `None` if the inbox has to be read.
    pub fn take(&self) -> Option<Vec<QueuedCommand>> {
        let heard = std::mem::take(&mut *self.heard.locked());
        (!heard.is_unsure).then_some(heard.commands)
    }
}

#[cfg(test)]
mod tests {
    use baton_session::command::{Command, CommandId, CommandKind};
    use baton_session::id::{ConnectionId, Partition};
    use baton_session::route::DeliveryPath;

    use super::*;

    fn command(number: u64, bytes: usize) -> QueuedCommand {
        QueuedCommand {
            id: CommandId { number, nonce: 7 },
            via: DeliveryPath::Session,
            takes_control: false,
            command: Command {
                kind: CommandKind::Cancel,
                connection: ConnectionId::mint(Partition(0)),
                request: None,
                client: Default::default(),
                taken_at: 0,
                trace: None,
                message: vec![b'x'; bytes].into(),
            },
        }
    }

    #[tokio::test]
    async fn what_was_heard_is_taken_once() {
        let hints = InboxHints::default();
        hints.hear(command(1, 1));
        hints.hear(command(2, 1));
        hints.notified().await;
        let numbers = |taken: Vec<QueuedCommand>| {
            let numbers = taken.iter().map(|queued| queued.id.number);
            numbers.collect::<Vec<_>>()
        };
        assert_eq!(hints.take().map(numbers), Some(vec![1, 2]));
        assert_eq!(hints.take().map(numbers), Some(vec![]));
    }

    #[test]
    fn too_much_and_every_doubt_make_the_inbox_be_read() {
        let hints = InboxHints::default();
        hints.hear(command(1, 1));
        hints.doubt();
        hints.hear(command(2, 1));
        assert!(hints.take().is_none());
        hints.hear(command(3, MOST_BYTES + 1));
        assert!(hints.take().is_none());
        (0..=MOST_COMMANDS as u64).for_each(|number| hints.hear(command(number, 1)));
        assert!(hints.take().is_none());
        assert!(hints.take().is_some());
    }
}
