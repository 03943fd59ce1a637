//! A client's request to a session, as it waits in the session's inbox.

use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::id::ConnectionId;
use crate::route::DeliveryPath;
use crate::trace::TraceContext;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommandKind {
    New,
    Prompt,
    Cancel,
    SetMode,
    SetConfigOption,
    /// `session/set_model`, which older clients send instead.
    SetModel,
    Close,
    /// Its session was deleted, or expired with something bound to it: bring it to an end.
    Delete,
    /// `$/cancel_request` for a prompt.
    CancelRequest,
    /// A response to a request of the agent.
    Answer,
    /// An extension method, for the agent to judge.
    Extension,
}

impl CommandKind {
    const ALL: [(Self, &'static str); 11] = [
        (Self::New, "new"),
        (Self::Prompt, "prompt"),
        (Self::Cancel, "cancel"),
        (Self::SetMode, "set_mode"),
        (Self::SetConfigOption, "set_config_option"),
        (Self::SetModel, "set_model"),
        (Self::Close, "close"),
        (Self::Delete, "delete"),
        (Self::CancelRequest, "cancel_request"),
        (Self::Answer, "answer"),
        (Self::Extension, "extension"),
    ];

    /// Gets through to a session that is full of prompts, within reason.
    pub fn is_urgent(self) -> bool {
        matches!(
            self,
            Self::Cancel | Self::CancelRequest | Self::Answer | Self::Close | Self::Delete
        )
    }

    /// Is taken by a session that was closed.
    pub fn reaches_closed(self) -> bool {
        self.is_urgent()
    }

    pub fn as_str(self) -> &'static str {
        let found = Self::ALL.iter().find(|(kind, _)| *kind == self);
        found.expect("every kind is listed").1
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .find(|(_, name)| *name == text)
            .map(|(kind, _)| *kind)
    }
}

/// The client's capabilities from `initialize`, small enough to travel in its token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClientCapabilities {
    pub read_file: bool,
    pub write_file: bool,
    pub terminal: bool,
    pub elicitation: bool,
    pub url_elicitation: bool,
    pub boolean_options: bool,
    /// It wants to know when turns begin and end, also those of other clients.
    pub turn_notices: bool,
}

impl ClientCapabilities {
    pub fn letters(self) -> String {
        let flags = [
            (self.read_file, 'r'),
            (self.write_file, 'w'),
            (self.terminal, 't'),
            (self.elicitation, 'e'),
            (self.url_elicitation, 'u'),
            (self.boolean_options, 'b'),
            (self.turn_notices, 'n'),
        ];
        flags
            .iter()
            .filter(|(set, _)| *set)
            .map(|(_, letter)| letter)
            .collect()
    }

    pub fn from_letters(letters: &str) -> Self {
        let has = |letter| letters.contains(letter);
        Self {
            read_file: has('r'),
            write_file: has('w'),
            terminal: has('t'),
            elicitation: has('e'),
            url_elicitation: has('u'),
            boolean_options: has('b'),
            turn_notices: has('n'),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    pub kind: CommandKind,
    pub connection: ConnectionId,
    /// The JSON-RPC id exactly as written; `None` for notifications and answers.
    pub request: Option<Arc<str>>,
    /// Capabilities of the asking client, for the agent.
    pub client: ClientCapabilities,
    /// When a gateway took it, in milliseconds since 1970.
    pub taken_at: u64,
    /// The request that brought it, if that is traced.
    pub trace: Option<TraceContext>,
    /// The whole JSON-RPC message as it arrived.
    pub message: Bytes,
}

/// The name of one command. The number gives the order, the nonce makes the name unique: after a
/// failover that lost its tail a store gives the same numbers again, to other commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommandId {
    pub number: u64,
    pub nonce: u32,
}

impl CommandId {
    pub fn random_nonce() -> u32 {
        rand::random()
    }

    /// Its text, written into this room. A session's record has many of them, and is written
    /// several times for each prompt: formatting them took a tenth of a prompt's instructions.
    fn text(self, room: &mut [u8; 29]) -> &str {
        let mut at = room.len();
        let mut put = |byte| {
            at -= 1;
            room[at] = byte;
        };
        for digit in 0..8 {
            put(b"0123456789abcdef"[(self.nonce >> (4 * digit) & 15) as usize]);
        }
        put(b'-');
        let mut left = self.number;
        loop {
            put(b'0' + (left % 10) as u8);
            left /= 10;
            if left == 0 {
                break;
            }
        }
        std::str::from_utf8(&room[at..]).unwrap_or_default()
    }
}

/// As earlier versions named commands.
#[cfg(any(test, feature = "conformance"))]
impl From<u64> for CommandId {
    fn from(number: u64) -> Self {
        Self { number, nonce: 0 }
    }
}

impl fmt::Display for CommandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text(&mut [0; 29]))
    }
}

impl FromStr for CommandId {
    type Err = InvalidCommandId;

    /// Earlier versions wrote the number alone.
    fn from_str(text: &str) -> Result<Self, InvalidCommandId> {
        let (number, nonce) = text.split_once('-').unwrap_or((text, "0"));
        Ok(Self {
            number: number.parse().map_err(|_| InvalidCommandId)?,
            nonce: u32::from_str_radix(nonce, 16).map_err(|_| InvalidCommandId)?,
        })
    }
}

#[derive(Debug, thiserror::Error)]
#[error("not the name of a command")]
pub struct InvalidCommandId;

