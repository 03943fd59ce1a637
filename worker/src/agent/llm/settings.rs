//! The choices for a session: mode, model and reasoning effort, and the permissions that were
//! given for good. It is the state of the conversation.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::agent::Failure;

/// Limits what the agent does without asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentMode {
    Ask,
    #[default]
    Code,
    Architect,
}

const MODES: [(AgentMode, &str, &str, &str); 3] = [
    (
        AgentMode::Ask,
        "ask",
        "Ask",
        "Asks before it changes anything",
    ),
    (
        AgentMode::Code,
        "code",
        "Code",
        "Writes files; asks before it runs commands, and before tools that may change something",
    ),
    (AgentMode::Architect, "architect", "Architect", "Only reads"),
];
/// The first leaves it to the model.
const EFFORTS: [(&str, &str); 4] = [
    ("default", "Default"),
    ("low", "Low"),
    ("medium", "Medium"),
    ("high", "High"),
];
/// More tools than this are not remembered: then the first ones are asked about again.
const MOST_REMEMBERED: usize = 256;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LlmSettings {
    pub mode: AgentMode,
    pub model: String,
    effort: String,
    /// Tools that were allowed or rejected for good.
    #[serde(default)]
    always: BTreeMap<String, bool>,
    /// The session has a title.
    #[serde(default)]
    pub titled: bool,
    /// Clients know the commands.
    #[serde(default)]
    pub commands_said: bool,
    /// Commands that are prompts of MCP servers, as clients know them.
    #[serde(default)]
    pub prompts_said: Vec<String>,
    /// As the operator has configured them.
    #[serde(skip)]
    models: Vec<ModelChoice>,
}

/// A model, as clients choose it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelChoice {
    pub id: String,
    pub title: String,
}

#[cfg(test)]
impl ModelChoice {
    pub fn named(id: &str) -> Self {
        let id = id.to_owned();
        Self {
            title: id.clone(),
            id,
        }
    }
}

impl LlmSettings {
    /// Of a new session.
    pub fn new(models: &[ModelChoice]) -> Self {
        Self {
            mode: AgentMode::default(),
            model: first(models),
            effort: EFFORTS[0].0.into(),
            always: BTreeMap::new(),
            titled: false,
            commands_said: false,
            prompts_said: Vec::new(),
            models: models.to_vec(),
        }
    }

    /// As an earlier worker has left them. A model that is not configured any more is replaced.
    pub fn read(state: &[u8], models: &[ModelChoice]) -> Result<Self, Failure> {
        let read: Result<Self, _> = serde_json::from_slice(state);
        let mut settings = read.map_err(|error| {
            Failure::internal(format!("the session's state cannot be read: {error}"))
        })?;
        settings.models = models.to_vec();
        if !models.iter().any(|model| model.id == settings.model) {
            settings.model = first(models);
        }
        Ok(settings)
    }

    /// With what clients have been told since, by the log.
    pub fn told_as(self, log: &Self) -> Self {
        Self {
            titled: self.titled || log.titled,
            commands_said: self.commands_said || log.commands_said,
            ..self
        }
    }

    /// Modes and config options as `session/new` answers them.
    pub fn view(&self) -> Value {
        let modes = MODES.map(|(_, id, name, description)| {
            json!({ "id": id, "name": name, "description": description })
        });
        json!({
            "modes": { "currentModeId": self.mode_id(), "availableModes": modes },
            "configOptions": self.options(),
        })
    }

