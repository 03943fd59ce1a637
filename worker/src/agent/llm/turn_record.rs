//! The events of a turn so far: the user's words, and steps, each a message of the model and the
//! tool calls in it. Kept by the turn that runs, and read from the log by one that goes on.

use std::collections::VecDeque;

use super::model::{AssistantMessage, AssistantPart, MessagePart, ModelMessage, ModelStop};
use super::spending::UsedSoFar;
use super::step_mark::{ShownTexts, StepMark};
use crate::agent::StopReason;

#[derive(Clone, Debug, Default)]
pub struct TurnRecord {
    pub user: Vec<MessagePart>,
    /// The user's command was replaced by a prompt of an MCP server.
    pub expanded: bool,
    /// It has said its last words.
    pub closed: Option<StopReason>,
    /// The tool call that shows a compaction under way.
    pub compaction: Option<String>,
    /// There was one in this turn.
    pub compacted: bool,
    /// By its steps until now.
    pub used: UsedSoFar,
    pub steps: Vec<StepRecord>,
    /// The first steps, which there was no room for.
    pub forgotten: usize,
}

/// Whatever their size.
const KEPT_STEPS: usize = 2;
const OUTPUT_FORGOTTEN: &str = "[This output was left out to save space.]";

#[derive(Clone, Debug, Default)]
pub struct StepRecord {
    /// Also the id of the message that clients see.
    pub id: String,
    /// The shown part of an unfinished message.
    pub said: String,
    pub thought: String,
    pub thought_id: String,
    /// The whole message, when it is there.
    pub finished: Option<FinishedMessage>,
    pub calls: Vec<CallRecord>,
}

#[derive(Clone, Debug)]
pub struct FinishedMessage {
    pub message: AssistantMessage,
    pub stop: ModelStop,
}

/// A tool call of the model.
#[derive(Clone, Debug, Default)]
pub struct CallRecord {
    /// As clients know it, different for every call of a session.
    pub shown_id: String,
    /// As the model knows it.
    pub id: String,
    pub tool: String,
    pub arguments: String,
    /// Clients know of it.
    pub announced: bool,
    /// It has begun to run.
    pub started: bool,
    /// The client's terminal that its command runs in.
    pub terminal: Option<String>,
    /// Questions that an earlier run of the turn has asked for it, in their order.
    pub asked: VecDeque<AskedQuestion>,
    /// Questions during the call that ended with the worker that asked them.
    pub asides: Vec<String>,
    pub result: Option<CallResultRecord>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AskedQuestion {
    pub id: String,
    pub method: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CallResultRecord {
    pub content: Vec<MessagePart>,
    pub is_error: bool,
}

/// The results of calls that did not come to their end, as the model gets them.
const NOT_RUN: &str = "This tool call was not carried out: the turn ended before.";
const UNFINISHED: &str = "The outcome of this tool call is unknown: the turn ended while it ran. \
                          It may have had an effect.";

impl StepRecord {
    pub fn new(id: String) -> Self {
        Self {
            id,
            ..Self::default()
        }
    }

    pub fn shown(&self) -> ShownTexts<'_> {
        ShownTexts {
            said: &self.said,
            thought: &self.thought,
        }
    }

    /// The next thought: an attempt that begins anew has another id.
    pub fn add_thought(&mut self, id: &str, text: &str) {
        if self.thought_id != id {
            self.thought_id = id.to_owned();
            self.thought.clear();
        }
        self.thought.push_str(text);
    }

    /// The message is complete; from here on its tool calls count.
    pub fn finish(&mut self, message: AssistantMessage, stop: ModelStop) {
        let calls = message.parts.iter().filter_map(|part| match part {
            AssistantPart::ToolCall {
                id,
                name,
                arguments,
            } => Some((id, name, arguments)),
            _ => None,
        });
        let calls = calls
            .enumerate()
            .map(|(at, (id, name, arguments))| CallRecord {
                shown_id: format!("{}.{}", self.id, at + 1),
                id: id.clone(),
                tool: name.clone(),
                arguments: arguments.clone(),
                ..CallRecord::default()
            });
        self.calls = calls.collect();
        self.finished = Some(FinishedMessage { message, stop });
        (self.said, self.thought) = Default::default();
    }

    pub fn finish_by_mark(&mut self, mark: StepMark) {
        let stop = mark.stop;
        let message = mark.message(self.shown());
        self.finish(message, stop);
    }

    /// In bytes, about.
    fn size(&self) -> usize {
        let parts = self.finished.iter().flat_map(|it| &it.message.parts);
        let said = parts.map(|part| match part {
            AssistantPart::Text(text) | AssistantPart::Reasoning { text, .. } => text.len(),
            // The call has them, too.
            AssistantPart::ToolCall { arguments, .. } => 2 * arguments.len(),
        });
        let outputs = self.calls.iter().map(CallRecord::output_size);
        self.said.len() + said.sum::<usize>() + outputs.sum::<usize>()
    }

    /// The messages of this step, and what their size is.
    fn messages(&self) -> Vec<ModelMessage> {
        let Some(finished) = &self.finished else {
            return self.beginning().into_iter().collect();
        };
        let message = ModelMessage::Assistant(finished.message.clone());
        let has_parts = !finished.message.parts.is_empty();
        let said = has_parts.then_some(message).into_iter();
        said.chain(self.calls.iter().map(CallRecord::message))
            .collect()
    }

    /// The part of an unfinished message that was said aloud.
    fn beginning(&self) -> Option<ModelMessage> {
        let part = AssistantPart::Text(self.said.clone());
        let message = AssistantMessage { parts: vec![part] };
        (!self.said.is_empty()).then_some(ModelMessage::Assistant(message))
    }
}

impl CallRecord {
    fn message(&self) -> ModelMessage {
        let unknown = || CallResultRecord {
            content: vec![MessagePart::Text(
                if self.started { UNFINISHED } else { NOT_RUN }.to_owned(),
            )],
            is_error: true,
        };
        let CallResultRecord { content, is_error } = self.result.clone().unwrap_or_else(unknown);
        ModelMessage::ToolResult {
            call_id: self.id.clone(),
            tool: self.tool.clone(),
            content,
            is_error,
        }
    }

