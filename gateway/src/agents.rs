//! Which agent a request is about: the one that its path names, `/acp/NAME`, or at `/acp` the
//! connection's. That is settled by `initialize` and written into the connection's token, so every
//! gateway knows it. A session stays with the agent it was made for, whatever path later requests
//! take.

use std::sync::Arc;

use baton_protocol::limits::echo;
use baton_protocol::meta;
use baton_session::id::SessionId;
use baton_session::store::{self, AgentCard, Store};
use serde_json::{Value, json};

use self::session_agents::SessionAgents;
use crate::auth::CallerRights;
use crate::http::paths;

mod session_agents;

/// The default where none is configured, if there is one such.
const BUILT_IN: &str = "scripted";

/// All agents that workers have registered, and the agents of sessions.
pub struct AgentCatalog {
    store: Arc<dyn Store>,
    default: Option<String>,
    session_agents: SessionAgents,
}

/// The agents that a caller may use, and the default for requests that name none. An agent that the
/// caller may not use looks as if no worker had registered it.
pub struct AgentDirectory {
    /// By name, with the number of workers alive.
    pub agents: Vec<(AgentCard, usize)>,
    default: Option<String>,
}

impl AgentCatalog {
    /// `default`: the agent of requests that name none.
    pub fn new(store: Arc<dyn Store>, default: Option<String>) -> Self {
        Self {
            store,
            default,
            session_agents: SessionAgents::default(),
        }
    }

    /// As far as these rights allow their use.
    pub async fn directory(&self, rights: &CallerRights) -> store::Result<AgentDirectory> {
        let mut agents = self.store.agents().await?;
        agents.retain(|(card, _)| rights.allow(&card.name));
        Ok(AgentDirectory {
            agents,
            default: self.default.clone(),
        })
    }

    /// Whether somebody with these rights may use a session of the principal, as far as its agent
    /// is concerned.
    pub async fn may_use(
        &self,
        rights: &CallerRights,
        session: &SessionId,
        principal: &str,
    ) -> store::Result<bool> {
        if !rights.are_about_agents() {
            return Ok(true);
        }
        if let Some(agent) = self.session_agents.get(session) {
            return Ok(rights.allow(&agent));
        }
        let Some(record) = self.store.record(session, principal).await? else {
            return Ok(false);
        };
        let agent: Arc<str> = record.agent.into();
        self.session_agents.put(session, agent.clone());
        Ok(rights.allow(&agent))
    }
}

/// There is no such agent; says which there are.
pub struct MissingAgent(pub String);

impl AgentDirectory {
    pub fn choose(&self, named: Option<&str>) -> Result<&AgentCard, MissingAgent> {
        let found = match named {
            Some(name) => self.find(name),
            None => self.default(),
        };
        found.ok_or_else(|| self.missing(named))
    }

    pub fn is_default(&self, card: &AgentCard) -> bool {
        self.default()
            .is_some_and(|default| default.name == card.name)
    }

    /// The same on every gateway, in whatever order workers registered.
    fn default(&self) -> Option<&AgentCard> {
        match &self.default {
            Some(name) => self.find(name),
            None => {
                let first = || self.agents.first().map(|(card, _)| card);
                self.find(BUILT_IN).or_else(first)
            }
        }
    }

    fn find(&self, name: &str) -> Option<&AgentCard> {
        let mut cards = self.agents.iter().map(|(card, _)| card);
        cards.find(|card| card.name == name)
    }

    fn missing(&self, named: Option<&str>) -> MissingAgent {
        let wanted = match named.or(self.default.as_deref()) {
            Some(name) => format!("the agent {}", echo(name)),
            None => "an agent".into(),
        };
        let names = self.agents.iter().map(|(card, _)| path_of(card));
        let names: Vec<String> = names.collect();
        MissingAgent(if names.is_empty() {
            format!("no worker has registered {wanted} yet: start one with `baton worker`")
        } else {
            format!(
                "no worker has registered {wanted}: use one of {}, or start a worker with \
                 --agent-name",
                names.join(", ")
            )
        })
    }
}

pub fn path_of(card: &AgentCard) -> String {
    format!("{}/{}", paths::ACP, card.name)
}

/// Whether callers log in at the agent, each for itself.
pub fn takes_logins(card: &AgentCard) -> bool {
    card.initialize["_meta"][meta::LOGINS].is_object()
}

/// The agent's own answer to `initialize`, with what Baton adds to any agent. `terminal`: the
/// client can show how to log in in a terminal.
pub fn initialized(card: &AgentCard, protocol_version: u16, terminal: bool) -> Value {
    let mut result = card.initialize.clone();
    // A field that is not there stays away.
    let fields = result.get_mut("_meta").and_then(Value::as_object_mut);
    if let Some(fields) = fields {
        let logins = fields.remove(meta::LOGINS);
        let is_empty = fields.is_empty();
        if let Some(logins) = logins {
            if terminal {
                result["authMethods"] = logins["terminal"].clone();
            }
            if is_empty {
                result.as_object_mut().map(|result| result.remove("_meta"));
            }
        }
    }
    result["protocolVersion"] = json!(protocol_version);
    let capabilities = &mut result["agentCapabilities"];
    capabilities["loadSession"] = json!(true);
    for added in [
        "list",
        "resume",
        "close",
        "delete",
        "fork",
        "additionalDirectories",
    ] {
        capabilities["sessionCapabilities"][added] = json!({});
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(names: &[&str], default: Option<&str>) -> AgentDirectory {
        let card = |name: &&str| AgentCard {
            name: name.to_string(),
            version: "1".into(),
            initialize: json!({}),
        };
        AgentDirectory {
            agents: names.iter().map(|name| (card(name), 1)).collect(),
            default: default.map(str::to_owned),
        }
    }

    #[test]
    fn who_names_none_gets_the_default() {
        for (names, default, expected) in [
            (&["coder", "scripted"][..], None, Some("scripted")),
            (&["coder", "writer"], None, Some("coder")),
            (&["coder", "scripted"], Some("coder"), Some("coder")),
            (&["coder", "scripted"], Some("writer"), None),
            (&[], None, None),
        ] {
            let directory = directory(names, default);
            let chosen = directory.choose(None).ok().map(|card| card.name.as_str());
            assert_eq!(chosen, expected, "{names:?} {default:?}");
        }
    }

    #[test]
    fn who_names_an_unknown_one_is_told_which_there_are() {
        let directory = directory(&["coder", "writer"], None);
        let Err(MissingAgent(text)) = directory.choose(Some("painter")) else {
            panic!("there is none");
        };
        for part in ["\"painter\"", "/acp/coder, /acp/writer"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn an_agent_without_meta_gets_none() {
        let told = |initialize: Value| {
            let (name, version) = ("a".to_owned(), "1".to_owned());
            let card = AgentCard {
                name,
                version,
                initialize,
            };
            initialized(&card, 1, false).get("_meta").cloned()
        };
        assert_eq!(told(json!({})), None);
        assert_eq!(told(json!({ "_meta": { meta::LOGINS: {} } })), None);
        assert_eq!(
            told(json!({ "_meta": { "x": 1 } })),
            Some(json!({ "x": 1 }))
        );
    }
}
