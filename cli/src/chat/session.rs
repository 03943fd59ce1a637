//! The state of the shown session: its modes, options, title, tools.

use std::collections::HashMap;

use serde_json::Value;

use super::text::one_line;

#[derive(Default)]
pub struct ChatSession {
    pub id: String,
    pub cwd: String,
    pub title: Option<String>,
    pub mode: String,
    /// Ids and names.
    pub modes: Vec<(String, String)>,
    pub options: Vec<AgentOption>,
    /// Commands of the agent, and what they do.
    pub commands: Vec<(String, String)>,
    /// Titles of tool calls, and how far they are, by their ids.
    pub tools: HashMap<String, (String, String)>,
}

/// An option of the agent.
#[derive(Clone)]
pub struct AgentOption {
    pub id: String,
    pub is_model: bool,
    pub is_boolean: bool,
    pub value: String,
    /// The possible values.
    pub values: Vec<String>,
}

pub fn text(value: &Value) -> String {
    one_line(value.as_str().unwrap_or_default())
}

pub fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

impl ChatSession {
    /// From the answer that opened it.
    pub fn new(id: String, cwd: String, opened: &Value) -> Self {
        let modes = list(&opened["modes"]["availableModes"]);
        Self {
            id,
            cwd,
            mode: text(&opened["modes"]["currentModeId"]),
            modes: modes
                .map(|mode| (text(&mode["id"]), text(&mode["name"])))
                .collect(),
            options: choices(&opened["configOptions"]),
            ..Self::default()
        }
    }

    /// The differences from the earlier state, as far as it was known.
    pub fn set_options(&mut self, options: &Value) -> Vec<AgentOption> {
        let options = choices(options);
        let old = std::mem::replace(&mut self.options, options.clone());
        let has_changed = |option: &AgentOption| {
            let known = old.iter().find(|known| known.id == option.id);
            known.is_some_and(|known| known.value != option.value)
        };
        options.into_iter().filter(has_changed).collect()
    }

    /// Takes over the values that an answer does not have but earlier updates had.
    pub fn remember(&mut self, past: Self) {
        self.title = past.title;
        self.commands = past.commands;
        self.tools = past.tools;
    }

    pub fn model(&self) -> Option<&AgentOption> {
        self.options.iter().find(|option| option.is_model)
    }
}

fn choices(options: &Value) -> Vec<AgentOption> {
    list(options).map(choice).collect()
}

fn choice(option: &Value) -> AgentOption {
    // Values come in groups, or not.
    let values = list(&option["options"]).flat_map(|value| match value["options"].as_array() {
        Some(group) => group.iter().collect(),
        None => vec![value],
    });
    let is_boolean = option["type"] == "boolean";
    AgentOption {
        id: text(&option["id"]),
        is_model: option["category"] == "model" || option["id"] == "model",
        is_boolean,
        value: match &option["currentValue"] {
            Value::String(value) => one_line(value),
            other => other.to_string(),
        },
        values: if is_boolean {
            vec!["true".into(), "false".into()]
        } else {
            values.map(|value| text(&value["value"])).collect()
        },
    }
}
