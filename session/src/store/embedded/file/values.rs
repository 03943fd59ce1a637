//! The values under keys.

use std::cell::RefCell;

use bytes::Bytes;
use fjall::Slice;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::command::{Command, CommandId, QueuedCommand};
use crate::route::DeliveryPath;
use crate::store::{Error, Result};

pub fn slice(bytes: Bytes) -> Slice {
    bytes.into()
}

const MAX_ROOM: usize = 16 << 10;

thread_local! {
    /// Records are of about one size: there is room for the next where the last one was.
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// With names, so that a later version can add fields.
pub fn record(value: &impl Serialize) -> Result<Slice> {
    ROOM.with_borrow_mut(|room| {
        let written = rmp_serde::encode::write_named(room, value);
        let record = written.map(|()| Slice::from(room.as_slice()));
        room.clear();
        // An agent may have asked for much to be kept.
        room.shrink_to(MAX_ROOM);
        record.map_err(|error| Error::Broken(error.to_string()))
    })
}

pub fn unrecord<T: DeserializeOwned>(value: &[u8]) -> Result<T> {
    rmp_serde::from_slice(value).map_err(|error| Error::Broken(error.to_string()))
}

/// Before the nonce of a command's name, which the first versions did not write.
const NAMED: u8 = b'n';

/// The nonce of its name, its way, as a capital if it takes control, its head with a length before
/// it, then the message.
pub fn encode_command(queued: &QueuedCommand) -> Bytes {
    let head = queued.command.head();
    let mut value = Vec::with_capacity(16 + head.len() + queued.command.message.len());
    value.push(NAMED);
    value.extend_from_slice(&queued.id.nonce.to_be_bytes());
    let via = queued.via.letter().as_bytes();
    if queued.takes_control {
        value.extend_from_slice(&via.to_ascii_uppercase());
    } else {
        value.extend_from_slice(via);
    }
    value.extend_from_slice(&(head.len() as u32).to_be_bytes());
    value.extend_from_slice(head.as_bytes());
    value.extend_from_slice(&queued.command.message);
    value.into()
}

pub fn decode_command(number: u64, mut value: Bytes) -> Option<QueuedCommand> {
    let mut nonce = 0;
    if value.first() == Some(&NAMED) {
        nonce = u32::from_be_bytes(value.get(1..5)?.try_into().ok()?);
        value = value.split_off(5);
    }
    let rest = value.get(1..5)?;
    let length = u32::from_be_bytes(rest.try_into().ok()?) as usize;
    let start = 5 + length;
    let letter = std::str::from_utf8(value.get(..1)?).ok()?;
    let takes_control = letter.bytes().all(|letter| letter.is_ascii_uppercase());
    let via = DeliveryPath::from_letter(&letter.to_ascii_lowercase())?;
    let head = std::str::from_utf8(value.get(5..start)?).ok()?.to_owned();
    let command = Command::from_parts(&head, value.split_off(start))?;
    Some(QueuedCommand {
        id: CommandId { number, nonce },
        via,
        takes_control,
        command,
    })
}

pub fn spoiled(what: &str) -> Error {
    Error::Broken(format!("a stored {what} cannot be read"))
}
