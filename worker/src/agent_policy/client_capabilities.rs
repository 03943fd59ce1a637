//! What an agent is told of its client's capabilities: those of the protocol as the client has said
//! them, and of `_meta` what passes elsewhere, too, and a few fields that do no more than announce.

use serde_json::value::to_raw_value;
use serde_json::{Map, Value};

use super::AgentPolicy;

/// The capabilities of a client in the protocol, drafts included, beside `_meta`.
const CAPABILITIES: [&str; 10] = [
    "auth",
    "elicitation",
    "fs",
    "mcp",
    "nes",
    "plan",
    "positionEncodings",
    "session",
    "subagents",
    "terminal",
];
/// Fields of `_meta` with which editors say what they can show, if they are `true` or `false`.
const ANNOUNCEMENTS: [&str; 2] = ["terminal_output", "terminal-auth"];

impl AgentPolicy {
    /// Filters capabilities as a client has said them.
    pub(crate) fn capabilities(&self, mut said: Value) -> Value {
        let Some(fields) = said.as_object_mut() else {
            return Value::Object(Map::new());
        };
        if !self.unknown_fields {
            fields.retain(|name, _| name == "_meta" || CAPABILITIES.contains(&name.as_str()));
        }
        self.filter_meta(&mut said);
        said
    }

    fn filter_meta(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                if let Some(mut meta) = fields.remove("_meta") {
                    let passes = |name: &String, value: &mut Value| self.announces(name, value);
                    if let Some(meta) = meta.as_object_mut() {
                        meta.retain(passes);
                    }
                    if meta.as_object().is_some_and(|meta| !meta.is_empty()) {
                        fields.insert("_meta".into(), meta);
                    }
                }
                let others = fields.iter_mut().filter(|(name, _)| *name != "_meta");
                others.for_each(|(_, value)| self.filter_meta(value));
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.filter_meta(value)),
            _ => {}
        }
    }

    fn announces(&self, name: &str, value: &Value) -> bool {
        let announces = value.is_boolean() && ANNOUNCEMENTS.contains(&name);
        let raw = to_raw_value(value).expect("plain data encodes");
        let passes = announces || self.meta(name, &raw);
        if !passes {
            self.withhold("meta");
        }
        passes
    }
}