impl Serialize for CommandId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text(&mut [0; 29]))
    }
}

impl<'de> Deserialize<'de> for CommandId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum WrittenId {
            /// By earlier versions.
            Number(u64),
            Text(String),
        }
        match WrittenId::deserialize(deserializer)? {
            WrittenId::Number(number) => Ok(Self { number, nonce: 0 }),
            WrittenId::Text(text) => text.parse().map_err(D::Error::custom),
        }
    }
}

/// A command in the inbox, with what the store decided about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedCommand {
    pub id: CommandId,
    pub via: DeliveryPath,
    /// A prompt of a connection that did not control the session until now.
    pub takes_control: bool,
    pub command: Command,
}

/// Recognises a repeated POST: the same key with the same fingerprint is the same request, with
/// another fingerprint it is a mistake. An empty key is never recognised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdempotencyKey {
    pub key: String,
    pub fingerprint: String,
}

impl IdempotencyKey {
    /// Only what has an id can be recognised when its client sends it again. If it is the store's
    /// own step that is repeated, any command is.
    pub fn of(connection: &ConnectionId, request: Option<&str>, message: &[u8]) -> Self {
        let key = request.map(|request| digest(format!("{connection}\n{request}").as_bytes(), 12));
        Self {
            key: key.unwrap_or_default(),
            fingerprint: digest(message, 6),
        }
    }
}

impl IdempotencyKey {
    /// The bytes of the key, or `None` if it is empty.
    pub(crate) fn key_bytes(key: &str) -> Option<[u8; 12]> {
        (!key.is_empty()).then(|| bytes_of(key))
    }

    pub(crate) fn fingerprint_bytes(&self) -> [u8; 6] {
        bytes_of(&self.fingerprint)
    }
}

/// The bytes that [`digest`] has written as hex; a hash of any other text.
fn bytes_of<const N: usize>(text: &str) -> [u8; N] {
    let pairs = (0..N).map(|at| u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok());
    let mut bytes = [0; N];
    let decoded: Option<Vec<u8>> = pairs.collect();
    match decoded.filter(|_| text.len() == 2 * N) {
        Some(decoded) => bytes.copy_from_slice(&decoded),
        None => bytes.copy_from_slice(&Sha256::digest(text)[..N]),
    }
    bytes
}

/// The first `len` bytes of the hash, as hex.
fn digest(data: &[u8], len: usize) -> String {
    let mut text = String::with_capacity(len * 2);
    for byte in &Sha256::digest(data)[..len] {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

impl Command {
    pub(crate) fn head(&self) -> String {
        let request = self.request.as_deref().unwrap_or_default();
        let (space, trace) = match &self.trace {
            Some(trace) => (" ", trace.to_string()),
            None => ("", String::new()),
        };
        format!(
            "{}\n{}\n{}\n{}{space}{trace}\n{request}",
            self.kind.as_str(),
            self.connection,
            self.client.letters(),
            self.taken_at,
        )
    }

    pub(crate) fn from_parts(head: &str, message: Bytes) -> Option<Self> {
        let mut fields = head.splitn(5, '\n');
        let kind = CommandKind::parse(fields.next()?)?;
        let connection = ConnectionId::parse(fields.next()?)?;
        let client = ClientCapabilities::from_letters(fields.next()?);
        let taken = fields.next()?;
        let (taken_at, trace) = match taken.split_once(' ') {
            Some((taken_at, trace)) => (taken_at, Some(TraceContext::from_text(trace))),
            None => (taken, None),
        };
        let taken_at = taken_at.parse().ok()?;
        let request = fields
            .next()
            .filter(|request| !request.is_empty())
            .map(Arc::from);
        Some(Self {
            kind,
            connection,
            request,
            client,
            taken_at,
            trace,
            message,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Partition;

    #[test]
    fn a_name_is_read_as_it_is_written() {
        let id = CommandId {
            number: 12,
            nonce: 0xab,
        };
        assert_eq!(id.to_string(), "12-000000ab");
        assert_eq!(id.to_string().parse::<CommandId>().unwrap(), id);
        let (number, nonce) = (u64::MAX, u32::MAX);
        let last = CommandId { number, nonce };
        assert_eq!(last.to_string(), "18446744073709551615-ffffffff");
        assert_eq!(
            CommandId {
                number: 0,
                nonce: 0
            }
            .to_string(),
            "0-00000000"
        );
        let old: CommandId = "7".parse().unwrap();
        assert_eq!((old.number, old.nonce), (7, 0));
        for text in ["", "-", "a", "1-", "1-x", "-1"] {
            assert!(text.parse::<CommandId>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_head_is_read_with_and_without_a_trace() {
        let connection = ConnectionId::mint(Partition(1));
        let untraced = Command {
            kind: CommandKind::Prompt,
            connection: connection.clone(),
            request: Some("\"a b\"".into()),
            client: ClientCapabilities::from_letters("rt"),
            taken_at: 1_700_000_000_000,
            trace: None,
            message: Bytes::from_static(b"{}"),
        };
        // As it was written before there were traces.
        let old = format!("prompt\n{connection}\nrt\n1700000000000\n\"a b\"");
        assert_eq!(untraced.head(), old);
        let trace = TraceContext::from_text(
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 a=b c",
        );
        let traced = Command {
            trace: Some(trace),
            ..untraced.clone()
        };
        for command in [untraced, traced] {
            let message = command.message.clone();
            assert_eq!(Command::from_parts(&command.head(), message), Some(command));
        }
    }
}
