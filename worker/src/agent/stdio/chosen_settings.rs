//! The settings chosen for a session: mode, model and options, by a client or by the agent itself
//! while it worked. A process begins with its own defaults, so each new one gets these set again
//! before it gets a prompt.

use std::collections::VecDeque;

use baton_protocol::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::settings_view::SettingsView;

/// Options may depend on each other: so often what is not yet as it was chosen is set again.
const ROUNDS: usize = 3;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChosenSetting {
    pub what: SettingName,
    pub value: Value,
    /// Of an option, as the agent has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    category: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SettingName {
    Mode,
    Model,
    Option(String),
}

impl ChosenSetting {
    fn new(what: SettingName, value: Value, view: &SettingsView) -> Self {
        let category = match &what {
            SettingName::Option(id) => view.category(id),
            SettingName::Mode | SettingName::Model => None,
        };
        let category = category.map(str::to_owned);
        Self {
            what,
            value,
            category,
        }
    }

    /// Agents may offer the same in two ways.
    fn concerns_the_same(&self, other: &Self) -> bool {
        let has_own_method = |it: &Self| matches!(it.what, SettingName::Mode | SettingName::Model);
        let other_way = has_own_method(self) || has_own_method(other);
        self.what == other.what || other_way && self.kind() == other.kind()
    }

    fn kind(&self) -> Option<&str> {
        match &self.what {
            SettingName::Mode => Some("mode"),
            SettingName::Model => Some("model"),
            SettingName::Option(_) => self.category.as_deref(),
        }
    }

    /// Whether it is the session's mode, by whichever name.
    pub fn is_mode(&self) -> bool {
        self.kind() == Some("mode")
    }

    /// Whether an agent without it may do more than the user wanted. Options without a category
    /// count as such.
    pub fn restricts(&self) -> bool {
        !matches!(self.kind(), Some("model" | "thought_level"))
    }

    /// How a client would ask for it.
    pub fn request(&self, view: &SettingsView) -> (Method, Value) {
        let value = &self.value;
        match &self.what {
            SettingName::Mode => (Method::SetMode, json!({ "sessionId": "", "modeId": value })),
            SettingName::Model => (
                Method::SetModel,
                json!({ "sessionId": "", "modelId": value }),
            ),
            SettingName::Option(id) => {
                let mut params = json!({ "sessionId": "", "configId": id, "value": value });
                if value.is_boolean() || view.is_boolean(id) {
                    params["type"] = json!("boolean");
                }
                (Method::SetConfigOption, params)
            }
        }
    }

    /// For people.
    pub fn describe(&self) -> String {
        let value = match &self.value {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        match &self.what {
            SettingName::Mode => format!("mode \"{value}\""),
            SettingName::Model => format!("model \"{value}\""),
            SettingName::Option(id) => format!("option \"{id}\" = \"{value}\""),
        }
    }
}

/// In the order in which they were made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChosenSettings(Vec<ChosenSetting>);

impl ChosenSettings {
    /// All that a view shows, of a session whose choices were not kept: what its clients believe to
    /// be so.
    pub fn shown(view: &SettingsView) -> Self {
        let mut choices = Self::default();
        for (what, value) in view.current() {
            choices.choose(what, value.clone(), view);
        }
        choices
    }

    pub fn choose(&mut self, what: SettingName, value: Value, view: &SettingsView) {
        let choice = ChosenSetting::new(what, value, view);
        self.0.retain(|other| !other.concerns_the_same(&choice));
        self.0.push(choice);
        self.drop_unoffered(view);
    }

    /// An option that the agent does not offer any more, as with another model, cannot be chosen
    /// otherwise either.
    pub fn drop_unoffered(&mut self, view: &SettingsView) {
        self.0.retain(|choice| view.may_offer(&choice.what));
    }

    /// Differences from one view to the next count as chosen, too, by the agent or as a
    /// consequence. Settings that did not exist before begin with the agent's default.
    pub fn record_changes(&mut self, before: &SettingsView, after: &SettingsView) {
        for (what, value) in after.current() {
            if before.value(&what).is_some_and(|before| before != value) {
                self.choose(what, value.clone(), after);
            }
        }
        self.drop_unoffered(after);
    }

    /// Another choice has taken its place.
    pub fn has_replaced(&self, choice: &ChosenSetting) -> bool {
        !self.0.contains(choice)
    }

    /// Settings that differ from the chosen ones.
    pub fn missing_in(&self, view: &SettingsView) -> Vec<ChosenSetting> {
        let differs = |choice: &&ChosenSetting| view.value(&choice.what) != Some(&choice.value);
        self.0.iter().filter(differs).cloned().collect()
    }

    /// The agent cannot do it any more: it is as the agent has it.
    pub fn forget(&mut self, choice: &ChosenSetting) {
        self.0.retain(|other| other != choice);
    }
}

/// The settings to restore, one after the other, in as many rounds as help.
pub struct SettingsRestore<'a> {
    choices: &'a ChosenSettings,
    rounds: usize,
    /// The settings that were missing when this round began, and those of them that are left to
    /// set.
    round: Vec<ChosenSetting>,
    left: VecDeque<ChosenSetting>,
}

