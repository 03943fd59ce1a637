//! Keys sort by what they are looked up by: a log's frames by number, uses by time.

use super::super::backend::ExpiryKind;
use super::super::list::ListKey;
use crate::id::{ConnectionId, LogId, SessionId};
use crate::store::ListPosition;

/// Of a log, before the numbers of its frames.
pub fn log(log: &LogId) -> Vec<u8> {
    let kind = match log {
        LogId::Session(_) => ExpiryKind::Session,
        LogId::Outbox(_) => ExpiryKind::Outbox,
    };
    let mut key = vec![letter(kind)];
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

pub fn used(kind: ExpiryKind, log: &LogId, at: u64) -> Vec<u8> {
    let mut key = used_at(kind, at);
    key.extend_from_slice(name(log));
    key
}

/// Sorts before all that was used at this time or later.
pub fn used_at(kind: ExpiryKind, at: u64) -> Vec<u8> {
    numbered(vec![letter(kind)], at)
}

pub fn user(key: &[u8]) -> Option<(u64, LogId)> {
    let (kind, rest) = key.split_first()?;
    let (at, id) = rest.split_first_chunk()?;
    let id = std::str::from_utf8(id).ok()?;
    let log = match kind {
        b's' | b'd' => LogId::Session(SessionId::parse(id)?),
        b'o' => LogId::Outbox(ConnectionId::parse(id)?),
        _ => return None,
    };
    Some((u64::from_be_bytes(*at), log))
}

pub fn listed(under: &ListKey, place: &ListPosition) -> Vec<u8> {
    let mut key = numbered(under.0.to_vec(), place.updated);
    key.extend_from_slice(place.session.as_str().as_bytes());
    key
}

pub fn place(listed: &[u8]) -> Option<ListPosition> {
    let (_, place) = listed.split_at_checked(size_of::<ListKey>())?;
    let (updated, id) = place.split_first_chunk()?;
    Some(ListPosition {
        updated: u64::from_be_bytes(*updated),
        session: SessionId::parse(std::str::from_utf8(id).ok()?)?,
    })
}

/// Of a principal, before the sessions on its account.
pub fn account(principal: &str) -> [u8; 32] {
    ListKey::new(principal, None).0
}

pub fn stored(principal: &str, session: &SessionId) -> Vec<u8> {
    [&account(principal), session.as_str().as_bytes()].concat()
}

pub fn stored_session(key: &[u8]) -> Option<SessionId> {
    let (_, id) = key.split_at_checked(size_of::<ListKey>())?;
    SessionId::parse(std::str::from_utf8(id).ok()?)
}

/// That `fork` shares the log of `session`.
pub fn sharer(session: &SessionId, fork: &SessionId) -> Vec<u8> {
    [session.as_str(), fork.as_str()].concat().into()
}

fn numbered(mut key: Vec<u8>, number: u64) -> Vec<u8> {
    key.extend_from_slice(&number.to_be_bytes());
    key
}

fn letter(kind: ExpiryKind) -> u8 {
    match kind {
        ExpiryKind::Session => b's',
        ExpiryKind::Unseen => b'd',
        ExpiryKind::Outbox => b'o',
    }
}

fn name(log: &LogId) -> &[u8] {
    match log {
        LogId::Session(id) => id.as_str().as_bytes(),
        LogId::Outbox(id) => id.as_str().as_bytes(),
    }
}
