//! What an agent is told of its client when it starts: the capabilities, which it cannot be told
//! anew, and the client's name.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex};

use baton_protocol::{PROTOCOL_VERSION, meta};
use baton_session::command::ClientCapabilities;
use baton_session::id::ConnectionId;
use baton_session::store::{Result, Store};
use baton_session::sync::MutexExt as _;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::agent::AskingClient;
use crate::agent_policy::AgentPolicy;
use crate::store_retry::retry_while_unavailable;

/// Profiles that are remembered, a few KiB each.
const REMEMBERED: usize = 256;

/// Two are equal if an agent would be told the same.
#[derive(Clone, Debug)]
pub struct ClientProfile(Arc<ProfileText>);

#[derive(Debug, PartialEq, Eq, Hash)]
struct ProfileText {
    /// Without what is not there: the same for all who can do the same.
    abilities: String,
    /// As the client has said it.
    capabilities: String,
    info: String,
}

/// The client's own words, as the gateway has kept them.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClientDescription {
    client_capabilities: Value,
    client_info: Value,
}

impl PartialEq for ClientProfile {
    fn eq(&self, other: &Self) -> bool {
        self.0.abilities == other.0.abilities && self.0.info == other.0.info
    }
}

impl Eq for ClientProfile {}

impl Hash for ClientProfile {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.0.abilities, &self.0.info).hash(state);
    }
}

impl ClientProfile {
    /// A client that says no more than its token does.
    pub fn of_letters(client: ClientCapabilities) -> Self {
        let mut capabilities = json!({
            "fs": { "readTextFile": client.read_file, "writeTextFile": client.write_file },
            "terminal": client.terminal,
        });
        for (can, mode) in [
            (client.elicitation, "form"),
            (client.url_elicitation, "url"),
        ] {
            if can {
                capabilities["elicitation"][mode] = json!({});
            }
        }
        if client.boolean_options {
            capabilities["session"] = json!({ "configOptions": { "boolean": {} } });
        }
        Self::new(capabilities, info(&Value::Null))
    }

    /// A client with a terminal to log in with.
    pub fn with_terminal_logins() -> Self {
        let capabilities = json!({
            "fs": { "readTextFile": false, "writeTextFile": false },
            "terminal": false,
            "auth": { "terminal": true },
            "_meta": { "terminal-auth": true },
        });
        Self::new(capabilities, info(&Value::Null))
    }

    /// As the client has described itself, as far as the policy lets it pass.
    fn described(client: ClientCapabilities, description: &[u8], policy: &AgentPolicy) -> Self {
        let said = serde_json::from_slice::<ClientDescription>(description).unwrap_or_default();
        let info = info(&said.client_info);
        if said.client_capabilities.is_object() {
            return Self::new(policy.capabilities(said.client_capabilities), info);
        }
        let plain = Self::of_letters(client);
        let text = &plain.0;
        Self(Arc::new(ProfileText {
            abilities: text.abilities.clone(),
            capabilities: text.capabilities.clone(),
            info: info.to_string(),
        }))
    }

    fn new(capabilities: Value, info: Value) -> Self {
        let mut abilities = capabilities.clone();
        drop_absent(&mut abilities);
        Self(Arc::new(ProfileText {
            abilities: abilities.to_string(),
            capabilities: capabilities.to_string(),
            info: info.to_string(),
        }))
    }

    /// For a process that serves the clients of several sessions: nobody in particular.
    pub fn without_name(&self) -> Self {
        Self(Arc::new(ProfileText {
            abilities: self.0.abilities.clone(),
            capabilities: self.0.capabilities.clone(),
            info: info(&Value::Null).to_string(),
        }))
    }

    /// Whether an agent that was started for the other asks this one for nothing that it has not
    /// announced, and for all that it has.
    pub fn can_the_same(&self, other: &Self) -> bool {
        self.0.abilities == other.0.abilities
    }

    /// The params of `initialize`.
    pub fn introduction(&self) -> Value {
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
        json!({
            "protocolVersion": PROTOCOL_VERSION,
            "clientCapabilities": read(&self.0.capabilities),
            "clientInfo": read(&self.0.info),
        })
    }
}

/// The client's name, with Baton named beside it. Names are text for people: on one line.
fn info(said: &Value) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    let text = |field: &str| {
        let text = said[field].as_str().filter(|text| !text.is_empty())?;
        Some(text.replace(char::is_control, "\u{fffd}"))
    };
    let Some(name) = text("name") else {
        return json!({ "name": "baton", "title": "Baton", "version": version });
    };
    let mut info = json!({
        "name": name,
        "version": text("version").unwrap_or_else(|| "unknown".into()),
        "_meta": { meta::VIA: { "name": "baton", "title": "Baton", "version": version } },
    });
    if let Some(title) = text("title") {
        info["title"] = json!(title);
    }
    info
}

/// Removes what says that there is nothing: `false`, `null`, and objects with nothing else in them.
/// An object that was empty announces something.
fn drop_absent(value: &mut Value) {
    let Some(fields) = value.as_object_mut() else {
        return;
    };
    fields.retain(|name, value| {
        let was_empty = value.as_object().is_some_and(Map::is_empty);
        drop_absent(value);
        let is_empty = value.as_object().is_some_and(Map::is_empty);
        let announces = was_empty && !["fs", "auth"].contains(&name.as_str());
        !(value.is_null() || *value == false || (is_empty && !announces))
    });
}

