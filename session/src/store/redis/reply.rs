//! Reading what scripts return.

use std::sync::Arc;

use bytes::Bytes;
use redis::Value;

use crate::block::{self, DecodeBudget};
use crate::command::{Command, CommandId, QueuedCommand};
use crate::event::Frame;
use crate::id::{ConnectionId, SessionId};
use crate::route::{DeliveryPath, Route};
use crate::store::{
    AttachRequest, Attachment, Claim, Claimant, Error, ListPosition, PAGE_BYTES, Result,
    RunningTurn, SessionSetup, VanishedHolders, page,
};

pub(super) struct ScriptReply(pub Value);

pub(super) struct ReplyItems(std::vec::IntoIter<Value>);

pub(super) fn unexpected(what: &str) -> Error {
    Error::Broken(format!("unexpected reply {what:?}"))
}

impl ScriptReply {
    pub fn items(self) -> Result<ReplyItems> {
        match self.0 {
            Value::Array(items) => Ok(ReplyItems(items.into_iter())),
            Value::Nil => Ok(ReplyItems(Vec::new().into_iter())),
            Value::Map(pairs) => {
                let both = pairs.into_iter().flat_map(|(field, value)| [field, value]);
                Ok(ReplyItems(both.collect::<Vec<_>>().into_iter()))
            }
            other => Err(unexpected(&format!("{other:?}"))),
        }
    }

    pub fn optional_bytes(self) -> Result<Option<Bytes>> {
        match self.0 {
            Value::Nil => Ok(None),
            value => bytes(value).map(Some),
        }
    }

    pub fn optional_text(self) -> Result<Option<String>> {
        match self.0 {
            Value::Nil => Ok(None),
            value => text(value).map(Some),
        }
    }

    /// The fields of a hash, as name and value in turn.
    pub fn pairs(self) -> Result<ReplyItems> {
        match self.0 {
            Value::Map(pairs) => {
                let flat = pairs.into_iter().flat_map(|(name, value)| [name, value]);
                Ok(ReplyItems(flat.collect::<Vec<_>>().into_iter()))
            }
            other => Self(other).items(),
        }
    }

    pub fn optional_number(self) -> Result<u64> {
        match self.0 {
            Value::Nil => Ok(0),
            value => number(value),
        }
    }
}

impl ReplyItems {
    pub fn is_empty(&self) -> bool {
        self.0.as_slice().is_empty()
    }

    pub fn next(&mut self) -> Result<Value> {
        self.0.next().ok_or_else(|| unexpected("too short"))
    }

    pub fn next_text(&mut self) -> Result<Option<String>> {
        self.0.next().map(text).transpose()
    }

    pub fn text(&mut self) -> Result<String> {
        text(self.next()?)
    }

    pub fn bytes(&mut self) -> Result<Bytes> {
        bytes(self.next()?)
    }

    /// `None` for what was never set.
    pub fn optional_bytes(&mut self) -> Result<Option<Bytes>> {
        match self.next()? {
            Value::Nil => Ok(None),
            value => bytes(value).map(Some),
        }
    }

    pub fn number(&mut self) -> Result<u64> {
        number(self.next()?)
    }

    pub fn via(&mut self) -> Result<DeliveryPath> {
        let letter = self.text()?;
        DeliveryPath::from_letter(&letter).ok_or_else(|| unexpected(&letter))
    }

    pub fn attachment(&mut self) -> Result<Attachment> {
        let head = self.number()?;
        let route = self.text()?;
        let route = Route::from_text(&route).ok_or_else(|| unexpected(&route))?;
        let controller = ConnectionId::parse(&self.text()?);
        let directives = self.text()?.lines().map(directive).collect::<Result<_>>()?;
        let view = self.bytes()?;
        let pending = self.text()?;
        let pending = pending.split(',').filter(|number| !number.is_empty());
        let pending = pending.map(|number| number.parse().map_err(|_| unexpected(number)));
        // Only said to who asks for nothing else.
        let (standing, left) = if self.is_empty() {
            (String::new(), 0)
        } else {
            (self.text()?, self.number()?)
        };
        Ok(Attachment {
            head,
            route,
            controller,
            directives,
            view,
            pending: pending.collect::<Result<_>>()?,
            deleted: standing == "d",
            closed: standing == "c",
            left,
        })
    }

