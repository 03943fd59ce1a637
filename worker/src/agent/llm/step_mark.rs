//! The marks that the native agent keeps in `_meta["baton/llm"]`, beside what clients are shown:
//! enough to tell a model its own words again unchanged, and to find the tool call that a question
//! belongs to. Texts are not repeated here, only how long they are: they were shown before.

use baton_protocol::meta;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::model::{AssistantMessage, AssistantPart, ModelProtocol, ModelStop};
use super::spending::UsedSoFar;
use crate::agent::StopReason;

/// With the update that ends a step of the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepMark {
    /// The name of the step, and of its message to the user.
    pub id: String,
    pub model: String,
    pub protocol: ModelProtocol,
    pub stop: ModelStop,
    /// By this step.
    #[serde(default)]
    pub used: UsedSoFar,
    parts: Vec<PartMark>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PartMark {
    /// So many bytes of what was said aloud.
    Text(usize),
    /// So many bytes of the thoughts that were shown.
    Reasoning {
        length: usize,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opaque: Option<Value>,
    },
    /// A text that was not shown as it is here.
    Unshown(String),
    Call {
        id: String,
        name: String,
        arguments: String,
    },
}

impl StepMark {
    /// `said` and `thought`: what was shown of the message.
    pub fn of(
        id: &str,
        model: &str,
        protocol: ModelProtocol,
        stop: ModelStop,
        message: &AssistantMessage,
        shown: ShownTexts<'_>,
    ) -> Self {
        let (mut said, mut thought) = (shown.said, shown.thought);
        let parts = message.parts.iter().map(|part| match part {
            AssistantPart::Text(text) => match said.strip_prefix(text.as_str()) {
                Some(rest) => {
                    said = rest;
                    PartMark::Text(text.len())
                }
                None => PartMark::Unshown(text.clone()),
            },
            AssistantPart::Reasoning { text, opaque, .. } => {
                let rest = thought.strip_prefix(text.as_str());
                thought = rest.unwrap_or(thought);
                PartMark::Reasoning {
                    length: rest.map_or(0, |_| text.len()),
                    opaque: opaque.clone(),
                }
            }
            AssistantPart::ToolCall {
                id,
                name,
                arguments,
            } => PartMark::Call {
                id: id.clone(),
                name: name.clone(),
                arguments: arguments.clone(),
            },
        });
        Self {
            used: UsedSoFar::default(),
            parts: parts.collect(),
            id: id.to_owned(),
            model: model.to_owned(),
            protocol,
            stop,
        }
    }

    /// The message, of this mark and what was shown.
    pub fn message(self, shown: ShownTexts<'_>) -> AssistantMessage {
        let (mut said, mut thought) = (shown.said, shown.thought);
        let protocol = self.protocol;
        let parts = self.parts.into_iter().map(|part| match part {
            PartMark::Text(length) => AssistantPart::Text(take(&mut said, length)),
            PartMark::Unshown(text) => AssistantPart::Text(text),
            PartMark::Reasoning { length, opaque } => AssistantPart::Reasoning {
                text: take(&mut thought, length),
                opaque,
                protocol,
            },
            PartMark::Call {
                id,
                name,
                arguments,
            } => AssistantPart::ToolCall {
                id,
                name,
                arguments,
            },
        });
        AssistantMessage {
            parts: parts.collect(),
        }
    }
}

/// The shown texts of a message until now.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShownTexts<'a> {
    pub said: &'a str,
    /// By the attempt that succeeded, or the last one.
    pub thought: &'a str,
}

/// A log that was changed by somebody else may have less than it says.
fn take(text: &mut &str, length: usize) -> String {
    let taken = text.get(..length).unwrap_or(text);
    *text = &text[taken.len()..];
    taken.to_owned()
}

/// The `_meta` of an update or a question.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct LlmMeta {
    #[serde(default, rename = "baton/llm")]
    pub ours: Option<MarkFields>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct MarkFields {
    pub step: Option<StepMark>,
    /// The tool call, by the id that clients know.
    pub call: Option<String>,
    /// A question that only the worker that asked it can use the answer to.
    #[serde(default)]
    pub aside: bool,
    /// How far a compaction is.
    pub compaction: Option<CompactionMark>,
    /// By it.
    #[serde(default)]
    pub used: UsedSoFar,
    /// The last words of a turn, and how it ends.
    pub closing: Option<StopReason>,
    /// The command that was replaced by a prompt of an MCP server.
    pub prompt: Option<String>,
}

pub fn step_meta(mark: &StepMark) -> Value {
    json!({ meta::LLM: { "step": mark } })
}

pub fn call_meta(call: &str) -> Value {
    json!({ meta::LLM: { "call": call } })
}

pub fn aside_meta(call: &str) -> Value {
    json!({ meta::LLM: { "call": call, "aside": true } })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactionMark {
    Begun,
    Done,
    Failed,
}

pub fn compaction_meta(mark: CompactionMark, used: UsedSoFar) -> Value {
    json!({ meta::LLM: { "compaction": mark, "used": used } })
}

pub fn closing_meta(reason: StopReason) -> Value {
    json!({ meta::LLM: { "closing": reason } })
}

pub fn prompt_meta(command: &str) -> Value {
    json!({ meta::LLM: { "prompt": command } })
}

/// Puts our mark on an update or on a question's params.
pub fn marked(mut message: Value, mark: Value) -> Value {
    message["_meta"] = mark;
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_back_unchanged() {
        let message = AssistantMessage {
            parts: vec![
                AssistantPart::Reasoning {
                    text: "hm, ä".into(),
                    opaque: Some(json!({ "signature": "abc" })),
                    protocol: ModelProtocol::Anthropic,
                },
                AssistantPart::Text("One. ".into()),
                AssistantPart::ToolCall {
                    id: "call-1".into(),
                    name: "read_file".into(),
                    arguments: "{ \"path\":1.0 ".into(),
                },
                AssistantPart::Text("Zwei ß.".into()),
                AssistantPart::Text("never shown".into()),
            ],
        };
        let shown = ShownTexts {
            said: "One. Zwei ß.",
            thought: "hm, ä",
        };
        let stop = ModelStop::ToolCalls;
        let mark = StepMark::of("s", "m", ModelProtocol::Anthropic, stop, &message, shown);
        let text = serde_json::to_string(&mark).unwrap();
        assert!(!text.contains("Zwei") && text.contains("never shown"));
        let read: StepMark = serde_json::from_str(&text).unwrap();
        assert_eq!(read.message(shown), message);
    }

    #[test]
    fn a_mark_without_its_text_is_read_as_far_as_there_is_some() {
        let message = AssistantMessage {
            parts: vec![AssistantPart::Text("ä and more".into())],
        };
        let shown = ShownTexts {
            said: "ä and more",
            thought: "",
        };
        let mark = StepMark::of(
            "s",
            "m",
            ModelProtocol::Chat,
            ModelStop::EndTurn,
            &message,
            shown,
        );
        for said in ["", "ä"] {
            let less = ShownTexts { said, thought: "" };
            assert_eq!(mark.clone().message(less).text(), said);
        }
    }
}
