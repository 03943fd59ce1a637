//! Modes and config options of a session as its agent tells them: in the answer that opened it, in
//! updates, and in the answers to changes.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Updates without any of these change nothing here.
static WORDS: LazyLock<[Finder<'static>; 2]> =
    LazyLock::new(|| ["\"current_mode_update\"", "\"config_option_update\""].map(Finder::new));

/// What `session/new` and `session/load` answer, without the session's id.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View(Map<String, Value>);

#[derive(Deserialize)]
struct Message {
    params: Params,
}

#[derive(Deserialize)]
struct Params {
    update: Value,
}

impl View {
    pub fn of(result: &RawValue) -> Self {
        let mut fields: Map<String, Value> = serde_json::from_str(result.get()).unwrap_or_default();
        fields.remove("sessionId");
        Self(fields)
    }

    pub fn from_value(value: Value) -> Self {
        match value {
            Value::Object(fields) => Self(fields),
            _ => Self::default(),
        }
    }

    pub fn to_value(&self) -> Value {
        Value::Object(self.0.clone())
    }

    /// What another opening of the same session says; what it leaves out stays.
    pub fn renew(&mut self, other: Self) -> bool {
        let before = self.clone();
        self.0
            .extend(other.0.into_iter().filter(|(_, value)| !value.is_null()));
        *self != before
    }

    /// Reads a `session/update`. True if it changed something.
    pub fn read(&mut self, message: &[u8]) -> bool {
        if !WORDS.iter().any(|word| word.find(message).is_some()) {
            return false;
        }
        let Ok(Message { params }) = serde_json::from_slice(message) else {
            return false;
        };
        let update = params.update;
        match update["sessionUpdate"].as_str() {
            Some("current_mode_update") => self.set_mode(&update["currentModeId"]),
            Some("config_option_update") => self.set_options(&update["configOptions"]),
            _ => false,
        }
    }

    pub fn set_mode(&mut self, mode: &Value) -> bool {
        let modes = self.0.get_mut("modes").and_then(Value::as_object_mut);
        match modes {
            Some(modes) if mode.is_string() && modes.get("currentModeId") != Some(mode) => {
                modes.insert("currentModeId".into(), mode.clone());
                true
            }
            _ => false,
        }
    }

    pub fn set_options(&mut self, options: &Value) -> bool {
        let differ = options.is_array() && self.0.get("configOptions") != Some(options);
        if differ {
            self.0.insert("configOptions".into(), options.clone());
        }
        differ
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rpc;

    #[test]
    fn it_follows_what_the_agent_says() {
        let result = json!({
            "sessionId": "theirs",
            "modes": { "currentModeId": "ask", "availableModes": [] },
            "_meta": { "kept": 1 },
        });
        let mut view = View::of(&crate::agent::raw(&result));
        assert_eq!(view.to_value()["sessionId"], Value::Null);
        assert_eq!(view.to_value()["_meta"]["kept"], 1);
        let mode = json!({ "sessionUpdate": "current_mode_update", "currentModeId": "code" });
        let mode = rpc::update("s", mode);
        assert!(view.read(&mode) && !view.read(&mode));
        assert_eq!(view.to_value()["modes"]["currentModeId"], "code");
        let options = json!({ "sessionUpdate": "config_option_update", "configOptions": [1] });
        assert!(view.read(&rpc::update("s", options)));
        assert_eq!(view.to_value()["configOptions"], json!([1]));
        let text =
            json!({ "sessionUpdate": "agent_message_chunk", "content": "current_mode_update" });
        assert!(!view.read(&rpc::update("s", text)));
    }
}