    pub fn claim(&mut self, session: &SessionId, claimant: &Claimant) -> Result<Claim> {
        let (head, cwd) = (self.number()?, self.text()?);
        let (params, state) = (self.bytes()?, self.bytes()?);
        let (command, began) = (self.text()?, self.text()?);
        let vanished = VanishedHolders {
            at_once: self.number()? as u32,
            working: self.number()? as u32,
        };
        let running = match (command.parse(), began.parse()) {
            (Ok(command), Ok(began)) => Some(RunningTurn { command, began }),
            _ => None,
        };
        let setup = SessionSetup {
            mcp_servers: self.optional_bytes()?,
            directories: self.optional_bytes()?,
        };
        let bound = self.bytes()?;
        let principal = self.text()?;
        let counts = self.counting()?;
        let inbox = ScriptReply(self.next()?).pairs()?.queued(&counts)?;
        let (session, token) = (session.clone(), claimant.token.clone());
        Ok(Claim {
            session,
            token,
            principal,
            head,
            cwd,
            params,
            setup,
            state,
            bound,
            running,
            vanished,
            inbox,
        })
    }
}

fn directive(line: &str) -> Result<AttachRequest> {
    let read = || {
        let mut fields = line.splitn(5, ' ');
        Some(AttachRequest {
            number: fields.next()?.parse().ok()?,
            upto: fields.next()?.parse().ok()?,
            replay: fields.next()? == "1",
            via: DeliveryPath::from_letter(fields.next()?)?,
            request: fields.next()?.into(),
        })
    };
    read().ok_or_else(|| unexpected(line))
}

/// The entries of a stream: number and fields by name.
fn entries(reply: ScriptReply) -> Result<Vec<(u64, Vec<Value>)>> {
    let entries = match reply.0 {
        Value::Array(entries) => entries,
        // None were asked for.
        Value::Nil => return Ok(Vec::new()),
        _ => return Err(unexpected("not a stream")),
    };
    let read = |entry: Value| -> Result<(u64, Vec<Value>)> {
        let mut items = ScriptReply(entry).items()?;
        let id = items.text()?;
        let number = id.split('-').next().and_then(|number| number.parse().ok());
        let Value::Array(fields) = items.next()? else {
            return Err(unexpected("an entry without fields"));
        };
        Ok((number.ok_or_else(|| unexpected(&id))?, fields))
    };
    entries.into_iter().map(read).collect()
}

fn field(fields: &mut [Value], name: &[u8]) -> Result<Value> {
    let mut pairs = fields.chunks_exact_mut(2);
    let found = pairs.find(|pair| matches!(&pair[0], Value::BulkString(text) if text == name));
    let found = found.ok_or_else(|| unexpected("an entry without a needed field"))?;
    Ok(std::mem::replace(&mut found[1], Value::Nil))
}

pub(super) fn frame(last: u64, data: Bytes) -> Result<Frame> {
    Frame::decode(last, data).map_err(|malformed| Error::Broken(malformed.to_string()))
}

/// A page of frames.
pub(super) fn frames(reply: ScriptReply) -> Result<Vec<Arc<Frame>>> {
    let read = |(last, mut fields): (u64, Vec<Value>)| {
        frame(last, bytes(field(&mut fields, b"d")?)?).map(Arc::new)
    };
    page::fill(entries(reply)?.into_iter().map(read))
}

/// A page of what is in these blocks from an event on. Each has its last number and a space before
/// it.
pub(super) fn blocks(reply: ScriptReply, from: u64) -> Result<Vec<Arc<Frame>>> {
    let broken = || unexpected("a block that cannot be read");
    let mut frames = Vec::new();
    let mut room = DecodeBudget::of(PAGE_BYTES);
    let mut items = reply.items()?;
    while !items.is_empty() {
        let mut entry = items.bytes()?;
        let space = entry
            .iter()
            .position(|byte| *byte == b' ')
            .ok_or_else(broken)?;
        let last = std::str::from_utf8(&entry[..space]).ok();
        let last = last.and_then(|last| last.parse().ok()).ok_or_else(broken)?;
        let decoded = block::decode_from(from, last, entry.split_off(space + 1), &mut room);
        let decoded = decoded.map_err(|malformed| Error::Broken(malformed.to_string()))?;
        frames.extend(decoded.into_iter().map(Arc::new));
        if room.is_full() {
            break;
        }
    }
    Ok(frames)
}

