//! Options for what agents are told of what clients say.

use baton_worker::{AgentPolicy, NamePattern};
use clap::Args;

use crate::headings::EXTENSIONS;
use crate::mcp::patterns;

#[derive(Args)]
pub struct AgentPolicyOptions {
    /// Fields of _meta that agents get from clients, such as example.com/*, or none
    ///
    /// Trace context always passes. Without this option all fields pass if only this machine can
    /// connect, otherwise none.
    #[arg(
        long,
        env = "BATON_ALLOW_AGENT_META",
        value_delimiter = ',',
        value_name = "NAMES",
        help_heading = EXTENSIONS
    )]
    allow_agent_meta: Option<Vec<String>>,
    /// Extension methods that clients may call, such as _example.com/*, or none
    ///
    /// Methods of the protocol always pass. Without this option all extension methods pass if only
    /// this machine can connect, otherwise none.
    #[arg(
        long,
        env = "BATON_ALLOW_AGENT_METHODS",
        value_delimiter = ',',
        value_name = "NAMES",
        help_heading = EXTENSIONS
    )]
    allow_agent_methods: Option<Vec<String>>,
}

/// Whether clients are trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientTrust {
    /// Only who sits at this machine, and could start the agent as well.
    Local,
    Anybody,
}

impl AgentPolicyOptions {
    pub fn faults(&self) -> Vec<String> {
        let (policy, mut faults) = self.read(ClientTrust::Anybody);
        for name in policy.meta.iter().map(NamePattern::as_str) {
            if name.starts_with(baton_protocol::meta::PREFIX) {
                faults.push(format!(
                    "--allow-agent-meta {name:?}: Baton writes these fields itself, and takes \
                     them from nobody"
                ));
            }
        }
        for name in policy.methods.iter().map(NamePattern::as_str) {
            if !name.starts_with(['_', '*']) {
                faults.push(format!(
                    "--allow-agent-methods {name:?}: only methods that begin with _ need it; the \
                     protocol's own always pass"
                ));
            }
        }
        faults
    }

    pub fn policy(&self, clients: ClientTrust) -> AgentPolicy {
        self.read(clients).0
    }

    /// An option that is not given stands for everything where all clients are at this machine.
    fn read(&self, clients: ClientTrust) -> (AgentPolicy, Vec<String>) {
        let mut faults = Vec::new();
        let mut read = |option, given: &Option<Vec<String>>| match given {
            Some(given) => patterns(option, given, &mut faults),
            None if clients == ClientTrust::Local => vec![NamePattern::any()],
            None => Vec::new(),
        };
        let policy = AgentPolicy {
            meta: read("--allow-agent-meta", &self.allow_agent_meta),
            methods: read("--allow-agent-methods", &self.allow_agent_methods),
            unknown_fields: clients == ClientTrust::Local && self.allow_agent_meta.is_none(),
            ..Default::default()
        };
        (policy, faults)
    }
}