    fn mode_id(&self) -> &'static str {
        let mut modes = MODES.iter();
        let mode = modes.find(|(mode, ..)| *mode == self.mode);
        mode.map_or("", |(_, id, ..)| id)
    }

    pub fn options(&self) -> Value {
        let models = self.models.iter();
        let models: Vec<_> = models
            .map(|model| json!({ "value": model.id, "name": model.title }))
            .collect();
        let efforts = EFFORTS.map(|(id, name)| json!({ "value": id, "name": name }));
        json!([
            {
                "id": "model", "name": "Model", "category": "model", "type": "select",
                "currentValue": self.model, "options": models,
            },
            {
                "id": "effort", "name": "Reasoning effort", "category": "thought_level",
                "type": "select", "currentValue": self.effort, "options": efforts,
            },
        ])
    }

    /// As the endpoint is told it.
    pub fn reasoning_effort(&self) -> Option<String> {
        (self.effort != EFFORTS[0].0).then(|| self.effort.clone())
    }

    pub fn models(&self) -> impl Iterator<Item = &str> {
        self.models.iter().map(|model| model.id.as_str())
    }

    /// Makes a change that was announced before.
    pub fn recall(&mut self, mode: Option<&str>, options: Option<&Value>) {
        if let Some(mode) = mode {
            let _ = self.set_mode(mode);
        }
        for option in options.and_then(Value::as_array).into_iter().flatten() {
            let id = option["id"].as_str().unwrap_or_default();
            let _ = self.set(id, &option["currentValue"]);
        }
    }

    /// Returns the update that announces the change.
    pub fn set_mode(&mut self, mode: &str) -> Result<Value, Failure> {
        let found = MODES.iter().find(|(_, id, ..)| *id == mode);
        let known = || MODES.iter().map(|(_, id, ..)| *id);
        let (mode, ..) = found.ok_or_else(|| unknown("modeId", mode, known()))?;
        self.mode = *mode;
        Ok(json!({ "sessionUpdate": "current_mode_update", "currentModeId": self.mode_id() }))
    }

    /// Returns the update that announces the change.
    pub fn set(&mut self, id: &str, value: &Value) -> Result<Value, Failure> {
        let text = value.as_str().unwrap_or_default();
        match id {
            "model" if self.models().any(|model| model == text) => self.model = text.into(),
            "model" => {
                return Err(unknown("model", text, self.models()));
            }
            "effort" if EFFORTS.iter().any(|(id, _)| *id == text) => self.effort = text.into(),
            "effort" => return Err(unknown("effort", text, EFFORTS.iter().map(|(id, _)| *id))),
            _ => return Err(unknown("configId", id, ["model", "effort"].into_iter())),
        }
        Ok(json!({ "sessionUpdate": "config_option_update", "configOptions": self.options() }))
    }

    /// Whether the user has allowed or rejected this tool for good.
    pub fn decided(&self, tool: &str) -> Option<bool> {
        self.always.get(tool).copied()
    }

    pub fn decide(&mut self, tool: &str, allowed: bool) {
        if self.always.len() < MOST_REMEMBERED || self.always.contains_key(tool) {
            self.always.insert(tool.to_owned(), allowed);
        }
    }
}

fn first(models: &[ModelChoice]) -> String {
    let first = models.first().map(|model| model.id.clone());
    first.unwrap_or_default()
}

fn unknown<'a>(field: &str, value: &str, known: impl Iterator<Item = &'a str>) -> Failure {
    let known: Vec<&str> = known.collect();
    let value: String = value.chars().take(100).collect();
    let known = known.join(", ");
    Failure::invalid_params(format!("{field} {value:?} is not known; valid: {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models() -> Vec<ModelChoice> {
        ["small", "large"].map(ModelChoice::named).to_vec()
    }

    #[test]
    fn choices_are_kept_as_far_as_they_are_still_possible() {
        let mut settings = LlmSettings::new(&models());
        settings.set_mode("architect").unwrap();
        settings.set("model", &json!("large")).unwrap();
        settings.set("effort", &json!("high")).unwrap();
        settings.decide("run_command", true);
        let state = serde_json::to_vec(&settings).unwrap();
        let read = LlmSettings::read(&state, &models()).unwrap();
        assert_eq!(
            (read.mode, read.model.as_str()),
            (AgentMode::Architect, "large")
        );
        assert_eq!(read.reasoning_effort().as_deref(), Some("high"));
        assert_eq!(read.decided("run_command"), Some(true));
        let read = LlmSettings::read(&state, &models()[..1]).unwrap();
        assert_eq!(read.model, "small");
    }

    #[test]
    fn unknown_choices_are_refused_with_the_known_ones() {
        let mut settings = LlmSettings::new(&models());
        let refused = settings.set("model", &json!("huge")).unwrap_err();
        assert!(refused.message.contains("valid: small, large"), "{refused}");
        let refused = settings.set_mode("yolo").unwrap_err();
        assert!(
            refused.message.contains("ask, code, architect"),
            "{refused}"
        );
        assert!(settings.set("tone", &json!("x")).is_err());
    }

    #[test]
    fn a_session_remembers_only_so_many_decisions() {
        let mut settings = LlmSettings::new(&models());
        for number in 0..10 * MOST_REMEMBERED {
            settings.decide(&format!("tool-{number}"), true);
        }
        assert_eq!(settings.always.len(), MOST_REMEMBERED);
    }
}