pub(super) fn sessions(reply: ScriptReply) -> Result<Vec<SessionId>> {
    reply.items()?.sessions()
}

/// Sessions and their times in turn.
pub(super) fn places(reply: ScriptReply) -> Result<Vec<ListPosition>> {
    let mut items = reply.items()?;
    let mut places = Vec::new();
    while let Some(id) = items.next_text()? {
        let session = SessionId::parse(&id).ok_or_else(|| unexpected(&id))?;
        let updated = items.number()?;
        places.push(ListPosition { updated, session });
    }
    Ok(places)
}

/// Which entries of an inbox count: a step that failed halfway may have left one that was not
/// accepted yet, or one that is done with.
pub(super) struct InboxFilter {
    last: u64,
    done: Vec<CommandId>,
}

impl InboxFilter {
    fn has(&self, id: CommandId) -> bool {
        id.number <= self.last && !self.done.contains(&id)
    }
}

impl ReplyItems {
    pub fn command(&mut self) -> Result<CommandId> {
        command_id(&self.text()?)
    }

    pub fn counting(&mut self) -> Result<InboxFilter> {
        let last = self.number()?;
        let done = self.text()?;
        let done = done.split(' ').filter(|name| !name.is_empty());
        let done = done.map(command_id).collect::<Result<_>>()?;
        Ok(InboxFilter { last, done })
    }

    pub fn sessions(&mut self) -> Result<Vec<SessionId>> {
        let mut sessions = Vec::new();
        while let Some(id) = self.next_text()? {
            sessions.push(SessionId::parse(&id).ok_or_else(|| unexpected(&id))?);
        }
        Ok(sessions)
    }

    /// The names in an inbox, which has no order.
    pub fn commands(&mut self, counts: &InboxFilter) -> Result<Vec<CommandId>> {
        let mut waiting = Vec::new();
        while let Some(name) = self.next_text()? {
            waiting.push(command_id(&name)?);
        }
        waiting.retain(|id| counts.has(*id));
        waiting.sort();
        Ok(waiting)
    }

    /// An inbox: name and entry in turn, in no order.
    pub fn queued(&mut self, counts: &InboxFilter) -> Result<Vec<QueuedCommand>> {
        let mut waiting = Vec::new();
        while let Some(name) = self.next_text()? {
            let id = command_id(&name)?;
            let entry = self.bytes()?;
            if counts.has(id) {
                waiting.push(entry_of(id, entry)?);
            }
        }
        waiting.sort_by_key(|queued| queued.id);
        Ok(waiting)
    }
}

fn command_id(name: &str) -> Result<CommandId> {
    name.parse().map_err(|_| unexpected(name))
}

/// The line of the idempotency key ends with the way of delivery, before which a `k` tells that the
/// command takes control; the version before wrote none. Then come the five lines of the command's
/// head and its message.
pub fn entry_of(id: CommandId, mut entry: Bytes) -> Result<QueuedCommand> {
    let broken = || unexpected("an inbox entry that cannot be read");
    let mut line_feeds = entry
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .map(|(at, _)| at);
    let line = line_feeds.next().ok_or_else(broken)?;
    let head = line_feeds.nth(4).ok_or_else(broken)?;
    let message = entry.split_off(head + 1);
    let text = std::str::from_utf8(&entry[..head]).map_err(|_| broken())?;
    let via = text
        .get(line - 1..line)
        .and_then(DeliveryPath::from_letter)
        .ok_or_else(broken)?;
    let command = Command::from_parts(&text[line + 1..], message).ok_or_else(broken)?;
    Ok(QueuedCommand {
        id,
        via,
        takes_control: text[..line - 1].ends_with(" k "),
        command,
    })
}

pub(super) fn bytes(value: Value) -> Result<Bytes> {
    match value {
        Value::BulkString(bytes) => Ok(bytes.into()),
        Value::SimpleString(text) => Ok(text.into()),
        other => Err(unexpected(&format!("{other:?}"))),
    }
}

fn text(value: Value) -> Result<String> {
    let bytes = bytes(value)?;
    String::from_utf8(bytes.into()).map_err(|_| unexpected("not text"))
}

fn number(value: Value) -> Result<u64> {
    match value {
        Value::Int(number) => u64::try_from(number).map_err(|_| unexpected("a negative number")),
        value => {
            let text = text(value)?;
            text.parse().map_err(|_| unexpected(&text))
        }
    }
}
