//! The finished turns of a session as a model is told them: as many of the last ones as its context
//! has room for.

use std::collections::VecDeque;

use super::model::{AssistantMessage, AssistantPart, MessagePart, ModelMessage};
use super::turn_record::TurnRecord;

/// A token of text in any language has about so many bytes, rather fewer than more.
const BYTES_PER_TOKEN: usize = 3;
/// Of what is kept, when it has become too much: not at every turn, since that would make a
/// provider's cache useless.
const KEPT_OF_TEN: usize = 6;
/// An image counts for this much at least, and otherwise for a part of its size.
const IMAGE_BYTES: usize = 4 << 10;
const IMAGE_SHARE: usize = 16;
const LEFT_OUT: &str =
    "[The beginning of this conversation was left out, because it is longer than your context.]";
const OUTPUT_LEFT_OUT: &str = "[This output was left out to save space.]";

#[derive(Debug)]
pub struct SessionHistory {
    turns: VecDeque<PastTurn>,
    bytes: usize,
    most: usize,
    left_out: bool,
}

#[derive(Debug)]
struct PastTurn {
    messages: Vec<ModelMessage>,
    bytes: usize,
}

impl SessionHistory {
    /// For a context of so many tokens at most.
    pub fn new(context: u64) -> Self {
        Self {
            turns: VecDeque::new(),
            bytes: 0,
            most: bytes_of(context),
            left_out: false,
        }
    }

    pub fn add(&mut self, turn: &TurnRecord) {
        let mut messages = turn.messages();
        shorten(&mut messages, self.most);
        let bytes = messages.iter().map(size).sum();
        self.bytes += bytes;
        self.turns.push_back(PastTurn { messages, bytes });
        if self.bytes > self.most {
            self.forget();
        }
    }

    /// What there is room for at all.
    pub fn most_bytes(&self) -> usize {
        self.most
    }

    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Whether it and the turn that runs take more of such a context. A summary alone does not
    /// become shorter by being summed up.
    pub fn is_fuller_than(&self, running: &TurnRecord, context: u64, percent: usize) -> bool {
        let most = bytes_of(context) / 100 * percent;
        let now = || running.messages().iter().map(size).sum::<usize>();
        self.turns.len() > 1 && self.bytes + now() > most
    }

    /// From now on the model knows of it what is written here.
    pub fn replace_by(&mut self, summary: &str) {
        let text = format!("[A summary of our conversation so far:]\n{summary}");
        let user = ModelMessage::User(vec![MessagePart::Text(text)]);
        let known = AssistantPart::Text("I have read the summary.".into());
        let answer = ModelMessage::Assistant(AssistantMessage { parts: vec![known] });
        let messages = vec![user, answer];
        let bytes = messages.iter().map(size).sum();
        self.turns = VecDeque::from([PastTurn { messages, bytes }]);
        self.bytes = bytes;
        self.left_out = false;
    }

    fn forget(&mut self) {
        let kept = self.most / 10 * KEPT_OF_TEN;
        while self.bytes > kept
            && self.turns.len() > 1
            && let Some(first) = self.turns.pop_front()
        {
            self.bytes -= first.bytes;
            self.left_out = true;
        }
    }

    /// As much of it as a context of so many tokens has room for, and the turn that runs.
    pub fn messages_with(&self, running: &TurnRecord, context: u64) -> Vec<ModelMessage> {
        let most = bytes_of(context);
        let mut last = running.messages();
        shorten(&mut last, most);
        let mut room = most.saturating_sub(last.iter().map(size).sum());
        let mut kept = 0;
        for turn in self.turns.iter().rev() {
            let Some(rest) = room.checked_sub(turn.bytes) else {
                break;
            };
            (room, kept) = (rest, kept + 1);
        }
        let first = self.turns.len() - kept;
        let past = self.turns.iter().skip(first);
        let mut messages: Vec<_> = past.flat_map(|turn| turn.messages.clone()).collect();
        messages.extend(last);
        if (self.left_out || first > 0)
            && let Some(ModelMessage::User(parts)) = messages.first_mut()
        {
            parts.insert(0, MessagePart::Text(LEFT_OUT.into()));
        }
        messages
    }
}