/// The profiles of the last clients.
#[derive(Default)]
pub struct ClientProfiles(Mutex<VecDeque<(ConnectionId, ClientProfile)>>);

impl ClientProfiles {
    pub async fn of(
        &self,
        client: &AskingClient,
        store: &dyn Store,
        policy: &AgentPolicy,
    ) -> Result<ClientProfile> {
        let found = {
            let known = self.0.locked();
            let mut known = known.iter();
            known.find_map(|(id, profile)| (*id == client.connection).then(|| profile.clone()))
        };
        if let Some(profile) = found {
            return Ok(profile);
        }
        let read = || store.client_description(&client.connection);
        let described = retry_while_unavailable(read).await?;
        let profile = match described {
            Some(described) => ClientProfile::described(client.capabilities, &described, policy),
            None => ClientProfile::of_letters(client.capabilities),
        };
        let mut known = self.0.locked();
        if known.len() >= REMEMBERED {
            known.pop_front();
        }
        known.push_back((client.connection.clone(), profile.clone()));
        Ok(profile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent_policy::NamePattern;

    fn profile(capabilities: Value, info: Value, policy: &AgentPolicy) -> Value {
        let said = json!({ "clientCapabilities": capabilities, "clientInfo": info }).to_string();
        let client = ClientCapabilities::default();
        ClientProfile::described(client, said.as_bytes(), policy).introduction()
    }

    #[test]
    fn an_agent_is_told_what_its_client_said_as_far_as_the_policy_goes() {
        let capabilities = json!({
            "fs": { "readTextFile": true, "_meta": { "claudeCode": { "options": {} } } },
            "elicitation": { "url": {} },
            "auth": { "terminal": true, "_meta": { "gateway": true } },
            "positionEncodings": ["utf-8"],
            "backdoor": { "command": "x" },
            "_meta": {
                "terminal_output": true, "terminal-auth": { "command": "x" },
                "baton/bound": {}, "claudeCode": { "options": { "env": {} } },
            },
        });
        let told = profile(capabilities.clone(), json!({}), &AgentPolicy::default());
        let expected = json!({
            "fs": { "readTextFile": true },
            "elicitation": { "url": {} },
            "auth": { "terminal": true },
            "positionEncodings": ["utf-8"],
            "_meta": { "terminal_output": true },
        });
        assert_eq!(told["clientCapabilities"], expected);
        let allows = AgentPolicy {
            meta: vec!["gateway".parse::<NamePattern>().expect("a name")],
            ..AgentPolicy::default()
        };
        let told = profile(capabilities.clone(), json!({}), &allows);
        assert_eq!(told["clientCapabilities"]["auth"], capabilities["auth"]);
        let told = profile(capabilities, json!({}), &AgentPolicy::open());
        assert_eq!(told["clientCapabilities"]["backdoor"]["command"], "x");
        assert!(told["clientCapabilities"]["_meta"]["baton/bound"].is_null());
    }

    #[test]
    fn a_client_is_named_with_baton_beside_it() {
        let said = json!({ "name": "z\u{1b}ed\n", "title": "", "more": 1, "_meta": { "x": 1 } });
        let told = profile(json!({}), said, &AgentPolicy::default());
        let info = &told["clientInfo"];
        assert_eq!(info["name"], "z\u{fffd}ed\u{fffd}");
        assert_eq!(info["version"], "unknown");
        assert_eq!(info["_meta"]["baton/via"]["name"], "baton");
        assert!(info["title"].is_null() && info["more"].is_null() && info["_meta"]["x"].is_null());
        let told = profile(json!({}), json!(null), &AgentPolicy::default());
        assert_eq!(told["clientInfo"]["name"], "baton");
    }

    #[test]
    fn clients_that_can_the_same_are_the_same_however_they_say_it() {
        let of = |capabilities: Value, name: &str| {
            let said =
                json!({ "clientCapabilities": capabilities, "clientInfo": { "name": name } });
            let client = ClientCapabilities::default();
            let said = said.to_string();
            ClientProfile::described(client, said.as_bytes(), &AgentPolicy::default())
        };
        let nothing = of(json!({}), "a");
        for none in [
            json!({ "fs": { "readTextFile": false }, "terminal": false }),
            json!({ "fs": {}, "auth": { "terminal": false }, "elicitation": null }),
        ] {
            assert!(of(none.clone(), "b").can_the_same(&nothing), "{none}");
            assert_ne!(of(none, "b"), nothing);
        }
        let letters = ClientProfile::of_letters(ClientCapabilities::default());
        assert!(letters.can_the_same(&nothing));
        for some in [
            json!({ "fs": { "readTextFile": true } }),
            json!({ "elicitation": {} }),
            json!({ "elicitation": { "form": {} } }),
            json!({ "_meta": { "terminal_output": true } }),
        ] {
            assert!(!of(some.clone(), "a").can_the_same(&nothing), "{some}");
        }
    }
}
