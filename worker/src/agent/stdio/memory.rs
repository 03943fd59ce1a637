//! The state that the worker stores for a session beside its log: the agent's session id, the modes
//! and options that clients see, and the chosen ones.

use baton_protocol::limits::MAX_VIEW;
use baton_session::command::ClientCapabilities;
use baton_session::id::ConnectionId;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::agent_session::RestoredSettings;
use super::chosen_settings::{ChosenSetting, ChosenSettings, SettingName};
use super::failures;
use super::settings_view::SettingsView;
use crate::agent::{AskingClient, ConversationChanges, SessionOpening};
use crate::rpc::Failure;

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionMemory {
    /// The session that this state belongs to: a fork inherits its parent's.
    session: String,
    /// The agent's name for the session.
    pub agent_session: Option<String>,
    view: Value,
    /// The part of the view that was chosen. Builds before this one did not keep it: then all of
    /// the view counts.
    #[serde(default)]
    chosen: Option<ChosenSettings>,
    /// The choices that the agent refused when it was started last, and without which it may do
    /// more.
    #[serde(default)]
    refused: Vec<ChosenSetting>,
    /// The client that sent the last prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    controller: Option<SavedClient>,
    #[serde(skip)]
    unsaved: bool,
    /// The log says already that the agent shows too much.
    #[serde(skip)]
    warned: bool,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SavedClient {
    connection: ConnectionId,
    /// Of its capabilities.
    letters: String,
}

impl SessionMemory {
    pub fn read(opening: &SessionOpening) -> Self {
        let mut memory: Self = serde_json::from_slice(&opening.state).unwrap_or_default();
        if memory.session != opening.session.as_str() {
            // The agent's own session is the parent's. The fork gets another.
            memory.agent_session = None;
            memory.controller = None;
            memory.session = opening.session.to_string();
        }
        memory
    }

    pub fn controller(&self) -> Option<AskingClient> {
        let SavedClient {
            connection,
            letters,
        } = self.controller.as_ref()?;
        Some(AskingClient {
            connection: connection.clone(),
            capabilities: ClientCapabilities::from_letters(letters),
        })
    }

    pub fn set_controller(&mut self, client: &AskingClient) {
        let client = SavedClient {
            connection: client.connection.clone(),
            letters: client.capabilities.letters(),
        };
        if self.controller.as_ref() != Some(&client) {
            self.controller = Some(client);
            self.unsaved = true;
        }
    }

    /// The modes and options that clients are shown.
    pub fn shown(&self) -> SettingsView {
        SettingsView::from_value(self.view.clone())
    }

    pub fn chosen(&self) -> ChosenSettings {
        let chosen = self.chosen.clone();
        chosen.unwrap_or_else(|| ChosenSettings::shown(&self.shown()))
    }

    /// Why no turn may run: the agent refused a choice, and may do more without it.
    pub fn withheld(&self) -> Option<Failure> {
        let refused: Vec<String> = self.refused.iter().map(ChosenSetting::describe).collect();
        (!refused.is_empty()).then(|| failures::withheld(&refused))
    }

    /// Takes note of how the session was opened. Returns the updates that tell clients what is
    /// other than they were shown.
    pub fn opened(
        &mut self,
        agent_session: &str,
        shown: &SettingsView,
        settled: RestoredSettings,
    ) -> Vec<Value> {
        let RestoredSettings { view, refused } = settled;
        if self.agent_session.as_deref() != Some(agent_session) {
            self.agent_session = Some(agent_session.to_owned());
            self.unsaved = true;
        }
        let mut chosen = self.chosen();
        // Builds before this one kept what was shown: of that only the mode was surely wanted.
        let was_chosen = self.chosen.is_some();
        let guards =
            |choice: &ChosenSetting| choice.restricts() && (was_chosen || choice.is_mode());
        let (refused, given_up): (Vec<_>, Vec<_>) = refused.into_iter().partition(guards);
        given_up.iter().for_each(|choice| chosen.forget(choice));
        if self.chosen.as_ref() != Some(&chosen) || self.refused != refused {
            self.chosen = Some(chosen);
            self.refused = refused;
            self.unsaved = true;
        }
        // A new session's client gets the view in its answer.
        let updates = if shown.is_empty() {
            Vec::new()
        } else {
            view.differences_to(shown)
        };
        self.replace_view(|known| known.renew(view));
        updates
    }

    /// The client has asked for this mode, and the agent has taken it. True if clients have to be
    /// told.
    pub fn set_mode(&mut self, mode: &Value) -> bool {
        let changed = self.change_view(|view| view.set_mode(mode));
        self.choose(|choices, view| choices.choose(SettingName::Mode, mode.clone(), view));
        changed
    }

    pub fn set_model(&mut self, model: &Value) {
        self.change_view(|view| view.set_model(model));
        self.choose(|choices, view| choices.choose(SettingName::Model, model.clone(), view));
    }

    /// `asked` are the params of the request, `options` is the agent's answer. True if clients have
    /// to be told.
    pub fn set_option(&mut self, asked: &Value, options: &Value) -> bool {
        let changed = self.change_view(|view| view.set_options(options));
        if let Some(id) = asked["configId"].as_str() {
            let what = SettingName::Option(id.to_owned());
            self.choose(|choices, view| {
                // The agent may have made something else of the value.
                let value = view.value(&what).unwrap_or(&asked["value"]).clone();
                choices.choose(what, value, view);
            });
        }
        changed
    }

    /// Changes the view. Changes by the agent count as chosen.
    pub fn change_view(&mut self, change: impl FnOnce(&mut SettingsView) -> bool) -> bool {
        let before = self.shown();
        let changed = self.replace_view(change);
        if changed {
            self.choose(|choices, now| choices.record_changes(&before, now));
        }
        changed
    }

    fn choose(&mut self, choose: impl FnOnce(&mut ChosenSettings, &SettingsView)) {
        let (view, mut chosen) = (self.shown(), self.chosen());
        choose(&mut chosen, &view);
        let is_so = |choice: &ChosenSetting| view.value(&choice.what) == Some(&choice.value);
        self.refused
            .retain(|choice| !chosen.has_replaced(choice) && !is_so(choice));
        self.chosen = Some(chosen);
        self.unsaved = true;
    }

    fn replace_view(&mut self, change: impl FnOnce(&mut SettingsView) -> bool) -> bool {
        let mut view = self.shown();
        if !change(&mut view) {
            return false;
        }
        let view = view.to_value();
        let (length, most) = (view.to_string().len(), MAX_VIEW);
        if length > most {
            // An agent may try as often as it likes.
            if !std::mem::replace(&mut self.warned, true) {
                tracing::warn!(
                    session.id = self.session,
                    length,
                    most,
                    "the agent's modes and options are too long: keeping the previous ones"
                );
            }
            return false;
        }
        self.view = view;
        self.unsaved = true;
        true
    }

    pub fn view_text(&self) -> Bytes {
        self.shown().to_value().to_string().into()
    }

    /// Returns the state that the store does not have yet.
    pub fn take_changes(&mut self) -> ConversationChanges {
        if !std::mem::take(&mut self.unsaved) {
            return ConversationChanges::default();
        }
        let state = serde_json::to_vec(&*self).expect("plain data encodes");
        ConversationChanges {
            state: Some(state.into()),
            view: Some(self.view_text()),
        }
    }
}
