//! An answer as it grows: events for those who watch, and the message that it becomes. Bounded in
//! bytes, parts and tool calls.

use std::collections::VecDeque;

use rand::RngExt as _;
use serde_json::Value;

use super::prefix_cut::PrefixCut;
use crate::agent::llm::model::{
    AssistantMessage, AssistantPart, ModelEvent, ModelProtocol, ModelReply, ModelStop, TokenUsage,
};
use crate::agent::llm::model_error::ModelError;

const MAX_TOOL_CALLS: usize = 128;
/// Counted for every part, so that many small ones are bounded as well.
const PART_BYTES: usize = 64;

pub struct ReplyBuilder {
    protocol: ModelProtocol,
    max_bytes: usize,
    bytes: usize,
    parts: Vec<AssistantPart>,
    /// The last part takes more reasoning.
    reasoning_open: bool,
    calls: Vec<CallSlot>,
    cut: PrefixCut,
    stop: Option<ModelStop>,
    pub usage: TokenUsage,
    events: VecDeque<ModelEvent>,
    done: bool,
}

/// A tool call that grows.
struct CallSlot {
    /// What the endpoint calls it in the pieces that follow.
    key: u64,
    /// As the endpoint gave it; may be empty.
    given_id: String,
    /// Where it stands in the message, once its name is known.
    part: Option<usize>,
    /// Arguments that came before the name.
    early: String,
}

impl ReplyBuilder {
    pub fn new(protocol: ModelProtocol, max_bytes: usize) -> Self {
        Self {
            protocol,
            max_bytes,
            bytes: 0,
            parts: Vec::new(),
            reasoning_open: false,
            calls: Vec::new(),
            cut: PrefixCut::default(),
            stop: None,
            usage: TokenUsage::default(),
            events: VecDeque::new(),
            done: false,
        }
    }

    /// Goes on after a beginning, which counts: no number of continuations exceeds the bound.
    pub fn continuing(mut self, message: AssistantMessage, cut: PrefixCut) -> Self {
        self.bytes = message.parts.iter().map(kept_bytes).sum();
        self.parts = message.parts;
        self.cut = cut;
        self
    }

    pub fn next_event(&mut self) -> Option<ModelEvent> {
        self.events.pop_front()
    }

    /// Whether the last event is there.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Whether it is known why the model stopped: little can follow.
    pub fn has_stopped(&self) -> bool {
        self.stop.is_some()
    }

    pub fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// All that was said and shown so far, without tool calls.
    pub fn said(&self) -> AssistantMessage {
        let parts = self.parts.iter();
        let said = parts.filter(|part| !matches!(part, AssistantPart::ToolCall { .. }));
        AssistantMessage {
            parts: said.cloned().collect(),
        }
    }

    pub fn text(&mut self, text: &str) -> Result<(), ModelError> {
        let shown = self.cut.push(text);
        // A repetition was counted the first time. No more than that is held.
        self.count(&shown)?;
        self.show(shown);
        Ok(())
    }

    fn show(&mut self, text: String) {
        if text.is_empty() {
            return;
        }
        self.reasoning_open = false;
        match self.parts.last_mut() {
            Some(AssistantPart::Text(last)) => last.push_str(&text),
            _ => self.push(AssistantPart::Text(text.clone())),
        }
        self.events.push_back(ModelEvent::Text(text));
    }

    pub fn reasoning(&mut self, text: &str) -> Result<(), ModelError> {
        self.count(text)?;
        if text.is_empty() {
            return Ok(());
        }
        match self.parts.last_mut() {
            Some(AssistantPart::Reasoning { text: last, .. }) if self.reasoning_open => {
                last.push_str(text);
            }
            _ => self.push_reasoning(text.to_owned(), None),
        }
        self.reasoning_open = true;
        self.events
            .push_back(ModelEvent::Reasoning(text.to_owned()));
        Ok(())
    }

