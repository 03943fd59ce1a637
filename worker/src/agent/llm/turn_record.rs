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
    /// By its steps until now.
    pub used: UsedSoFar,
    pub steps: Vec<StepRecord>,
}

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

    pub fn call(&mut self, shown_id: &str) -> Option<&mut CallRecord> {
        let steps = self.steps.iter_mut().rev();
        let mut calls = steps.flat_map(|step| &mut step.calls);
        calls.find(|call| call.shown_id == shown_id)
    }

    /// The turn as a model is told it.
    pub fn messages(&self) -> Vec<ModelMessage> {
        let user = ModelMessage::User(self.user.clone());
        let user = (!self.user.is_empty()).then_some(user).into_iter();
        user.chain(self.steps.iter().flat_map(StepRecord::messages))
            .collect()
    }
}
