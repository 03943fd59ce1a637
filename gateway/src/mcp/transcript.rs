//! What was said and done in a session, a page at a time. Pieces of one message are one entry.

use baton_protocol::update::{self, UpdateKind};
use baton_protocol::{Envelope, Method};
use baton_session::event::Event;
use baton_session::id::{LogId, SessionId};
use baton_session::store;
use serde_json::{Value, json};

use super::call::McpClientCall;

/// Frames per read.
const FRAMES: usize = 32;
/// Entries of a page, unless its reader wants fewer or more.
const ENTRIES: usize = 50;
const MOST_ENTRIES: usize = 200;
/// Text of a page, and of one piece of a message: the rest of a longer one is left out.
const PAGE_BYTES: usize = 64 << 10;
const PIECE_BYTES: usize = 32 << 10;

pub struct TranscriptPage {
    pub entries: Vec<Value>,
    /// The event that the next page begins with.
    pub next: Option<u64>,
}

struct TranscriptEntry {
    role: &'static str,
    text: String,
    fields: Value,
}

pub async fn page(
    call: &McpClientCall,
    session: &SessionId,
    from: u64,
    limit: Option<usize>,
) -> store::Result<TranscriptPage> {
    let log = LogId::Session(session.clone());
    let limit = limit.unwrap_or(ENTRIES).clamp(1, MOST_ENTRIES);
    let (mut entries, mut bytes, mut next) = (Vec::<TranscriptEntry>::new(), 0, from.max(1));
    loop {
        let store = &call.services.methods.store;
        let frames = store.read_confirmed(&log, next, FRAMES).await?;
        let Some(last) = frames.last().map(|frame| frame.last()) else {
            return Ok(finished(entries, None));
        };
        for (seq, event) in frames.iter().flat_map(|frame| frame.numbered()) {
            if seq < next {
                continue;
            }
            let Some(entry) = entry(event) else { continue };
            let continues = entries.last().is_some_and(|before| before.takes(&entry));
            if bytes >= PAGE_BYTES || (!continues && entries.len() == limit) {
                return Ok(finished(entries, Some(seq)));
            }
            bytes += entry.text.len();
            match entries.last_mut().filter(|_| continues) {
                Some(before) => before.text.push_str(&entry.text),
                None => entries.push(entry),
            }
        }
        next = last + 1;
    }
}

fn finished(entries: Vec<TranscriptEntry>, next: Option<u64>) -> TranscriptPage {
    let entries = entries.into_iter().map(TranscriptEntry::into_value);
    TranscriptPage {
        entries: entries.collect(),
        next,
    }
}

impl TranscriptEntry {
    fn new(role: &'static str, text: impl Into<String>, mut fields: Value) -> Self {
        let mut text = text.into();
        if text.len() > PIECE_BYTES {
            let end = (0..=PIECE_BYTES)
                .rev()
                .find(|at| text.is_char_boundary(*at));
            text.truncate(end.unwrap_or(0));
            fields["truncated"] = json!(true);
        }
        Self { role, text, fields }
    }

    /// The other is more of the same message.
    fn takes(&self, other: &Self) -> bool {
        let pieces = matches!(self.role, "user" | "agent" | "thought");
        pieces && self.role == other.role && self.fields == other.fields
    }

    fn into_value(self) -> Value {
        let mut value = self.fields;
        value["role"] = json!(self.role);
        value["text"] = json!(self.text);
        value
    }
}

fn entry(event: &Event) -> Option<TranscriptEntry> {
    match event {
        Event::Update { message, .. } | Event::Echo { message, .. } => of_update(message),
        Event::Request { message, .. } => of_question(message),
        Event::Response {
            turn: true,
            message,
            ..
        } => of_end(message),
        _ => None,
    }
}

fn of_update(message: &[u8]) -> Option<TranscriptEntry> {
    let update: Value = update::read(message)?;
    let role = match update::kind_of(&update) {
        UpdateKind::UserMessageChunk => "user",
        UpdateKind::AgentMessageChunk => "agent",
        UpdateKind::AgentThoughtChunk => "thought",
        UpdateKind::ToolCall | UpdateKind::ToolCallUpdate => return of_tool(&update),
        _ => return None,
    };
    let mut fields = json!({});
    if let Some(id) = update["messageId"].as_str() {
        fields["messageId"] = json!(id);
    }
    let content = &update["content"];
    let text = match content["text"].as_str() {
        Some(text) => text.to_owned(),
        None => format!("[{}]", content["type"].as_str().unwrap_or("content")),
    };
    Some(TranscriptEntry::new(role, text, fields))
}

fn of_tool(update: &Value) -> Option<TranscriptEntry> {
    let (title, status) = (update["title"].as_str(), update["status"].as_str());
    let fields = json!({ "toolCallId": update["toolCallId"], "status": status });
    (title.is_some() || status.is_some())
        .then(|| TranscriptEntry::new("tool", title.unwrap_or_default(), fields))
}

fn of_question(message: &[u8]) -> Option<TranscriptEntry> {
    let read = Envelope::read(message).ok()?;
    let method = Method::of(read.method.as_deref()?);
    let params: Value = serde_json::from_str(read.params?.get()).ok()?;
    let text = match method {
        Method::RequestPermission => params["toolCall"]["title"].as_str(),
        Method::CreateElicitation => params["message"].as_str(),
        _ => return None,
    };
    Some(TranscriptEntry::new(
        "question",
        text.unwrap_or_default(),
        json!({}),
    ))
}

fn of_end(message: &[u8]) -> Option<TranscriptEntry> {
    let read = Envelope::read(message).ok()?;
    let part = read.result.or(read.error)?;
    let part: Value = serde_json::from_str(part.get()).ok()?;
    let text = part["stopReason"].as_str().or(part["message"].as_str());
    Some(TranscriptEntry::new(
        "end",
        text.unwrap_or_default(),
        json!({}),
    ))
}
