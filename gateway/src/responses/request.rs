//! The body of `POST /v1/responses`, checked field by field. The meaning of each here, and which
//! are refused because nobody could do what they ask for, is in docs/reference/responses.md.

use std::collections::BTreeMap;

use baton_protocol::limits::{MAX_LIST, MAX_NAME, echo};
use baton_session::id::SessionId;
use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::fault::{invalid, unsupported};
use super::input::PromptInput;
use super::question::FUNCTION;
use crate::error::GatewayError;

const MAX_TOOLS: usize = 128;
const MAX_METADATA: usize = 16;
const MAX_METADATA_KEY: usize = 64;
const MAX_METADATA_VALUE: usize = 512;
/// In metadata: the directory of a new session.
pub const CWD_KEY: &str = "baton:cwd";

pub struct ResponseRequest {
    /// As it came, to be recognised.
    pub body: Bytes,
    pub model: Option<String>,
    pub input: PromptInput,
    pub previous: Option<String>,
    pub conversation: Option<SessionId>,
    pub stream: bool,
    pub cwd: Option<String>,
    /// As they are reported back.
    pub fields: BTreeMap<String, Box<RawValue>>,
}

/// The form of a value.
enum FieldRule {
    Text,
    Flag,
    List,
    Object,
    Number(f64, f64),
    Whole(u64, u64),
    Choice(&'static [&'static str]),
    Choices,
}

const RULES: &[(&str, FieldRule)] = &[
    ("instructions", FieldRule::Text),
    ("tools", FieldRule::List),
    ("tool_choice", FieldRule::Choices),
    ("truncation", FieldRule::Choice(&["auto", "disabled"])),
    ("parallel_tool_calls", FieldRule::Flag),
    ("text", FieldRule::Object),
    ("top_p", FieldRule::Number(0.0, 1.0)),
    ("presence_penalty", FieldRule::Number(-2.0, 2.0)),
    ("frequency_penalty", FieldRule::Number(-2.0, 2.0)),
    ("top_logprobs", FieldRule::Whole(0, 20)),
    ("temperature", FieldRule::Number(0.0, 2.0)),
    ("reasoning", FieldRule::Object),
    ("max_output_tokens", FieldRule::Whole(1, u64::MAX)),
    ("max_tool_calls", FieldRule::Whole(1, u64::MAX)),
    ("store", FieldRule::Flag),
    ("background", FieldRule::Flag),
    (
        "service_tier",
        FieldRule::Choice(&["auto", "default", "flex", "priority"]),
    ),
    ("metadata", FieldRule::Object),
    ("safety_identifier", FieldRule::Text),
    ("prompt_cache_key", FieldRule::Text),
];

impl FieldRule {
    fn expects(&self) -> String {
        match self {
            Self::Text => "a string".into(),
            Self::Flag => "true or false".into(),
            Self::List => "an array".into(),
            Self::Object => "an object".into(),
            Self::Number(least, most) => format!("a number from {least} to {most}"),
            Self::Whole(least, u64::MAX) => format!("a whole number from {least} on"),
            Self::Whole(least, most) => format!("a whole number from {least} to {most}"),
            Self::Choice(names) => format!("one of {}", names.join(", ")),
            Self::Choices => "a string or an object".into(),
        }
    }

    fn allows(&self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::Flag => value.is_boolean(),
            Self::List => value.is_array(),
            Self::Object => value.is_object(),
            Self::Number(least, most) => {
                let number = value.as_f64();
                number.is_some_and(|number| (*least..=*most).contains(&number))
            }
            Self::Whole(least, most) => {
                let number = value.as_u64();
                number.is_some_and(|number| (*least..=*most).contains(&number))
            }
            Self::Choice(names) => value.as_str().is_some_and(|name| names.contains(&name)),
            Self::Choices => value.is_string() || value.is_object(),
        }
    }
}

/// The fields that were sent and are not `null`.
struct BodyFields<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> BodyFields<'a> {
    fn read(body: &'a [u8]) -> Result<Self, GatewayError> {
        let fields: BTreeMap<String, &RawValue> =
            serde_json::from_slice(body).map_err(|error| {
                GatewayError::NotJson(baton_protocol::limits::shorten(error.to_string()))
            })?;
        let present = fields
            .into_iter()
            .filter(|(_, value)| value.get() != "null");
        Ok(Self(present.collect()))
    }

    fn value(&self, name: &str) -> Option<Value> {
        serde_json::from_str(self.0.get(name)?.get()).ok()
    }

    fn checked(&self, name: &str, rule: &FieldRule) -> Result<Option<Value>, GatewayError> {
        match self.value(name) {
            Some(value) if !rule.allows(&value) => {
                Err(invalid(name, format!("{name} must be {}", rule.expects())))
            }
            checked => Ok(checked),
        }
    }

    fn text(&self, name: &str) -> Result<Option<String>, GatewayError> {
        let value = self.checked(name, &FieldRule::Text)?;
        let text = value.as_ref().and_then(Value::as_str);
        let text = text.map(str::to_owned);
        match &text {
            Some(text) if text.len() > MAX_NAME => Err(invalid(
                name,
                format!("{name} may have {MAX_NAME} bytes at most"),
            )),
            _ => Ok(text),
        }
    }

    fn flag(&self, name: &str) -> Result<bool, GatewayError> {
        let value = self.checked(name, &FieldRule::Flag)?;
        Ok(value.and_then(|value| value.as_bool()).unwrap_or_default())
    }
}