    fn output_size(&self) -> usize {
        let result = self.result.as_ref();
        let content = result.into_iter().flat_map(|it| &it.content);
        let sizes = content.map(|part| match part {
            MessagePart::Text(text) => text.len(),
            MessagePart::Image { data, .. } => data.len(),
        });
        sizes.sum()
    }

    /// Returns how many bytes less it is.
    fn forget_output(&mut self) -> usize {
        let before = self.output_size();
        match &mut self.result {
            Some(result) if before > 2 * OUTPUT_FORGOTTEN.len() => {
                result.content = vec![MessagePart::Text(OUTPUT_FORGOTTEN.into())];
                before - OUTPUT_FORGOTTEN.len()
            }
            _ => 0,
        }
    }

    pub fn was_asked(&self, method: &str) -> bool {
        self.asked.iter().any(|asked| asked.method == method)
    }
}

impl TurnRecord {
    /// The step with this id, begun if it is not there.
    pub fn step(&mut self, id: &str) -> &mut StepRecord {
        let open = self.steps.last().is_some_and(|step| step.id == id);
        if !open {
            self.steps.push(StepRecord::new(id.to_owned()));
        }
        self.steps.last_mut().expect("there is one now")
    }

    /// Keeps the turn within so many bytes: first its oldest outputs are forgotten, then its oldest
    /// steps. The model would not be told them either.
    pub fn bound(&mut self, most: usize) {
        let mut bytes: usize = self.steps.iter().map(StepRecord::size).sum();
        let last = self.steps.len().saturating_sub(1);
        for call in self.steps[..last].iter_mut().flat_map(|it| &mut it.calls) {
            if bytes <= most {
                return;
            }
            bytes -= call.forget_output();
        }
        while bytes > most && self.steps.len() > KEPT_STEPS {
            bytes -= self.steps.remove(0).size();
            self.forgotten += 1;
        }
    }

    /// Steps that there were, also those that are forgotten.
    pub fn step_count(&self) -> usize {
        self.steps.len() + self.forgotten
    }

    pub fn call(&mut self, shown_id: &str) -> Option<&mut CallRecord> {
        let steps = self.steps.iter_mut().rev();
        let mut calls = steps.flat_map(|step| &mut step.calls);
        calls.find(|call| call.shown_id == shown_id)
    }

    /// The turn as a model is told it.
    pub fn messages(&self) -> Vec<ModelMessage> {
        let mut said = self.user.clone();
        if self.forgotten > 0 {
            let note = format!("[{} steps of this turn were left out.]", self.forgotten);
            said.push(MessagePart::Text(note));
        }
        let user = ModelMessage::User(said);
        let user = (!self.user.is_empty()).then_some(user).into_iter();
        user.chain(self.steps.iter().flat_map(StepRecord::messages))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(number: usize, output: usize, arguments: usize) -> StepRecord {
        let mut step = StepRecord::new(number.to_string());
        let call = AssistantPart::ToolCall {
            id: "c".into(),
            name: "look".into(),
            arguments: "x".repeat(arguments),
        };
        let message = AssistantMessage { parts: vec![call] };
        step.finish(message, ModelStop::ToolCalls);
        step.calls[0].result = Some(CallResultRecord {
            content: vec![MessagePart::Text("y".repeat(output))],
            is_error: false,
        });
        step
    }

    #[test]
    fn a_turn_without_end_stays_within_its_bytes() {
        let mut turn = TurnRecord {
            user: vec![MessagePart::Text("Go".into())],
            ..TurnRecord::default()
        };
        for number in 0..1000 {
            let arguments = if number < 500 { 10 } else { 3_000 };
            turn.steps.push(step(number, 5_000, arguments));
            turn.bound(20_000);
            let bytes: usize = turn.steps.iter().map(StepRecord::size).sum();
            assert!(bytes <= 20_000, "{bytes} at {number}");
            assert_eq!(turn.step_count(), number + 1);
        }
        let told = format!("{:?}", turn.messages());
        assert!(told.contains(&format!("[{} steps of this turn", turn.forgotten)));
        assert!(
            told.contains(&"y".repeat(5_000)),
            "the last output is there"
        );
    }
}
