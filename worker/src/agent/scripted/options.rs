//! The agent's modes and config options, one of each shape.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::agent::Failure;

const MODES: [(&str, &str); 3] = [("ask", "Ask"), ("code", "Code"), ("architect", "Architect")];
const MODELS: [(&str, &str, &str); 3] = [
    ("small", "Small", "fast"),
    ("medium", "Medium", "fast"),
    ("large", "Large", "thorough"),
];
const TONES: [(&str, &str); 2] = [("plain", "Plain"), ("formal", "Formal")];

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct ScriptedOptions {
    mode: String,
    model: String,
    tone: String,
    verbose: bool,
}

impl Default for ScriptedOptions {
    fn default() -> Self {
        Self {
            mode: "code".into(),
            model: "small".into(),
            tone: "plain".into(),
            verbose: false,
        }
    }
}

impl ScriptedOptions {
    /// Modes and config options as `session/new` answers them.
    pub fn view(&self) -> Value {
        let modes = MODES.map(|(id, name)| json!({ "id": id, "name": name }));
        json!({
            "modes": { "currentModeId": self.mode, "availableModes": modes },
            "configOptions": self.list(),
        })
    }

    fn list(&self) -> Value {
        let option = |id: &str, name: &str| json!({ "value": id, "name": name });
        let group = |group: &str| {
            let members = MODELS.iter().filter(|(_, _, of)| *of == group);
            let options: Vec<_> = members.map(|(id, name, _)| option(id, name)).collect();
            json!({ "group": group, "name": group, "options": options })
        };
        json!([
            {
                "id": "model", "name": "Model", "category": "model", "type": "select",
                "currentValue": self.model, "options": [group("fast"), group("thorough")],
            },
            {
                "id": "tone", "name": "Tone", "type": "select",
                "currentValue": self.tone, "options": TONES.map(|(id, name)| option(id, name)),
            },
            { "id": "verbose", "name": "Verbose", "type": "boolean", "currentValue": self.verbose },
        ])
    }

    /// Makes a change that was announced before.
    pub fn recall(&mut self, update: &Value) {
        if let Some(mode) = update["currentModeId"].as_str() {
            let _ = self.set_mode(mode);
        }
        for option in update["configOptions"].as_array().into_iter().flatten() {
            let id = option["id"].as_str().unwrap_or_default();
            let _ = self.set(id, &option["currentValue"]);
        }
    }

    /// Returns the update that announces the change.
    pub fn set_mode(&mut self, mode: &str) -> Result<Value, Failure> {
        self.mode = one_of("modeId", mode, MODES.iter().map(|(id, _)| *id))?;
        Ok(json!({ "sessionUpdate": "current_mode_update", "currentModeId": self.mode }))
    }

    /// Returns the update that announces the change.
    pub fn set(&mut self, id: &str, value: &Value) -> Result<Value, Failure> {
        let text = value.as_str().unwrap_or_default();
        match id {
            "model" => self.model = one_of("value", text, MODELS.iter().map(|(id, ..)| *id))?,
            "tone" => self.tone = one_of("value", text, TONES.iter().map(|(id, _)| *id))?,
            "verbose" => {
                let wrong =
                    || Failure::invalid_params("value of option \"verbose\" must be true or false");
                self.verbose = value.as_bool().or(text.parse().ok()).ok_or_else(wrong)?;
            }
            _ => {
                let known = ["model", "tone", "verbose"];
                return one_of("configId", id, known.into_iter()).map(|_| Value::Null);
            }
        }
        Ok(json!({ "sessionUpdate": "config_option_update", "configOptions": self.list() }))
    }
}

fn one_of<'a>(
    field: &str,
    value: &str,
    valid: impl Iterator<Item = &'a str> + Clone,
) -> Result<String, Failure> {
    if valid.clone().any(|known| known == value) {
        return Ok(value.to_owned());
    }
    let valid = valid.collect::<Vec<_>>().join(", ");
    Err(Failure::invalid_params(format!(
        "{field} {value:?} is not known; valid: {valid}"
    )))
}
