//! A session's events become a response. The same events give the same output with the same numbers
//! on every gateway, however often they are read: nothing but the log counts.
//!
//! A question of the agent ends a response, and not its turn: whoever answers it begins the next
//! response, with all that the turn has to say from there on.

use std::borrow::Cow;
use std::sync::Arc;

use baton_protocol::{UpdateKind, update};
use baton_session::event::Event;
use bytes::{Bytes, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::item::{EventSink, ItemKind, OutputItem};
use super::name::ResponseName;
use super::object::{ResponseObject, ResponseOutcome};
use super::question::AgentQuestion;
use super::terms::ResponseTerms;

/// The JSON-RPC id of the prompt that a response is the answer to, and as it is written.
pub const PROMPT: &str = "prompt";
pub const PROMPT_ID: &str = "\"prompt\"";
/// So much of the output stands in the object. The rest is streamed, and the response is
/// incomplete.
const MAX_OUTPUT: usize = 16 << 20;
const TAKEN: &str = "question_answered";
const TAKEN_TEXT: &str = "somebody else has answered this question: the conversation goes on there";
const REFUSAL_TEXT: &str = "The agent refused to go on.";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FoldState {
    /// Its turn has not begun.
    Before,
    Inside,
    Over,
}

pub struct ResponseFold {
    name: ResponseName,
    terms: Option<ResponseTerms>,
    state: FoldState,
    /// The first events have told what was asked for.
    announced: bool,
    sink: EventSink,
    items: BytesMut,
    count: u32,
    open: Option<OutputItem>,
    /// Bytes of texts.
    kept: usize,
    /// Some were not kept.
    cut: bool,
    outcome: Option<ResponseOutcome>,
    /// Of a response that answers one: the question.
    answered: Option<Arc<str>>,
    /// The turn has said this before it was answered.
    held: Vec<Event>,
    held_bytes: usize,
    /// The question that it has ended with.
    pub question: Option<AgentQuestion>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpdateChunk<'a> {
    #[serde(borrow)]
    session_update: Cow<'a, str>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    message_id: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct ChunkContent<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    uri: Option<&'a RawValue>,
}

impl ResponseFold {
    /// `events`: as a stream, from after this number on if one is given; else only as an object.
    pub fn new(
        name: ResponseName,
        terms: Option<ResponseTerms>,
        events: Option<Option<u64>>,
    ) -> Self {
        let mut fold = Self {
            name,
            terms,
            state: FoldState::Before,
            announced: false,
            sink: EventSink::new(events.is_some(), events.flatten()),
            items: BytesMut::new(),
            count: 0,
            open: None,
            kept: 0,
            cut: false,
            outcome: None,
            answered: None,
            held: Vec::new(),
            held_bytes: 0,
            question: None,
        };
        if fold.terms.is_some() {
            fold.announce();
        }
        fold
    }

    pub fn is_over(&self) -> bool {
        self.state == FoldState::Over
    }

    pub fn has_begun(&self) -> bool {
        self.state != FoldState::Before
    }

    /// The events since the last call.
    pub fn take_events(&mut self) -> Option<Bytes> {
        let out = &mut self.sink.out;
        (!out.is_empty()).then(|| out.split().freeze())
    }

    /// The next event of the session's log, from [`ResponseName::first`] on.
    pub fn add(&mut self, event: &Event) {
        match event {
            _ if self.is_over() => {}
            Event::Response { to, message, .. } if self.is_end(event) => {
                let mut outcome = ResponseOutcome::of(message);
                outcome.at = to.at.map(|at| at / 1000);
                self.end(outcome);
            }
            _ if self.state == FoldState::Inside => self.add_inside(event),
            Event::Begin(begin) if !self.name.answers && begin.connection == self.name.asker => {
                self.state = FoldState::Inside;
            }
            _ if self.name.answers => self.add_before_answer(event),
            _ => {}
        }
    }

    /// Of a prompt its own answer, of the rest of a turn the turn's.
    fn is_end(&self, event: &Event) -> bool {
        match event {
            Event::Response { turn, .. } if self.name.answers => *turn,
            Event::Response { to, .. } => {
                to.connection == self.name.asker && *to.request == *PROMPT_ID
            }
            _ => false,
        }
    }

    fn add_inside(&mut self, event: &Event) {
        match event {
            Event::Echo { message, .. } if !self.announced => {
                self.terms = self.terms.take().or_else(|| ResponseTerms::of(message));
                self.announce();
            }
            Event::Update { message, .. } => self.update(message),
            Event::Request { id, message } => self.ask(id, message),
            _ => {}
        }
    }

    /// Until the answer is taken, which says what was asked for.
    fn add_before_answer(&mut self, event: &Event) {
        match event {
            Event::Request { id, .. } if self.answered.is_none() => {
                self.answered = Some(id.clone());
            }
            Event::Answer { id, by, message } if Some(id) == self.answered.as_ref() => {
                if by.as_ref() != Some(&self.name.asker) {
                    return self.end(ResponseOutcome::failed(TAKEN, TAKEN_TEXT));
                }
                self.state = FoldState::Inside;
                if !self.announced {
                    self.terms = self
                        .terms
                        .take()
                        .or_else(|| ResponseTerms::of_answer(message));
                    self.announce();
                }
                for event in std::mem::take(&mut self.held) {
                    if self.state == FoldState::Inside {
                        self.add_inside(&event);
                    }
                }
            }
            // It was answered by somebody else.
            Event::Answer { id, .. } => {
                let other =
                    |held: &Event| matches!(held, Event::Request { id: held, .. } if held == id);
                self.held.retain(|held| !other(held));
            }
            Event::Update { message, .. } | Event::Request { message, .. } => {
                self.held_bytes += message.len();
                if self.held_bytes <= MAX_OUTPUT {
                    self.held.push(event.clone());
                } else {
                    self.cut = true;
                }
            }
            _ => {}
        }
    }

    /// Ends with a question, if it is one for this client.
    fn ask(&mut self, id: &Arc<str>, message: &Bytes) {
        let Some(question) = AgentQuestion::read(id, message) else {
            return;
        };
        self.close("completed");
        if !self.announced {
            self.announce();
        }
        question.tell(&self.name, &mut self.count, &mut self.sink, &mut self.items);
        self.question = Some(question);
        self.end(ResponseOutcome::asked());
    }

    /// The stream begins, now that its terms are known.
    fn announce(&mut self) {
        self.announced = true;
        let terms = self.terms.get_or_insert_default();
        let first = if terms.is_background() {
            &[
                "response.created",
                "response.queued",
                "response.in_progress",
            ][..]
        } else {
            &["response.created", "response.in_progress"]
        };
        let waits = if terms.is_background() { 2 } else { 0 };
        for (at, kind) in first.iter().enumerate() {
            let status = if at < waits { "queued" } else { "in_progress" };
            tell(
                &mut self.sink,
                kind,
                &object(&self.name, terms, status, &[], None),
            );
        }
    }

    fn update(&mut self, message: &[u8]) {
        let Some(chunk) = update::read::<UpdateChunk>(message) else {
            return;
        };
        let kind = match UpdateKind::of(&chunk.session_update) {
            UpdateKind::AgentMessageChunk => ItemKind::Message,
            UpdateKind::AgentThoughtChunk => ItemKind::Reasoning,
            _ => return,
        };
        let content = chunk.content.map(|content| content.get());
        let content: Option<ChunkContent> = content.and_then(|it| serde_json::from_str(it).ok());
        let Some(content) = content else { return };
        match (&*content.r#type, content.text, content.uri) {
            ("text", Some(text), _) => self.say(kind, chunk.message_id, inside(text)),
            // Words are all that an item of this protocol has room for.
            (_, _, Some(uri)) => self.say(kind, chunk.message_id, inside(uri)),
            (other, ..) => {
                let named = serde_json::to_string(&format!("[{other}]")).unwrap_or_default();
                self.say(
                    kind,
                    chunk.message_id,
                    &named.as_bytes()[1..named.len() - 1],
                );
            }
        }
    }

    fn say(&mut self, kind: ItemKind, message: Option<Cow<'_, str>>, text: &[u8]) {
        let continues = self.open.as_ref().is_some_and(|open| {
            let same = match (&open.message, &message) {
                (Some(one), Some(other)) => **one == **other,
                _ => true,
            };
            open.kind == kind && same
        });
        if !continues {
            self.close("completed");
        }
        let kept = self.kept + text.len() <= MAX_OUTPUT;
        self.cut |= !kept;
        self.kept += text.len();
        let (name, count, sink) = (&self.name, &mut self.count, &mut self.sink);
        let open = self.open.get_or_insert_with(|| {
            *count += 1;
            let message = message.map(|message| message.into());
            OutputItem::begin(kind, message, name, *count - 1, sink)
        });
        open.say(text, kept, sink);
    }

    fn close(&mut self, status: &str) {
        if let Some(open) = self.open.take() {
            open.end(status, &mut self.sink, &mut self.items);
        }
    }

    fn end(&mut self, mut outcome: ResponseOutcome) {
        if !self.announced {
            self.announce();
        }
        if self.cut && outcome.error.is_none() {
            outcome.incomplete = Some("max_output_tokens");
            (outcome.status, outcome.event) = ("incomplete", "response.incomplete");
        }
        let complete = outcome.status == "completed";
        self.close(if complete { "completed" } else { "incomplete" });
        if outcome.refused {
            self.say(ItemKind::Refusal, None, REFUSAL_TEXT.as_bytes());
            self.close("completed");
        }
        self.state = FoldState::Over;
        let terms = self.terms.get_or_insert_default();
        let last = object(
            &self.name,
            terms,
            outcome.status,
            &self.items,
            Some(&outcome),
        );
        tell(&mut self.sink, outcome.event, &last);
        self.sink.done();
        self.outcome = Some(outcome);
    }

    /// The whole response as it is now.
    pub fn object(&self) -> Bytes {
        let unknown = ResponseTerms::default();
        let terms = self.terms.as_ref().unwrap_or(&unknown);
        let status = match (&self.outcome, self.state) {
            (Some(outcome), _) => outcome.status,
            (None, FoldState::Before) => "queued",
            (None, _) => "in_progress",
        };
        let mut items = BytesMut::new();
        items.extend_from_slice(&self.items);
        if let Some(open) = &self.open {
            open.add_to(&mut items, "in_progress");
        }
        let mut out = BytesMut::new();
        object(&self.name, terms, status, &items, self.outcome.as_ref()).write(&mut out);
        out.freeze()
    }
}

/// The text between the quotes.
fn inside(text: &RawValue) -> &[u8] {
    let text = text.get().as_bytes();
    match text {
        [b'"', inside @ .., b'"'] => inside,
        _ => b"",
    }
}

fn object<'a>(
    name: &'a ResponseName,
    terms: &'a ResponseTerms,
    status: &'a str,
    output: &'a [u8],
    outcome: Option<&'a ResponseOutcome>,
) -> ResponseObject<'a> {
    ResponseObject {
        name,
        terms,
        status,
        output,
        outcome,
    }
}

fn tell(sink: &mut EventSink, kind: &str, object: &ResponseObject<'_>) {
    sink.event(kind, |out| {
        out.extend_from_slice(b",\"response\":");
        object.write(out);
    });
}

#[cfg(test)]
mod tests;
