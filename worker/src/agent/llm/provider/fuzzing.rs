//! Answers of endpoints, for [`crate::fuzzing`].

use super::{ModelProvider, ProviderConfig};
use crate::agent::llm::model::{AssistantPart, ModelEvent, ModelProtocol, ModelReply};
use crate::agent::llm::model_error::ModelError;

/// What was shown of an answer, and how it ended.
#[derive(Debug)]
pub struct ReadAnswer {
    pub text: String,
    pub reasoning: String,
    pub arguments: Vec<String>,
    pub end: Result<Box<ModelReply>, ModelError>,
}

/// A protocol's reader, for any number of answers.
pub struct AnswerTrial(ModelProvider);

impl AnswerTrial {
    pub fn new(protocol: ModelProtocol) -> Self {
        let mut config = ProviderConfig::new(protocol, "http://localhost/v1");
        config.max_reply_bytes = 64 << 10;
        Self(ModelProvider::new(config).expect("a good configuration"))
    }

    /// Reads pieces until the end or an error.
    pub fn read(&self, pieces: &[&[u8]]) -> ReadAnswer {
        let mut reader = self.0.reader(None, &self.0.context("a-model"));
        let mut read = ReadAnswer {
            text: String::new(),
            reasoning: String::new(),
            arguments: Vec::new(),
            end: Err(ModelError::Cancelled),
        };
        for piece in pieces.iter().copied().map(Some).chain([None]) {
            match piece {
                Some(bytes) => reader.push(bytes),
                None => reader.end(ModelError::BrokenOff {
                    detail: String::new(),
                }),
            }
            while let Some(event) = reader.next() {
                read.take(event);
            }
            if reader.is_over() {
                return read;
            }
        }
        panic!("an answer that neither ends nor fails");
    }
}

impl ReadAnswer {
    fn take(&mut self, event: Result<ModelEvent, ModelError>) {
        match event {
            Ok(ModelEvent::Text(text)) => self.text += &text,
            Ok(ModelEvent::Reasoning(text)) => self.reasoning += &text,
            Ok(ModelEvent::ToolCall { index, .. }) => {
                let begun = self.arguments.len().max(index + 1);
                self.arguments.resize(begun, String::new());
            }
            Ok(ModelEvent::ToolArguments { index, text }) => self.arguments[index] += &text,
            Ok(ModelEvent::Done(reply)) => self.end = Ok(reply),
            Err(error) => self.end = Err(error),
        }
    }

    /// Whether the message is what was shown.
    pub fn agrees(&self) -> bool {
        let Ok(reply) = &self.end else {
            return true;
        };
        let mut calls: Vec<&str> = Vec::new();
        let mut reasoning = String::new();
        for part in &reply.message.parts {
            match part {
                AssistantPart::Text(_) => {}
                AssistantPart::Reasoning { text, .. } => reasoning += text,
                AssistantPart::ToolCall { arguments, .. } => calls.push(arguments),
            }
        }
        let mut shown: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        for arguments in &mut shown {
            if arguments.trim().is_empty() {
                *arguments = "{}";
            }
        }
        // A call whose name came late stands behind others.
        calls.sort_unstable();
        shown.sort_unstable();
        reply.message.text() == self.text && reasoning == self.reasoning && calls == shown
    }
}
