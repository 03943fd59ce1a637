//! Keys sort by what they are looked up by: a log's frames by number, uses by time.

use super::super::shelf::Kind;
use crate::id::{ConnectionId, LogId, SessionId};

/// Of a log, before the numbers of its frames.
pub fn log(log: &LogId) -> Vec<u8> {
    let mut key = vec![letter(Kind::of(log))];
    key.extend_from_slice(name(log));
    key
}

pub fn frame(of: &LogId, last: u64) -> Vec<u8> {
    numbered(log(of), last)
}

pub fn command(session: &SessionId, number: u64) -> Vec<u8> {
    numbered(session.as_str().into(), number)
}

/// The session whose command this key is of.
pub fn session_of(command: &[u8]) -> Option<SessionId> {
    let (id, _) = command.split_at_checked(command.len().checked_sub(8)?)?;
    SessionId::parse(std::str::from_utf8(id).ok()?)
}

/// The number at a key's end.
pub fn number(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*key.last_chunk()?))
}

pub fn used(log: &LogId, at: u64) -> Vec<u8> {
    let mut key = used_at(Kind::of(log), at);
    key.extend_from_slice(name(log));
    key
}

/// Sorts before all that was used at this time or later.
pub fn used_at(kind: Kind, at: u64) -> Vec<u8> {
    numbered(vec![letter(kind)], at)
}

pub fn user(key: &[u8]) -> Option<(u64, LogId)> {
    let (kind, rest) = key.split_first()?;
    let (at, id) = rest.split_first_chunk()?;
    let id = std::str::from_utf8(id).ok()?;
    let log = match kind {
        b's' => LogId::Session(SessionId::parse(id)?),
        b'o' => LogId::Outbox(ConnectionId::parse(id)?),
        _ => return None,
    };
    Some((u64::from_be_bytes(*at), log))
}

fn numbered(mut key: Vec<u8>, number: u64) -> Vec<u8> {
    key.extend_from_slice(&number.to_be_bytes());
    key
}

fn letter(kind: Kind) -> u8 {
    match kind {
        Kind::Session => b's',
        Kind::Outbox => b'o',
    }
}

fn name(log: &LogId) -> &[u8] {
    match log {
        LogId::Session(id) => id.as_str().as_bytes(),
        LogId::Outbox(id) => id.as_str().as_bytes(),
    }
}
