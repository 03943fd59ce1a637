//! The agent that a worker runs, and its name.

use serde::{Deserialize, Serialize};

/// How long the name of an agent may be.
pub const MAX_AGENT_NAME: usize = 64;

/// The agent that a worker runs, as it registers it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentCard {
    pub name: String,
    pub version: String,
    /// The agent's own `initialize` result.
    pub initialize: serde_json::Value,
}

impl AgentCard {
    /// Names are part of URLs and keys.
    pub fn is_name(text: &str) -> bool {
        !text.is_empty() && Self::name_of(text) == text
    }

    /// Turns an agent's own name into a valid one.
    pub fn name_of(text: &str) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let begin = text.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
        let named = begin.chars().take(MAX_AGENT_NAME);
        let named: String = named.map(|c| if plain(c) { c } else { '-' }).collect();
        if named.is_empty() {
            "agent".into()
        } else {
            named
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_fits_into_urls_and_keys() {
        for name in ["scripted", "a", "7", "my.agent-1_b", &"a".repeat(64)] {
            assert!(AgentCard::is_name(name), "{name}");
            assert_eq!(AgentCard::name_of(name), name);
        }
        for (text, name) in [
            ("", "agent"),
            ("..", "agent"),
            (".hidden", "hidden"),
            ("@org/some agent", "org-some-agent"),
            ("Ärger", "rger"),
            (&"a".repeat(65), &"a".repeat(64)),
        ] {
            assert!(!AgentCard::is_name(text), "{text}");
            assert_eq!(AgentCard::name_of(text), name);
        }
    }
}
