//! The terms of a response, as its object reports them back. They travel in the prompt, in `_meta`
//! of the first content block, and so into the session's log, where every gateway finds them.

use std::collections::BTreeMap;

use baton_protocol::meta;
use baton_protocol::update;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The fields that are reported as they were sent, in the order of the object, each with what is
/// reported for a client that sent none.
pub const REPORTED: &[(&str, &str)] = &[
    ("instructions", "null"),
    ("tools", "[]"),
    ("tool_choice", "\"auto\""),
    ("truncation", "\"disabled\""),
    ("parallel_tool_calls", "true"),
    ("text", "{\"format\":{\"type\":\"text\"}}"),
    ("top_p", "1"),
    ("presence_penalty", "0"),
    ("frequency_penalty", "0"),
    ("top_logprobs", "0"),
    ("temperature", "1"),
    ("reasoning", "null"),
    ("max_output_tokens", "null"),
    ("max_tool_calls", "null"),
    ("store", "true"),
    ("background", "false"),
    ("service_tier", "\"default\""),
    ("metadata", "{}"),
    ("safety_identifier", "null"),
    ("prompt_cache_key", "null"),
];

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ResponseTerms {
    /// When it was asked for, in seconds since 1970.
    pub at: u64,
    /// As its client named it.
    pub model: String,
    /// The response that it goes on from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
    /// Fields of [`REPORTED`] that were sent.
    #[serde(default)]
    pub fields: BTreeMap<String, Box<RawValue>>,
}

#[derive(Deserialize)]
struct TermsMeta {
    #[serde(rename = "baton/response")]
    terms: Box<RawValue>,
}

impl ResponseTerms {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(|value| value.get())
    }

    pub fn is_background(&self) -> bool {
        self.field("background") == Some("true")
    }

    /// As the first content block of a prompt carries it.
    pub fn meta(&self) -> String {
        let terms = serde_json::to_string(self).expect("made of what was JSON");
        format!("{{\"{}\":{terms}}}", meta::RESPONSE)
    }

    /// Of an answer to a question of the agent, if it came by this door.
    pub fn of_answer(answer: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct AnswerMessage {
            result: AnswerResult,
        }
        #[derive(Deserialize)]
        struct AnswerResult {
            #[serde(rename = "_meta")]
            meta: TermsMeta,
        }
        let message: AnswerMessage = serde_json::from_slice(answer).ok()?;
        serde_json::from_str(message.result.meta.terms.get()).ok()
    }

    /// Of the user's message in a log, if it came by this door.
    pub fn of(echo: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct MessageChunk {
            content: ContentWithTerms,
        }
        #[derive(Deserialize)]
        struct ContentWithTerms {
            #[serde(rename = "_meta")]
            meta: TermsMeta,
        }
        let chunk: MessageChunk = update::read(echo)?;
        serde_json::from_str(chunk.content.meta.terms.get()).ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn terms_are_found_again_in_the_users_message() {
        let fields = [("temperature", "0.50"), ("metadata", r#"{"a":"b"}"#)];
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        let fields = fields.map(|(name, value)| (name.to_owned(), raw(value)));
        let terms = ResponseTerms {
            at: 7,
            model: "scripted".into(),
            previous: Some("resp_x".into()),
            fields: fields.into(),
        };
        let echo = format!(
            r#"{{"params":{{"sessionId":"s","update":{{"sessionUpdate":"user_message_chunk","content":{{"type":"text","text":"x","_meta":{}}}}}}}}}"#,
            terms.meta()
        );
        let read = ResponseTerms::of(echo.as_bytes()).unwrap();
        assert_eq!((read.at, read.previous.as_deref()), (7, Some("resp_x")));
        assert_eq!(read.field("temperature"), Some("0.50"));
        assert_eq!(json!(read), json!(terms));
        assert!(ResponseTerms::of(br#"{"params":{"update":{"content":{}}}}"#).is_none());
    }
}
