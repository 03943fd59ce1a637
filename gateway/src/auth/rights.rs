//! The rights of a credential, beside the identity of its holder.

use std::sync::Arc;

use baton_session::token::TokenScope;

use super::bearer::digest;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallerRights {
    /// It may list, load and watch sessions, and change nothing.
    pub observe: bool,
    /// It may see and steer the whole cluster, see `handlers/operator.rs`.
    pub admin: bool,
    /// The agents it may use, if they are listed.
    pub only: Option<Arc<[String]>>,
    /// Agents that are for others.
    pub denied: Arc<[String]>,
}

impl CallerRights {
    pub fn scope(&self) -> TokenScope {
        if self.observe {
            TokenScope::Observe
        } else {
            TokenScope::Control
        }
    }

    /// An agent that may not be used looks as if there were none such.
    pub fn allow(&self, agent: &str) -> bool {
        let listed = self.only.as_ref();
        let listed = listed.is_none_or(|only| only.iter().any(|name| name == agent));
        listed && !self.denied.iter().any(|name| name == agent)
    }

    /// There are agents that it may not use.
    pub fn are_about_agents(&self) -> bool {
        self.only.is_some() || !self.denied.is_empty()
    }

    /// For the tokens of connections, so that one is used only with the rights it was opened with.
    /// Nothing for who may do everything.
    pub fn mark(&self) -> Option<String> {
        if *self == Self::default() {
            return None;
        }
        let mut parts = vec![if self.observe { "observe" } else { "control" }];
        if self.admin {
            parts.push("admin");
        }
        if let Some(only) = &self.only {
            parts.push("only");
            parts.extend(only.iter().map(String::as_str));
        }
        parts.push("denied");
        parts.extend(self.denied.iter().map(String::as_str));
        Some(digest(&parts)[..8].to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_allowed_unless_a_list_lacks_it_or_a_rule_denies_it() {
        let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
        let all = CallerRights::default();
        assert!(all.allow("a") && !all.are_about_agents() && all.mark().is_none());
        let listed = CallerRights {
            only: Some(names(&["a", "b"])),
            denied: names(&["b", "c"]),
            ..CallerRights::default()
        };
        assert!(listed.allow("a") && listed.are_about_agents());
        assert!(!listed.allow("b") && !listed.allow("c") && !listed.allow("d"));
        let observer = CallerRights {
            observe: true,
            ..CallerRights::default()
        };
        assert!(observer.mark().is_some() && observer.mark() != listed.mark());
    }
}
