//! Parses messages of a channel.

use std::sync::Arc;

use redis::Value;

use crate::event::Frame;
use crate::id::{ConnectionId, SessionId};
use crate::revocation::Revocation;
use crate::store::Signal;
use crate::store::redis::keys::RedisKeys;
use crate::store::redis::reply;

pub(super) fn signal(data: Vec<Value>) -> Option<Signal> {
    let mut data = data.into_iter();
    let (Value::BulkString(channel), Value::BulkString(payload)) = (data.next()?, data.next()?)
    else {
        return None;
    };
    let channel = std::str::from_utf8(&channel).ok()?;
    let mut payload = bytes::Bytes::from(payload);
    let kind = payload.split_to_checked(1)?[0];
    match kind {
        b'F' => {
            let line = payload.iter().position(|byte| *byte == b'\n')?;
            let last = std::str::from_utf8(&payload[..line]).ok()?.parse().ok()?;
            let frame = Frame::decode(last, payload.slice(line + 1..)).ok()?;
            Some(Signal::Frame(RedisKeys::log_of(channel)?, Arc::new(frame)))
        }
        b'G' => Some(Signal::Grown(
            RedisKeys::log_of(channel)?,
            std::str::from_utf8(&payload).ok()?.parse().ok()?,
        )),
        b'A' => {
            let connection = ConnectionId::parse(std::str::from_utf8(&payload).ok()?)?;
            match RedisKeys::log_of(channel)? {
                crate::id::LogId::Session(session) => Some(Signal::Attached(session, connection)),
                crate::id::LogId::Outbox(_) => None,
            }
        }
        b'T' => {
            let (connection, holder) = std::str::from_utf8(&payload).ok()?.split_once('\n')?;
            let connection = ConnectionId::parse(connection)?;
            Some(Signal::Taken {
                log: RedisKeys::log_of(channel)?,
                connection,
                holder: holder.to_owned(),
            })
        }
        b'I' => SessionId::parse(std::str::from_utf8(&payload).ok()?).map(Signal::Inbox),
        b'S' => SessionId::parse(std::str::from_utf8(&payload).ok()?).map(Signal::SetupChanged),
        b'C' => {
            let mut parts = payload.splitn(3, |byte| *byte == b'\n');
            let session = SessionId::parse(std::str::from_utf8(parts.next()?).ok()?)?;
            let id = std::str::from_utf8(parts.next()?).ok()?.parse().ok()?;
            let entry = payload.slice_ref(parts.next()?);
            let queued = reply::entry_of(id, entry).ok()?;
            Some(Signal::Command(session, Box::new(queued)))
        }
        b'H' => SessionId::parse(std::str::from_utf8(&payload).ok()?).map(Signal::Handed),
        b'R' => SessionId::parse(std::str::from_utf8(&payload).ok()?).map(Signal::Ready),
        b'V' => Revocation::from_text(std::str::from_utf8(&payload).ok()?).map(Signal::Revoked),
        _ => None,
    }
}

trait SplitChecked {
    fn split_to_checked(&mut self, at: usize) -> Option<bytes::Bytes>;
}

impl SplitChecked for bytes::Bytes {
    fn split_to_checked(&mut self, at: usize) -> Option<bytes::Bytes> {
        (self.len() >= at).then(|| self.split_to(at))
    }
}