impl<'a> SettingsRestore<'a> {
    pub fn new(choices: &'a ChosenSettings) -> Self {
        Self {
            choices,
            rounds: 0,
            round: Vec::new(),
            left: VecDeque::new(),
        }
    }

    /// `view` is as the agent has it by now.
    pub fn next(&mut self, view: &SettingsView) -> Option<ChosenSetting> {
        if self.left.is_empty() {
            let missing = self.choices.missing_in(view);
            if self.rounds == ROUNDS || missing == self.round {
                return None;
            }
            self.rounds += 1;
            self.left = missing.clone().into();
            self.round = missing;
        }
        self.left.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(mode: &str, model: &str, effort: &str) -> SettingsView {
        SettingsView::from_value(json!({
            "modes": { "currentModeId": mode, "availableModes": [] },
            "configOptions": [
                { "id": "m", "category": "model", "currentValue": model },
                { "id": "effort", "category": "thought_level", "currentValue": effort },
                { "id": "approval", "category": "mode", "currentValue": mode },
            ],
        }))
    }

    fn told(choices: &[ChosenSetting]) -> Vec<String> {
        choices.iter().map(ChosenSetting::describe).collect()
    }

    #[test]
    fn the_last_choice_of_a_kind_counts() {
        let now = view("ask", "small", "low");
        let mut choices = ChosenSettings::default();
        choices.choose(SettingName::Option("approval".into()), json!("auto"), &now);
        choices.choose(SettingName::Option("effort".into()), json!("high"), &now);
        choices.choose(SettingName::Mode, json!("plan"), &now);
        let missing = choices.missing_in(&now);
        assert_eq!(
            told(&missing),
            ["option \"effort\" = \"high\"", "mode \"plan\""]
        );
        assert_eq!(
            missing
                .iter()
                .map(ChosenSetting::restricts)
                .collect::<Vec<_>>(),
            [false, true]
        );
        // The agent changes it by itself.
        choices.record_changes(&now, &view("code", "small", "low"));
        assert_eq!(choices.missing_in(&view("code", "small", "high")), []);
        choices.choose(SettingName::Model, json!("large"), &now);
        choices.choose(SettingName::Option("m".into()), json!("small"), &now);
        assert!(
            choices
                .missing_in(&view("code", "small", "high"))
                .is_empty()
        );
    }

    #[test]
    fn options_of_one_category_are_chosen_apart() {
        let option = |id: &str| json!({ "id": id, "category": "_safety", "currentValue": "off" });
        let view = SettingsView::from_value(json!({ "configOptions": [option("a"), option("b")] }));
        let mut choices = ChosenSettings::default();
        choices.choose(SettingName::Option("a".into()), json!("on"), &view);
        choices.choose(SettingName::Option("b".into()), json!("on"), &view);
        assert_eq!(choices.missing_in(&view).len(), 2);
        // With another model there is no such option, and nobody could choose otherwise.
        let fewer = SettingsView::from_value(json!({ "configOptions": [option("b")] }));
        choices.record_changes(&view, &fewer);
        assert_eq!(told(&choices.missing_in(&fewer)), ["option \"b\" = \"on\""]);
    }

    #[test]
    fn what_nobody_knows_about_guards() {
        let view = SettingsView::from_value(
            json!({ "configOptions": [{ "id": "x", "currentValue": true }] }),
        );
        let choices = ChosenSettings::shown(&view);
        let missing = choices.missing_in(&SettingsView::default());
        assert_eq!(told(&missing), ["option \"x\" = \"true\""]);
        assert!(missing[0].restricts());
        let (method, params) = missing[0].request(&SettingsView::default());
        assert_eq!(method, Method::SetConfigOption);
        assert_eq!(params["type"], "boolean");
    }

    #[test]
    fn options_that_depend_on_each_other_are_set_until_all_are_as_chosen() {
        let chosen = ChosenSettings::shown(&view("plan", "large", "high"));
        let mut now = view("ask", "small", "low");
        let mut restoring = SettingsRestore::new(&chosen);
        while let Some(choice) = restoring.next(&now) {
            let of = |what: &str| {
                let value = now.value(&SettingName::Option(what.into()));
                value.unwrap().as_str().unwrap().to_owned()
            };
            let (mode, model, effort) = (of("approval"), of("m"), of("effort"));
            let value = choice.value.as_str().unwrap();
            // Another model begins with little effort; modes have two names.
            now = match &choice.what {
                SettingName::Option(id) if id == "m" => view(&mode, value, "low"),
                SettingName::Option(id) if id == "effort" => view(&mode, &model, value),
                _ => view(value, &model, &effort),
            };
        }
        assert_eq!(now, view("plan", "large", "high"));
    }

    #[test]
    fn an_agent_that_refuses_is_not_asked_for_ever() {
        let chosen = ChosenSettings::shown(&view("plan", "large", "high"));
        let now = view("ask", "large", "high");
        let mut restoring = SettingsRestore::new(&chosen);
        let asked: Vec<ChosenSetting> = std::iter::from_fn(|| restoring.next(&now)).collect();
        assert_eq!(told(&asked), ["option \"approval\" = \"plan\""]);
        assert_eq!(chosen.missing_in(&now), asked);
    }
}