impl ResponseRequest {
    /// The agent that `model` names.
    pub fn agent(&self) -> Option<&str> {
        let model = self.model.as_deref()?;
        Some(model.split_once('/').map_or(model, |(agent, _)| agent))
    }

    /// The agent's own option that it names: `AGENT/MODEL`.
    pub fn option(&self) -> Option<&str> {
        Some(self.model.as_deref()?.split_once('/')?.1)
    }

    pub fn is_background(&self) -> bool {
        self.fields
            .get("background")
            .is_some_and(|value| value.get() == "true")
    }

    pub fn read(body: Bytes) -> Result<Self, GatewayError> {
        // All that is reported back has to fit one line.
        let body = baton_protocol::compose::one_line(body);
        let fields = BodyFields::read(&body)?;
        let mut reported = BTreeMap::new();
        for (name, rule) in RULES {
            if let Some(value) = fields.checked(name, rule)? {
                let sent = fields.0[*name];
                reported.insert((*name).to_owned(), settled(name, &value, sent)?);
            }
        }
        let size: usize = reported.values().map(|value| value.get().len()).sum();
        if size > MAX_LIST {
            let text = format!("all fields beside input may have {MAX_LIST} bytes together");
            return Err(invalid("metadata", text));
        }
        let metadata = fields.value("metadata").unwrap_or_default();
        check_metadata(metadata.as_object())?;
        let cwd = metadata[CWD_KEY].as_str().map(str::to_owned);
        let previous = fields.text("previous_response_id")?;
        let conversation = conversation(&fields)?;
        if previous.is_some() && conversation.is_some() {
            let text = "send either conversation or previous_response_id: each says what to go \
                on from";
            return Err(invalid("conversation", text));
        }
        if fields.0.contains_key("prompt") {
            return Err(unsupported(
                "prompt",
                "there are no stored prompts here: send input",
            ));
        }
        let instructions = fields.value("instructions");
        let instructions = instructions.as_ref().and_then(Value::as_str);
        Ok(Self {
            input: PromptInput::read(fields.0.get("input").copied(), instructions)?,
            model: fields.text("model")?,
            stream: fields.flag("stream")?,
            previous,
            conversation,
            cwd,
            fields: reported,
            body: body.clone(),
        })
    }
}

/// A field as its object reports it. Refused is what would be reported and not done.
fn settled(name: &str, value: &Value, sent: &RawValue) -> Result<Box<RawValue>, GatewayError> {
    let changed = match name {
        "text" => {
            let kind = value["format"]["type"].as_str().unwrap_or("text");
            if kind != "text" {
                let text = "agents answer in words: only {\"type\":\"text\"} can be promised";
                return Err(unsupported("text.format", text));
            }
            let mut text = value.clone();
            text["format"] = serde_json::json!({ "type": "text" });
            text
        }
        "reasoning" => {
            let part = |name: &str| value.get(name).cloned().unwrap_or_default();
            serde_json::json!({ "effort": part("effort"), "summary": part("summary") })
        }
        "service_tier" => "default".into(),
        "tools" => {
            check_tools(value.as_array().map_or(&[], Vec::as_slice))?;
            return Ok(sent.to_owned());
        }
        _ => return Ok(sent.to_owned()),
    };
    Ok(RawValue::from_string(changed.to_string()).expect("a value is JSON"))
}

/// Functions of the client. An agent brings its other tools itself.
fn check_tools(tools: &[Value]) -> Result<(), GatewayError> {
    if tools.len() > MAX_TOOLS {
        let text = format!("there may be {MAX_TOOLS} tools at most");
        return Err(invalid("tools", text));
    }
    for (at, tool) in tools.iter().enumerate() {
        let at = format!("tools[{at}]");
        if tool["type"] != "function" {
            let kind = echo(tool["type"].as_str().unwrap_or_default());
            let text = format!("{at}: functions can be offered to an agent, and no {kind}");
            return Err(unsupported(&at, text));
        }
        let name = tool["name"].as_str().unwrap_or_default();
        let plain = |letter: u8| letter.is_ascii_alphanumeric() || b"_-".contains(&letter);
        let fits = (1..=64).contains(&name.len()) && name.bytes().all(plain);
        if !fits || name == FUNCTION {
            let text =
                format!("{at}.name must be 1 to 64 letters, digits, _ and -, and not {FUNCTION}");
            return Err(invalid(&at, text));
        }
        let same = tools.iter().filter(|other| other["name"] == tool["name"]);
        if same.count() > 1 {
            let text = format!("{at}: another function has the same name");
            return Err(invalid(&at, text));
        }
        let schema = &tool["parameters"];
        if !schema.is_null() && !schema.is_object() {
            let text = format!("{at}.parameters must be a JSON schema");
            return Err(invalid(&at, text));
        }
    }
    Ok(())
}