    /// The reasoning so far is complete, and has to go back with this.
    pub fn seal_reasoning(&mut self, sealed: Option<Value>) -> Result<(), ModelError> {
        if let Some(value) = &sealed {
            self.count_bytes(value.to_string().len())?;
        }
        match (self.parts.last_mut(), sealed) {
            (Some(AssistantPart::Reasoning { opaque, .. }), sealed) if self.reasoning_open => {
                *opaque = sealed;
            }
            (_, None) => {}
            (_, sealed) => self.push_reasoning(String::new(), sealed),
        }
        self.reasoning_open = false;
        Ok(())
    }

    fn push_reasoning(&mut self, text: String, opaque: Option<Value>) {
        self.push(AssistantPart::Reasoning {
            text,
            opaque,
            protocol: self.protocol,
        });
    }

    /// A piece about the call with this key, its first or a later one. Another id under the same
    /// key is another call: some endpoints number all of them zero.
    pub fn call(&mut self, key: u64, id: &str, name: &str) -> Result<(), ModelError> {
        self.count_bytes(id.len() + name.len())?;
        let known = self.calls.iter().rposition(|call| call.key == key);
        let known = known.filter(|at| {
            let given = &self.calls[*at].given_id;
            id.is_empty() || given.is_empty() || given == id
        });
        let at = match known {
            Some(at) => at,
            None if self.calls.len() == MAX_TOOL_CALLS => {
                let detail = format!("more than {MAX_TOOL_CALLS} tool calls");
                return Err(ModelError::TooLarge { detail });
            }
            None => {
                self.calls.push(CallSlot {
                    key,
                    given_id: String::new(),
                    part: None,
                    early: String::new(),
                });
                self.calls.len() - 1
            }
        };
        if self.calls[at].given_id.is_empty() {
            id.clone_into(&mut self.calls[at].given_id);
        }
        if self.calls[at].part.is_none() && !name.is_empty() {
            self.start(at, name);
        }
        Ok(())
    }

    fn start(&mut self, at: usize, name: &str) {
        let rest = self.cut.finish();
        self.show(rest);
        self.reasoning_open = false;
        let id = self.unique_id(&self.calls[at].given_id);
        let slot = &mut self.calls[at];
        slot.part = Some(self.parts.len());
        let early = std::mem::take(&mut slot.early);
        self.push(AssistantPart::ToolCall {
            id: id.clone(),
            name: name.to_owned(),
            arguments: String::new(),
        });
        self.events.push_back(ModelEvent::ToolCall {
            index: at,
            id,
            name: name.to_owned(),
        });
        self.append(at, early);
    }

    /// Endpoints forget ids, or give the same one twice.
    fn unique_id(&self, given: &str) -> String {
        let taken = |part: &AssistantPart| match part {
            AssistantPart::ToolCall { id, .. } => id == given,
            _ => false,
        };
        if given.is_empty() || self.parts.iter().any(taken) {
            format!("call_{:016x}", rand::rng().random::<u64>())
        } else {
            given.to_owned()
        }
    }

    pub fn arguments(&mut self, key: u64, text: &str) -> Result<(), ModelError> {
        self.count(text)?;
        if let Some(at) = self.calls.iter().rposition(|call| call.key == key) {
            self.append(at, text.to_owned());
        }
        Ok(())
    }

    /// The arguments as a whole, from an endpoint that may have sent them in pieces before.
    pub fn whole_arguments(&mut self, key: u64, whole: &str) -> Result<(), ModelError> {
        let Some(at) = self.calls.iter().rposition(|call| call.key == key) else {
            return Ok(());
        };
        let so_far = match self.calls[at].part.map(|part| &self.parts[part]) {
            Some(AssistantPart::ToolCall { arguments, .. }) => arguments.as_str(),
            _ => self.calls[at].early.as_str(),
        };
        let rest = whole.strip_prefix(so_far).unwrap_or_default().to_owned();
        self.arguments(key, &rest)
    }

