//! Modes and config options of a session as its agent tells them: in the answer that opened it, in
//! updates, and in the answers to changes.

use std::sync::LazyLock;

use baton_protocol::{UpdateKind, update};
use memchr::memmem::Finder;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::chosen_settings::SettingName;

/// A setting that agents may offer in two ways: by a method of its own, and as an option of a
/// category.
struct TwofoldSetting {
    category: &'static str,
    field: &'static str,
    current: &'static str,
    available: &'static str,
    id: &'static str,
}

const MODE: TwofoldSetting = TwofoldSetting {
    category: "mode",
    field: "modes",
    current: "currentModeId",
    available: "availableModes",
    id: "id",
};
const MODEL: TwofoldSetting = TwofoldSetting {
    category: "model",
    field: "models",
    current: "currentModelId",
    available: "availableModels",
    id: "modelId",
};

/// Updates without any of these change nothing here.
static WORDS: LazyLock<[Finder<'static>; 2]> =
    LazyLock::new(|| ["\"current_mode_update\"", "\"config_option_update\""].map(Finder::new));

/// The result of `session/new` and `session/load`, without the session's id.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SettingsView(Map<String, Value>);

/// Of modes or options.
fn update(message: &[u8]) -> Option<Value> {
    if !WORDS.iter().any(|word| word.find(message).is_some()) {
        return None;
    }
    let update: Value = update::read(message)?;
    let is_ours = matches!(
        update::kind_of(&update),
        UpdateKind::CurrentMode | UpdateKind::ConfigOption
    );
    is_ours.then_some(update)
}

impl SettingsView {
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

    /// Merges the result of opening the session again; fields that it leaves out stay.
    pub fn renew(&mut self, other: Self) -> bool {
        let before = self.clone();
        self.0
            .extend(other.0.into_iter().filter(|(_, value)| !value.is_null()));
        *self != before
    }

    /// Whether a message is an update of modes or options.
    pub fn is_about_one(message: &[u8]) -> bool {
        update(message).is_some()
    }

    /// Reads a `session/update`. True if it changed something.
    pub fn read(&mut self, message: &[u8]) -> bool {
        let Some(update) = update(message) else {
            return false;
        };
        match update::kind_of(&update) {
            UpdateKind::CurrentMode => self.set_mode(&update["currentModeId"]),
            UpdateKind::ConfigOption => self.set_options(&update["configOptions"]),
            _ => false,
        }
    }

    pub fn set_mode(&mut self, mode: &Value) -> bool {
        self.set_current(&MODE, mode)
    }

    pub fn set_model(&mut self, model: &Value) -> bool {
        self.set_current(&MODEL, model)
    }

    /// Agents tell of a change in one way, and mean both.
    fn set_current(&mut self, setting: &TwofoldSetting, id: &Value) -> bool {
        if !self.set_field(setting, id) {
            return false;
        }
        let options = self.options_mut();
        for option in
            options.filter(|option| option.get("category") == Some(&setting.category.into()))
        {
            if offers(option.get("options"), id) {
                option.insert("currentValue".into(), id.clone());
            }
        }
        true
    }

    fn set_field(&mut self, setting: &TwofoldSetting, id: &Value) -> bool {
        let fields = self.0.get_mut(setting.field).and_then(Value::as_object_mut);
        match fields {
            Some(fields) if id.is_string() && fields.get(setting.current) != Some(id) => {
                fields.insert(setting.current.into(), id.clone());
                true
            }
            _ => false,
        }
    }

    pub fn set_options(&mut self, options: &Value) -> bool {
        let differ = options.is_array() && self.0.get("configOptions") != Some(options);
        if differ {
            let before = [MODE, MODEL].map(|setting| self.option_of(&setting).cloned());
            self.0.insert("configOptions".into(), options.clone());
            for (setting, before) in [MODE, MODEL].iter().zip(before) {
                let now = self.option_of(setting).cloned();
                if let Some(now) = now.filter(|now| before.as_ref() != Some(now)) {
                    self.follow_option(setting, &now);
                }
            }
        }
        differ
    }

    /// The value of the first option of this category.
    fn option_of(&self, setting: &TwofoldSetting) -> Option<&Value> {
        let mut options = self.options();
        options
            .find(|option| option["category"] == setting.category)?
            .get("currentValue")
    }

    fn follow_option(&mut self, setting: &TwofoldSetting, value: &Value) {
        let field = self.0.get(setting.field);
        let available = field.and_then(|field| field[setting.available].as_array());
        let is_offered = available.is_some_and(|all| all.iter().any(|it| it[setting.id] == *value));
        if is_offered {
            self.set_field(setting, value);
        }
    }
}

/// Whether a select has this value, in a group or in none.
fn offers(options: Option<&Value>, value: &Value) -> bool {
    let options = options.and_then(Value::as_array).into_iter().flatten();
    options
        .into_iter()
        .any(|option| option["value"] == *value || offers(option.get("options"), value))
}

/// Reading and changing current values.
impl SettingsView {
    pub fn value(&self, what: &SettingName) -> Option<&Value> {
        match what {
            SettingName::Mode => self.0.get("modes")?.get("currentModeId"),
            SettingName::Model => self.0.get("models")?.get("currentModelId"),
            SettingName::Option(id) => self.option(id)?.get("currentValue"),
        }
    }

    pub fn current(&self) -> impl Iterator<Item = (SettingName, &Value)> {
        let options = self.options().filter_map(|option| option["id"].as_str());
        let options = options.map(|id| SettingName::Option(id.to_owned()));
        let all = [SettingName::Model, SettingName::Mode]
            .into_iter()
            .chain(options);
        all.filter_map(|what| {
            let value = self.value(&what)?;
            Some((what, value))
        })
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same choices, of which none is made.
    pub fn blank(&self) -> Self {
        let mut blank = self.clone();
        for (field, current) in [("modes", "currentModeId"), ("models", "currentModelId")] {
            if let Some(Value::Object(fields)) = blank.0.get_mut(field) {
                fields.remove(current);
            }
        }
        for option in blank.options_mut() {
            option.remove("currentValue");
        }
        blank
    }

    /// Takes values that this view lacks from `other`.
    pub fn fill_from(&mut self, other: &Self) {
        for (what, value) in other.current() {
            if self.value(&what).is_none() {
                self.note(&what, value);
            }
        }
    }

    /// Where there is such a choice.
    pub fn note(&mut self, what: &SettingName, value: &Value) {
        match what {
            SettingName::Mode => drop(self.set_mode(value)),
            SettingName::Model => drop(self.set_model(value)),
            SettingName::Option(id) => {
                let mut options = self.options_mut();
                let option = options.find(|option| option.get("id").is_some_and(|it| it == id));
                let Some(option) = option else { return };
                option.insert("currentValue".into(), value.clone());
                let category = option.get("category").cloned();
                drop(options);
                let twofold = [MODE, MODEL].into_iter();
                for setting in twofold.filter(|it| category == Some(it.category.into())) {
                    self.follow_option(&setting, value);
                }
            }
        }
    }

    /// False if the agent tells what it offers, and this is not among it.
    pub fn may_offer(&self, what: &SettingName) -> bool {
        match what {
            SettingName::Mode | SettingName::Model => true,
            SettingName::Option(id) => self.option(id).is_some() || self.options().next().is_none(),
        }
    }

    pub fn category(&self, id: &str) -> Option<&str> {
        self.option(id)?.get("category")?.as_str()
    }

    pub fn is_boolean(&self, id: &str) -> bool {
        self.option(id)
            .is_some_and(|option| option["type"] == "boolean")
    }

    /// The updates from `other` to this view.
    pub fn differences_to(&self, other: &Self) -> Vec<Value> {
        let mut updates = Vec::new();
        if let Some(mode) = self.value(&SettingName::Mode)
            && other.value(&SettingName::Mode) != Some(mode)
        {
            updates.push(json!({ "sessionUpdate": "current_mode_update", "currentModeId": mode }));
        }
        if let Some(options) = self.0.get("configOptions")
            && other.0.get("configOptions") != Some(options)
        {
            updates
                .push(json!({ "sessionUpdate": "config_option_update", "configOptions": options }));
        }
        updates
    }

    fn option(&self, id: &str) -> Option<&Value> {
        self.options().find(|option| option["id"] == id)
    }

    fn options_mut(&mut self) -> impl Iterator<Item = &mut Map<String, Value>> {
        let options = self.0.get_mut("configOptions");
        let options = options.and_then(Value::as_array_mut).into_iter().flatten();
        options.filter_map(Value::as_object_mut)
    }

    fn options(&self) -> impl Iterator<Item = &Value> {
        let options = self.0.get("configOptions").and_then(Value::as_array);
        options.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use baton_protocol::compose;

    use super::*;

    #[test]
    fn it_follows_what_the_agent_says() {
        let result = json!({
            "sessionId": "theirs",
            "modes": { "currentModeId": "ask", "availableModes": [] },
            "_meta": { "kept": 1 },
        });
        let mut view = SettingsView::of(&crate::agent::raw(&result));
        assert_eq!(view.to_value()["sessionId"], Value::Null);
        assert_eq!(view.to_value()["_meta"]["kept"], 1);
        let mode = json!({ "sessionUpdate": "current_mode_update", "currentModeId": "code" });
        let mode = compose::update("s", mode);
        assert!(view.read(&mode) && !view.read(&mode));
        assert_eq!(view.to_value()["modes"]["currentModeId"], "code");
        let options = json!({ "sessionUpdate": "config_option_update", "configOptions": [1] });
        assert!(view.read(&compose::update("s", options)));
        assert_eq!(view.to_value()["configOptions"], json!([1]));
        let text =
            json!({ "sessionUpdate": "agent_message_chunk", "content": "current_mode_update" });
        assert!(!view.read(&compose::update("s", text)));
    }

    /// As an agent that offers its mode in two ways, and tells of changes in one.
    fn twofold(mode: &str) -> SettingsView {
        let named = |id: &str| json!({ "id": id, "name": id });
        let values = [
            json!({ "value": "auto" }),
            json!({ "group": "safe", "options": [{ "value": "plan" }] }),
        ];
        SettingsView::from_value(json!({
            "modes": { "currentModeId": mode, "availableModes": [named("auto"), named("plan")] },
            "configOptions": [{ "id": "m", "category": "mode", "currentValue": mode, "options": values }],
        }))
    }

    #[test]
    fn a_mode_that_is_offered_in_two_ways_is_one() {
        let planned = twofold("plan");
        let mut view = twofold("auto");
        assert!(view.set_mode(&json!("plan")));
        assert_eq!(view, planned);
        let mut view = twofold("auto");
        assert!(view.set_options(&planned.to_value()["configOptions"]));
        assert_eq!(view, planned);
        let mut view = twofold("auto");
        view.note(&SettingName::Option("m".into()), &json!("plan"));
        assert_eq!(view, planned);
        assert!(view.differences_to(&planned).is_empty());
    }

    #[test]
    fn values_that_the_other_way_does_not_offer_stay_apart() {
        let mut view = twofold("auto");
        view.note(&SettingName::Option("m".into()), &json!("strict"));
        assert_eq!(view.value(&SettingName::Mode), Some(&json!("auto")));
        view.set_mode(&json!("other"));
        let option = view.value(&SettingName::Option("m".into()));
        assert_eq!(option, Some(&json!("strict")));
    }
}
