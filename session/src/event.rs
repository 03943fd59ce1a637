//! Events, and the frames they are stored in (`frame.rs`). Payloads are JSON-RPC messages as bytes,
//! never parsed here.

use std::sync::Arc;

use baton_protocol::address::readdress;
use bytes::Bytes;

use crate::command::CommandId;
use crate::id::{ConnectionId, SessionId};
use crate::route::DeliveryPath;
use crate::trace::TraceContext;

mod frame;

pub use self::frame::{Frame, PAGE_BYTES};
pub(crate) use self::frame::{take, take_u32};

/// One numbered entry of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A `session/update`, for everyone attached. `turn` tells the running turn's own updates from
    /// those of a `session/set_mode` that came in between: only the former are replayed by a
    /// takeover.
    Update { turn: bool, message: Bytes },
    /// The user's words as an update: for everyone but the connection that said them, and for
    /// replay.
    Echo {
        by: ConnectionId,
        /// When a worker took them, in milliseconds since 1970. The first versions did not write it
        /// down.
        at: Option<u64>,
        message: Bytes,
    },
    /// The answer to a command, for the connection that asked. `turn` marks the end of a turn.
    Response {
        to: ResponseRecipient,
        turn: bool,
        message: Bytes,
    },
    /// A request of the agent to the controlling client.
    Request { id: Arc<str>, message: Bytes },
    /// Internal: a prompt became the running turn, and from here on its connection reads by `via`.
    Begin(TurnBegin),
    /// Internal: the client's answer to a request, kept so that a resumed turn finds it again. For
    /// everybody else who was asked, the question is off.
    Answer {
        id: Arc<str>,
        /// The first versions did not write it down.
        by: Option<ConnectionId>,
        message: Bytes,
    },
    /// Internal: this connection controls the session from here on, though its prompt, the command,
    /// still waits. It reads by `via` now, and joins here if it has not before.
    Control {
        by: ConnectionId,
        command: CommandId,
        via: DeliveryPath,
    },
    /// Outbox: a message that belongs to no session.
    Message { message: Bytes },
    /// Outbox: the holder of the connection stream tails this session from `after` on.
    Watch { session: SessionId, after: u64 },
    /// Outbox: the client detached; its connection stream ends.
    Closed,
    /// Outbox: how far sessions were read, for cursors that name this entry. Never sent to anybody.
    /// Builds before this one take it for an update, which they pass over in an outbox.
    Positions { text: Bytes },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseRecipient {
    pub connection: ConnectionId,
    /// The JSON-RPC id exactly as the client wrote it.
    pub request: Arc<str>,
    pub via: DeliveryPath,
    /// The trace of the work for the answer, if there is one.
    pub trace: Option<TraceContext>,
    /// When it was answered, in milliseconds since 1970. The first versions did not write it down.
    pub at: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnBegin {
    pub command: CommandId,
    pub connection: ConnectionId,
    pub via: DeliveryPath,
}

#[derive(Debug, thiserror::Error)]
#[error("a stored frame cannot be read: {0}")]
pub struct MalformedFrame(pub &'static str);

impl Event {
    /// The size of the message, where there is one.
    pub fn size(&self) -> usize {
        match self {
            Self::Update { message, .. }
            | Self::Echo { message, .. }
            | Self::Response { message, .. }
            | Self::Request { message, .. }
            | Self::Answer { message, .. }
            | Self::Message { message }
            | Self::Positions { text: message } => message.len(),
            Self::Begin(_) | Self::Control { .. } | Self::Watch { .. } | Self::Closed => 0,
        }
    }

    /// Its approximate size in the store.
    pub(crate) fn weight(&self) -> u64 {
        (self.size() + PER_EVENT) as u64
    }
}

/// The approximate size of an event beside its message.
const PER_EVENT: usize = 32;

impl Event {
    fn readdressed(&self, session: &SessionId) -> Self {
        match self {
            Self::Update { turn, message } => Self::Update {
                turn: *turn,
                message: readdress(message, session.as_str()),
            },
            Self::Echo { by, at, message } => Self::Echo {
                by: by.clone(),
                at: *at,
                message: readdress(message, session.as_str()),
            },
            other => other.clone(),
        }
    }
}

/// The id of an agent's question that belongs to no turn. As all of them it begins with its
/// session.
pub fn aside_id(session: &SessionId, holder: &str, number: u64) -> Arc<str> {
    format!("{session}:{ASIDE}{holder}.{number}").into()
}

/// Whether this is the id of such a question.
pub fn is_aside(id: &str) -> bool {
    id.split_once(':')
        .is_some_and(|(_, rest)| rest.starts_with(ASIDE))
}

const ASIDE: char = '~';

impl Event {
    /// The stored parts of an event: its kind, a head of text whose fields are separated by line
    /// feeds, and its message.
    pub(crate) fn parts(&self) -> (u8, String, &[u8]) {
        match self {
            Self::Update {
                turn: true,
                message,
            } => (b'u', String::new(), message),
            Self::Update {
                turn: false,
                message,
            } => (b'v', String::new(), message),
            Self::Echo {
                by,
                at: None,
                message,
            } => (b'e', by.to_string(), message),
            // Builds that know of no time do not look behind the first line.
            Self::Echo {
                by,
                at: Some(at),
                message,
            } => (b'e', format!("{by}\n{at}"), message),
            Self::Response { to, turn, message } => {
                let mut way = to.via.letter().to_owned();
                // For builds that know of no time it is a trace that says nothing.
                way.extend(to.at.map(|at| format!(" @{at}")));
                way.extend(to.trace.as_ref().map(|trace| format!(" {trace}")));
                let head = format!("{}\n{way}\n{}", to.connection, to.request);
                (if *turn { b't' } else { b'r' }, head, message)
            }
            Self::Request { id, message } => (b'q', id.to_string(), message),
            Self::Begin(begin) => {
                let head = format!(
                    "{}\n{}\n{}",
                    begin.command,
                    begin.connection,
                    begin.via.letter()
                );
                (b'b', head, &[])
            }
            Self::Answer {
                id,
                by: None,
                message,
            } => (b'a', id.to_string(), message),
            Self::Answer {
                id,
                by: Some(by),
                message,
            } => (b'A', format!("{by}\n{id}"), message),
            Self::Control { by, command, via } => {
                (b'k', format!("{by}\n{command}\n{}", via.letter()), &[])
            }
            Self::Message { message } => (b'm', String::new(), message),
            Self::Watch { session, after } => (b'w', format!("{session}\n{after}"), &[]),
            Self::Closed => (b'c', String::new(), &[]),
            Self::Positions { text } => (b'v', POSITIONS.to_owned(), text),
        }
    }

    pub(crate) fn from_parts(
        kind: u8,
        head: &[u8],
        message: Bytes,
    ) -> Result<Self, MalformedFrame> {
        let head = std::str::from_utf8(head).map_err(|_| MalformedFrame("head is not text"))?;
        let mut fields = head.splitn(3, '\n');
        let mut field = || fields.next().ok_or(MalformedFrame("head is too short"));
        Ok(match kind {
            b'v' if head == POSITIONS => Self::Positions { text: message },
            b'u' | b'v' => Self::Update {
                turn: kind == b'u',
                message,
            },
            b'e' => Self::Echo {
                by: connection(field()?)?,
                at: field().ok().and_then(|at| at.parse().ok()),
                message,
            },
            b't' | b'r' => {
                let (connection, way) = (connection(field()?)?, field()?);
                let (way, rest) = way.split_once(' ').unwrap_or((way, ""));
                let (at, trace) = match rest.strip_prefix('@') {
                    Some(timed) => timed.split_once(' ').unwrap_or((timed, "")),
                    None => ("", rest),
                };
                let to = ResponseRecipient {
                    connection,
                    via: via(way)?,
                    trace: (!trace.is_empty()).then(|| TraceContext::from_text(trace)),
                    at: at.parse().ok(),
                    request: field()?.into(),
                };
                Self::Response {
                    to,
                    turn: kind == b't',
                    message,
                }
            }
            b'q' => Self::Request {
                id: field()?.into(),
                message,
            },
            b'b' => Self::Begin(TurnBegin {
                command: command(field()?)?,
                connection: connection(field()?)?,
                via: via(field()?)?,
            }),
            b'a' => Self::Answer {
                by: None,
                id: field()?.into(),
                message,
            },
            b'A' => Self::Answer {
                by: Some(connection(field()?)?),
                id: field()?.into(),
                message,
            },
            b'k' => Self::Control {
                by: connection(field()?)?,
                command: command(field()?)?,
                via: via(field()?)?,
            },
            b'm' => Self::Message { message },
            b'w' => {
                let session =
                    SessionId::parse(field()?).ok_or(MalformedFrame("not a session id"))?;
                Self::Watch {
                    session,
                    after: number(field()?)?,
                }
            }
            b'c' => Self::Closed,
            _ => {
                return Err(MalformedFrame(
                    "unknown kind of event, written by a newer version?",
                ));
            }
        })
    }
}

/// The head of [`Event::Positions`]. Updates have none, and nobody has ever looked at it.
const POSITIONS: &str = "positions";

fn connection(text: &str) -> Result<ConnectionId, MalformedFrame> {
    ConnectionId::parse(text).ok_or(MalformedFrame("not a connection id"))
}

fn via(text: &str) -> Result<DeliveryPath, MalformedFrame> {
    DeliveryPath::from_letter(text).ok_or(MalformedFrame("not a way to deliver"))
}

fn command(text: &str) -> Result<CommandId, MalformedFrame> {
    text.parse().map_err(|_| MalformedFrame("not a command"))
}

fn number(text: &str) -> Result<u64, MalformedFrame> {
    text.parse().map_err(|_| MalformedFrame("not a number"))
}
