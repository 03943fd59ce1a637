//! Which agent a request is about: the one that its path names, `/acp/NAME`, or at `/acp` the connection's.
//! That is settled by `initialize` and written into the connection's token, so every gateway knows it.
//! A session stays with the agent it was made for, whatever path later requests take.

use axum::extract::Request;
use axum::http::Uri;
use axum::middleware::Next;
use axum::response::Response;
use baton_protocol::limits::echo;
use baton_protocol::meta;
use baton_session::store::{self, AgentCard};
use serde_json::{Value, json};

use crate::app::App;
use crate::auth::Rights;
use crate::error::Reject;

pub mod of_sessions;

/// Where clients are served; below it each agent has a path of its own.
pub const PATH: &str = "/acp";
pub const AGENT_ROUTE: &str = "/acp/{agent}";
/// The default where none is configured, if there is one such.
const BUILT_IN: &str = "scripted";

/// The agent in the path; none at [`PATH`].
pub fn named(uri: &Uri) -> Option<&str> {
    uri.path().strip_prefix(PATH)?.strip_prefix('/')
}

/// A segment that is no valid name matches no route: a token in its place is not looked up.
pub async fn by_name(request: Request, next: Next) -> Result<Response, Reject> {
    match named(request.uri()) {
        Some(name) if !AgentCard::is_name(name) => Err(Reject::NotFound),
        _ => Ok(next.run(request).await),
    }
}

/// The agents that a caller may use, and the one that those get who name none. To whom an agent is not
/// allowed it looks as if nobody had registered it.
pub struct Known {
    /// By name, with the number of workers alive.
    pub agents: Vec<(AgentCard, usize)>,
    default: Option<String>,
}

pub async fn known(app: &App, rights: &Rights) -> store::Result<Known> {
    let mut agents = app.store.agents().await?;
    agents.retain(|(card, _)| rights.allow(&card.name));
    Ok(Known {
        agents,
        default: app.config.default_agent.clone(),
    })
}

/// There is no such agent; says which there are.
pub struct Missing(pub String);

impl Known {
    pub fn choose(&self, named: Option<&str>) -> Result<&AgentCard, Missing> {
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

    /// The same on every gateway, whoever registered first.
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

    fn missing(&self, named: Option<&str>) -> Missing {
        let wanted = match named.or(self.default.as_deref()) {
            Some(name) => format!("the agent {}", echo(name)),
            None => "an agent".into(),
        };
        let names = self.agents.iter().map(|(card, _)| path_of(card));
        let names: Vec<String> = names.collect();
        Missing(if names.is_empty() {
            format!("no worker has registered {wanted} yet: start one with `baton worker`")
        } else {
            format!(
                "no worker has registered {wanted}: use one of {}, or start a worker with --agent-name",
                names.join(", ")
            )
        })
    }
}

pub fn path_of(card: &AgentCard) -> String {
    format!("{PATH}/{}", card.name)
}

/// Whether callers log in at the agent, each for itself.
pub fn takes_logins(card: &AgentCard) -> bool {
    card.initialize["_meta"][meta::LOGINS].is_object()
}

/// The agent's own answer to `initialize`, with what Baton adds to any agent. `terminal`: the client can show how to log in
/// in a terminal.
pub fn initialized(card: &AgentCard, protocol_version: u16, terminal: bool) -> Value {
    let mut result = card.initialize.clone();
    if let Some(fields) = result["_meta"].as_object_mut() {
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

    fn known(names: &[&str], default: Option<&str>) -> Known {
        let card = |name: &&str| AgentCard {
            name: name.to_string(),
            version: "1".into(),
            initialize: json!({}),
        };
        Known {
            agents: names.iter().map(|name| (card(name), 1)).collect(),
            default: default.map(str::to_owned),
        }
    }

    #[test]
    fn a_path_names_an_agent_or_none() {
        for (path, expected) in [
            ("/acp", None),
            ("/acp/coder", Some("coder")),
            ("/acp/coder?resume=1", Some("coder")),
            ("/acpx", None),
            ("/v1/agents", None),
        ] {
            assert_eq!(named(&path.parse().unwrap()), expected, "{path}");
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
            let known = known(names, default);
            let chosen = known.choose(None).ok().map(|card| card.name.as_str());
            assert_eq!(chosen, expected, "{names:?} {default:?}");
        }
    }

    #[test]
    fn who_names_an_unknown_one_is_told_which_there_are() {
        let known = known(&["coder", "writer"], None);
        let Err(Missing(text)) = known.choose(Some("painter")) else {
            panic!("there is none");
        };
        for part in ["\"painter\"", "/acp/coder, /acp/writer"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
