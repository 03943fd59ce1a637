//! What the events of a log say about one turn. They are given to it in order, from wherever they
//! come: a stream, or the store.

use std::collections::VecDeque;
use std::sync::Arc;

use baton_protocol::update::{self, UpdateKind};
use baton_protocol::{Envelope, ErrorCode};
use baton_session::command::CommandId;
use baton_session::event::{Event, ResponseRecipient};
use baton_session::id::ConnectionId;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use super::fault::AcpRefusal;
use super::turn_reference::TurnReference;

/// So much of what the agent says is kept for the result: the end of it.
pub const MAX_WORDS: usize = 128 << 10;
/// Images and the like, all together.
const MAX_BLOCKS: usize = 4 << 20;

/// Which turn is read.
#[derive(Clone, Debug)]
pub enum WantedTurn {
    /// The one that a prompt becomes.
    Of {
        command: CommandId,
        connection: ConnectionId,
        request: Arc<str>,
    },
    /// The next that begins.
    Next,
}

impl From<&TurnReference> for WantedTurn {
    fn from(turn: &TurnReference) -> Self {
        if turn.request.is_empty() {
            return Self::Next;
        }
        Self::Of {
            command: turn.command,
            connection: turn.connection.clone(),
            request: turn.request.clone(),
        }
    }
}

pub struct TurnReader {
    wanted: WantedTurn,
    begun: bool,
    words: VecDeque<u8>,
    cut: bool,
    blocks: Vec<Value>,
    block_bytes: usize,
    /// The agent's questions that nobody has answered, with the numbers of their events.
    pub open: Vec<AgentQuestion>,
    pub outcome: Option<TurnOutcome>,
}

#[derive(Clone, Debug)]
pub struct AgentQuestion {
    pub seq: u64,
    pub id: Arc<str>,
    pub message: Bytes,
}

#[derive(Debug)]
pub enum TurnOutcome {
    Done { stop_reason: String },
    Failed(AcpRefusal),
}

/// Something to tell whoever follows the turn.
#[derive(Debug, PartialEq, Eq)]
pub enum TurnNews {
    Words(String),
    Tool(String),
    /// The question is answered, by this connection if that is known.
    Settled(Arc<str>, Option<ConnectionId>),
    Ended,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TurnUpdate {
    session_update: String,
    #[serde(default)]
    content: Value,
    #[serde(default)]
    title: Option<String>,
}

impl TurnReader {
    pub fn new(wanted: WantedTurn) -> Self {
        Self {
            wanted,
            begun: false,
            words: VecDeque::new(),
            cut: false,
            blocks: Vec::new(),
            block_bytes: 0,
            open: Vec::new(),
            outcome: None,
        }
    }

    /// From somewhere in the middle of the turn.
    pub fn within(wanted: WantedTurn) -> Self {
        Self {
            begun: true,
            cut: true,
            ..Self::new(wanted)
        }
    }

    pub fn take(&mut self, seq: u64, event: &Event) -> Option<TurnNews> {
        match event {
            Event::Begin(begin) => {
                self.begin(begin.command);
                None
            }
            Event::Update {
                turn: true,
                message,
            } => self.update(message),
            Event::Request { id, message } if self.begun => {
                self.open.push(AgentQuestion {
                    seq,
                    id: id.clone(),
                    message: message.clone(),
                });
                None
            }
            Event::Answer { id, by, .. } => {
                let at = self.open.iter().position(|question| question.id == *id)?;
                self.open.remove(at);
                Some(TurnNews::Settled(id.clone(), by.clone()))
            }
            Event::Response { to, turn, message } => self.response(to, *turn, message),
            _ => None,
        }
    }

    /// What was said before belongs to another turn. A request that the store has lost and that was
    /// sent again is answered by a turn of another name: so the words of every turn are kept until
    /// it is over.
    fn begin(&mut self, command: CommandId) {
        self.words.clear();
        self.blocks.clear();
        self.open.clear();
        (self.cut, self.block_bytes) = (false, 0);
        self.begun = match &self.wanted {
            WantedTurn::Of {
                command: wanted, ..
            } => *wanted == command,
            WantedTurn::Next => true,
        };
    }

    fn update(&mut self, message: &Bytes) -> Option<TurnNews> {
        let update: TurnUpdate = update::read(message)?;
        let news = match UpdateKind::of(&update.session_update) {
            UpdateKind::AgentMessageChunk => match update.content["text"].as_str() {
                Some(text) => {
                    self.say(text);
                    TurnNews::Words(text.to_owned())
                }
                None => {
                    self.show(update.content);
                    return None;
                }
            },
            UpdateKind::ToolCall => TurnNews::Tool(update.title?),
            _ => return None,
        };
        self.begun.then_some(news)
    }

    fn say(&mut self, text: &str) {
        self.words.extend(text.as_bytes());
        if self.words.len() > 2 * MAX_WORDS {
            self.cut = true;
            self.words.drain(..self.words.len() - MAX_WORDS);
        }
    }

    fn show(&mut self, block: Value) {
        let size = block.to_string().len();
        if self.block_bytes + size <= MAX_BLOCKS {
            self.block_bytes += size;
            self.blocks.push(block);
        }
    }

    fn response(
        &mut self,
        to: &ResponseRecipient,
        turn: bool,
        message: &Bytes,
    ) -> Option<TurnNews> {
        let ours = match &self.wanted {
            WantedTurn::Of {
                connection,
                request,
                ..
            } => to.connection == *connection && to.request == *request,
            WantedTurn::Next => turn && self.begun,
        };
        if turn {
            self.open.clear();
        }
        if !ours || self.outcome.is_some() {
            return None;
        }
        self.outcome = Some(outcome(message));
        Some(TurnNews::Ended)
    }

    /// The last words of the agent, and whether there were more before them.
    pub fn words(&self) -> (String, bool) {
        let (front, back) = self.words.as_slices();
        let whole = [front, back].concat();
        let cut = self.cut || whole.len() > MAX_WORDS;
        let from = whole.len().saturating_sub(MAX_WORDS);
        // A character that was cut in two is left out.
        let begins = whole[from..].iter().position(|byte| byte & 0xc0 != 0x80);
        let text = &whole[from + begins.unwrap_or(0)..];
        (String::from_utf8_lossy(text).into_owned(), cut)
    }

    pub fn has_begun(&self) -> bool {
        self.begun
    }

    pub fn blocks(&self) -> &[Value] {
        &self.blocks
    }
}

fn outcome(message: &Bytes) -> TurnOutcome {
    let unreadable = || AcpRefusal {
        code: ErrorCode::InternalError.value(),
        message: "the agent's answer cannot be read".into(),
        data: None,
    };
    let Ok(answer) = Envelope::read(message) else {
        return TurnOutcome::Failed(unreadable());
    };
    if let Some(error) = answer.error {
        let refusal = serde_json::from_str(error.get());
        return TurnOutcome::Failed(refusal.unwrap_or_else(|_| unreadable()));
    }
    let result: Value = answer
        .result
        .and_then(|result| serde_json::from_str(result.get()).ok())
        .unwrap_or_else(|| json!({}));
    let stop_reason = result["stopReason"].as_str().unwrap_or("end_turn").into();
    TurnOutcome::Done { stop_reason }
}