    fn append(&mut self, at: usize, text: String) {
        if text.is_empty() {
            return;
        }
        let slot = &mut self.calls[at];
        match slot.part.map(|part| &mut self.parts[part]) {
            Some(AssistantPart::ToolCall { arguments, .. }) => {
                arguments.push_str(&text);
                let event = ModelEvent::ToolArguments { index: at, text };
                self.events.push_back(event);
            }
            _ => slot.early.push_str(&text),
        }
    }

    pub fn stop(&mut self, stop: ModelStop) {
        self.stop.get_or_insert(stop);
    }

    /// The answer is complete.
    pub fn finish(&mut self) {
        let rest = self.cut.finish();
        self.show(rest);
        for at in 0..self.calls.len() {
            if self.calls[at].part.is_none() {
                self.start(at, "");
            }
        }
        for part in &mut self.parts {
            if let AssistantPart::ToolCall { arguments, .. } = part
                && arguments.trim().is_empty()
            {
                "{}".clone_into(arguments);
            }
        }
        let stop = match self.stop.unwrap_or(ModelStop::EndTurn) {
            ModelStop::EndTurn if self.has_calls() => ModelStop::ToolCalls,
            ModelStop::ToolCalls if !self.has_calls() => ModelStop::EndTurn,
            stop => stop,
        };
        let reply = ModelReply {
            message: AssistantMessage {
                parts: std::mem::take(&mut self.parts),
            },
            stop,
            usage: self.usage,
        };
        self.events.push_back(ModelEvent::Done(Box::new(reply)));
        self.done = true;
    }

    /// Also for what a decoder keeps until it is complete.
    pub fn count(&mut self, text: &str) -> Result<(), ModelError> {
        self.count_bytes(text.len())
    }

    fn count_bytes(&mut self, bytes: usize) -> Result<(), ModelError> {
        self.bytes += bytes;
        if self.bytes > self.max_bytes {
            let detail = format!("more than {} bytes", self.max_bytes);
            return Err(ModelError::TooLarge { detail });
        }
        Ok(())
    }

    fn push(&mut self, part: AssistantPart) {
        self.bytes += PART_BYTES;
        self.parts.push(part);
    }
}

fn kept_bytes(part: &AssistantPart) -> usize {
    let content = match part {
        AssistantPart::Text(text) => text.len(),
        AssistantPart::Reasoning { text, opaque, .. } => {
            let opaque = opaque.as_ref().map_or(0, |value| value.to_string().len());
            text.len() + opaque
        }
        AssistantPart::ToolCall {
            id,
            name,
            arguments,
        } => id.len() + name.len() + arguments.len(),
    };
    content + PART_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_continued_beginning_counts() {
        let thought = AssistantPart::Reasoning {
            text: "t".repeat(300),
            opaque: Some(Value::String("o".repeat(300))),
            protocol: ModelProtocol::Chat,
        };
        let beginning = AssistantMessage {
            parts: vec![thought, AssistantPart::Text("s".repeat(300))],
        };
        let reply = ReplyBuilder::new(ModelProtocol::Chat, 1200);
        let mut reply = reply.continuing(beginning, PrefixCut::default());
        reply.text(&"n".repeat(100)).expect("within the bound");
        let more = reply.text(&"n".repeat(100));
        assert_eq!(more.expect_err("beyond it").kind(), "too_large");
    }

    #[test]
    fn a_repeated_beginning_counts_once() {
        let said = "s".repeat(600);
        let beginning = AssistantMessage {
            parts: vec![AssistantPart::Text(said.clone())],
        };
        let reply = ReplyBuilder::new(ModelProtocol::Chat, 1000);
        let cut = PrefixCut::exact(said.clone(), 0);
        let mut reply = reply.continuing(beginning, cut);
        for piece in [&said[..300], &said[300..], &"n".repeat(200)] {
            reply.text(piece).expect("within the bound");
        }
        let more = reply.text(&"n".repeat(200));
        assert_eq!(more.expect_err("beyond it").kind(), "too_large");
    }
}