fn check_metadata(metadata: Option<&Map<String, Value>>) -> Result<(), GatewayError> {
    let Some(metadata) = metadata else {
        return Ok(());
    };
    if metadata.len() > MAX_METADATA {
        let text = format!("metadata may have {MAX_METADATA} entries at most");
        return Err(invalid("metadata", text));
    }
    for (key, value) in metadata {
        let fits = key.chars().count() <= MAX_METADATA_KEY
            && value
                .as_str()
                .is_some_and(|text| text.chars().count() <= MAX_METADATA_VALUE);
        if !fits {
            let text = format!(
                "metadata: {} must be a string of {MAX_METADATA_VALUE} characters at most, under \
                 a key of {MAX_METADATA_KEY}",
                echo(key)
            );
            return Err(invalid("metadata", text));
        }
    }
    Ok(())
}

/// A session, by its id or as an object with it.
fn conversation(fields: &BodyFields<'_>) -> Result<Option<SessionId>, GatewayError> {
    let Some(value) = fields.checked("conversation", &FieldRule::Choices)? else {
        return Ok(None);
    };
    let id = value.as_str().or(value["id"].as_str()).unwrap_or_default();
    let session = SessionId::parse(id);
    session.map(Some).ok_or_else(|| unknown_conversation(id))
}

pub fn unknown_conversation(id: &str) -> GatewayError {
    crate::error::fault(
        crate::error::FaultKind::NotFound,
        "conversation_not_found",
        Some("conversation"),
        format!("there is no session {}", echo(id)),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(body: Value) -> Result<ResponseRequest, String> {
        let read = ResponseRequest::read(body.to_string().into());
        read.map_err(|error| match error {
            GatewayError::Door(fault) => {
                format!("{}: {}", fault.param.unwrap_or_default(), fault.message)
            }
            other => format!("{other:?}"),
        })
    }

    #[test]
    fn a_request_is_read_with_what_it_asks_for() {
        let request = read(json!({
            "model": "scripted", "input": "hello", "stream": true, "temperature": 0.5,
            "metadata": { "a": "b", CWD_KEY: "/work" }, "reasoning": { "effort": "low" },
            "user": "ignored", "top_p": null,
        }))
        .unwrap();
        assert!(request.stream);
        assert_eq!(request.cwd.as_deref(), Some("/work"));
        assert_eq!(request.fields["temperature"].get(), "0.5");
        let reasoning: Value = serde_json::from_str(request.fields["reasoning"].get()).unwrap();
        assert_eq!(reasoning, json!({ "effort": "low", "summary": null }));
        assert!(!request.fields.contains_key("top_p"));
    }

    #[test]
    fn a_fault_names_its_field() {
        let long = "x".repeat(600);
        for (name, value) in [
            ("temperature", json!(3)),
            ("temperature", json!("warm")),
            ("top_p", json!(-0.1)),
            ("instructions", json!(["x"])),
            ("stream", json!("yes")),
            ("max_output_tokens", json!(0)),
            ("max_output_tokens", json!(1.5)),
            ("metadata", json!({ "a": 1 })),
            ("metadata", json!({ "a": long })),
            ("metadata", json!(7)),
            ("tools[0]", json!([{ "type": "web_search" }])),
            ("tools[0]", json!([{ "type": "function", "name": "a b" }])),
            (
                "tools[0]",
                json!([{ "type": "function", "name": FUNCTION }]),
            ),
            (
                "tools[1]",
                json!([{ "type": "function", "name": "a" }, { "type": "function" }]),
            ),
            (
                "tools[0]",
                json!([{ "type": "function", "name": "a", "parameters": 7 }]),
            ),
            (
                "text.format",
                json!({ "format": { "type": "json_schema" } }),
            ),
            ("previous_response_id", json!(7)),
            ("conversation", json!({ "id": "nothing" })),
            ("truncation", json!("sometimes")),
            ("prompt", json!({ "id": "pmpt_1" })),
            ("model", json!("m".repeat(300))),
        ] {
            let mut body = json!({ "input": "hello" });
            body[name.split(['.', '[']).next().unwrap()] = value;
            let said = read(body.clone()).err().expect("refused");
            assert!(said.starts_with(&format!("{name}: ")), "{body}: {said}");
        }
        for body in [json!([]), json!("x"), json!(1)] {
            assert!(read(body).is_err());
        }
    }
}
