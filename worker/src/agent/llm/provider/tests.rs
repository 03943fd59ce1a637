//! Answers as endpoints send them, byte by byte, and requests as they go out.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::agent::llm::model::{
    AssistantMessage, AssistantPart, MessagePart, ModelEvent, ModelMessage, ModelReply, ModelStop,
    ToolDefinition,
};

mod anthropic;
mod broken;
mod chat;
mod requests;
mod responses;

const ALL: [ModelProtocol; 3] = [
    ModelProtocol::Chat,
    ModelProtocol::Responses,
    ModelProtocol::Anthropic,
];

/// An answer's events and its end, as read from pieces of its bytes.
struct Answer {
    events: Vec<ModelEvent>,
    end: Result<ModelReply, ModelError>,
}

impl Answer {
    fn of(protocol: ModelProtocol, body: &str) -> Self {
        Self::read(&provider(protocol), &[body.as_bytes()])
    }

    fn read(provider: &ModelProvider, pieces: &[&[u8]]) -> Self {
        let context = provider.context("a-model");
        Self::read_with(provider.reader(None, &context), pieces)
    }

    fn read_with(mut reader: AnswerReader, pieces: &[&[u8]]) -> Self {
        let mut events = Vec::new();
        let broken = ModelError::BrokenOff {
            detail: "the end".into(),
        };
        for piece in pieces.iter().copied().map(Some).chain([None]) {
            match piece {
                Some(bytes) => reader.push(bytes),
                None => reader.end(broken.clone()),
            }
            while let Some(event) = reader.next() {
                match event {
                    Ok(ModelEvent::Done(reply)) => {
                        assert!(reader.next().is_none(), "something after the end");
                        let end = Ok(*reply);
                        return Self { events, end };
                    }
                    Ok(event) => events.push(event),
                    Err(error) => {
                        assert!(reader.next().is_none(), "something after an error");
                        let end = Err(error);
                        return Self { events, end };
                    }
                }
            }
        }
        panic!("neither an end nor an error");
    }

    fn reply(&self) -> &ModelReply {
        self.end.as_ref().expect("complete")
    }

    fn error(&self) -> &'static str {
        self.end.as_ref().expect_err("an error").kind()
    }

    /// Texts, thoughts and arguments as they were shown, each joined.
    fn shown(&self) -> (String, String, Vec<String>) {
        let (mut text, mut thoughts, mut calls) = Default::default();
        for event in &self.events {
            match event {
                ModelEvent::Text(more) => text += more.as_str(),
                ModelEvent::Reasoning(more) => thoughts += more.as_str(),
                ModelEvent::ToolCall { index, name, .. } => {
                    let calls: &mut Vec<String> = &mut calls;
                    assert_eq!(*index, calls.len());
                    calls.push(format!("{name} "));
                }
                ModelEvent::ToolArguments { index, text } => calls[*index] += text,
                ModelEvent::Done(_) => unreachable!("the end is not among them"),
            }
        }
        (text, thoughts, calls)
    }
}

fn provider(protocol: ModelProtocol) -> ModelProvider {
    ModelProvider::new(ProviderConfig::new(protocol, "http://localhost/v1")).expect("good")
}

/// Calls with the arguments that they came to.
fn calls(reply: &ModelReply) -> Vec<(&str, &str, &str)> {
    let calls = reply.message.parts.iter().filter_map(|part| match part {
        AssistantPart::ToolCall {
            id,
            name,
            arguments,
        } => Some((id.as_str(), name.as_str(), arguments.as_str())),
        _ => None,
    });
    calls.collect()
}

fn data(events: &[Value]) -> String {
    let written = events.iter().map(|event| format!("data: {event}\n\n"));
    written.collect()
}