fn bytes_of(tokens: u64) -> usize {
    let tokens = usize::try_from(tokens).unwrap_or(usize::MAX);
    tokens.saturating_mul(BYTES_PER_TOKEN)
}

/// A turn may be longer than the context by itself: then the first outputs of tools are left out.
fn shorten(messages: &mut [ModelMessage], most: usize) {
    let mut bytes: usize = messages.iter().map(size).sum();
    for message in messages {
        if bytes <= most {
            return;
        }
        let before = size(message);
        if let ModelMessage::ToolResult { content, .. } = message
            && before > 2 * OUTPUT_LEFT_OUT.len()
        {
            *content = vec![MessagePart::Text(OUTPUT_LEFT_OUT.into())];
            bytes = bytes - before + size(message);
        }
    }
}

fn size(message: &ModelMessage) -> usize {
    let parts = |parts: &[MessagePart]| parts.iter().map(part_size).sum::<usize>();
    match message {
        ModelMessage::User(content) => parts(content),
        ModelMessage::ToolResult { content, tool, .. } => parts(content) + tool.len(),
        ModelMessage::Assistant(message) => {
            let sizes = message.parts.iter().map(|part| match part {
                AssistantPart::Text(text) => text.len(),
                AssistantPart::Reasoning { text, opaque, .. } => {
                    let opaque = opaque.as_ref().map_or(0, |it| it.to_string().len());
                    text.len() + opaque
                }
                AssistantPart::ToolCall {
                    name, arguments, ..
                } => name.len() + arguments.len(),
            });
            sizes.sum()
        }
    }
}

fn part_size(part: &MessagePart) -> usize {
    match part {
        MessagePart::Text(text) => text.len(),
        MessagePart::Image { data, .. } => (data.len() / IMAGE_SHARE).max(IMAGE_BYTES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::llm::model::ModelStop;
    use crate::agent::llm::turn_record::{CallResultRecord, StepRecord};

    fn turn(words: &str, output: usize) -> TurnRecord {
        let mut step = StepRecord::new("s".into());
        let call = AssistantPart::ToolCall {
            id: "1".into(),
            name: "look".into(),
            arguments: "{}".into(),
        };
        let message = crate::agent::llm::model::AssistantMessage { parts: vec![call] };
        step.finish(message, ModelStop::ToolCalls);
        step.calls[0].result = Some(CallResultRecord {
            content: vec![MessagePart::Text("x".repeat(output))],
            is_error: false,
        });
        TurnRecord {
            user: vec![MessagePart::Text(words.into())],
            steps: vec![step],
            ..TurnRecord::default()
        }
    }

    fn total(messages: &[ModelMessage]) -> usize {
        messages.iter().map(size).sum()
    }

    #[test]
    fn of_a_long_conversation_the_end_is_kept() {
        let mut history = SessionHistory::new(1000);
        for number in 0..100 {
            history.add(&turn(&format!("prompt {number}"), 500));
            assert!(history.bytes <= 3000);
        }
        let messages = history.messages_with(&turn("now", 10), 1000);
        assert!(total(&messages) < 3200);
        let text = format!("{messages:?}");
        assert!(text.contains("prompt 99") && !text.contains("prompt 1\""));
        assert!(text.contains("The beginning of this conversation was left out"));
    }

    #[test]
    fn a_turn_that_is_too_long_loses_its_first_outputs() {
        let history = SessionHistory::new(1000);
        let mut long = turn("now", 2500);
        long.steps.push(turn("", 900).steps.remove(0));
        let messages = history.messages_with(&long, 1000);
        assert!(total(&messages) < 3000);
        let text = format!("{messages:?}");
        assert!(text.contains(OUTPUT_LEFT_OUT) && text.contains(&"x".repeat(900)));
        assert!(!text.contains(&"x".repeat(901)));
    }
}
