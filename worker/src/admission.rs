//! Checks what a session may work with (directories, MCP servers) before its agent is opened. Every
//! agent's sessions pass through here.

use std::sync::Arc;

use baton_protocol::LOGIN_DIRECTORY;
use serde_json::value::RawValue;

use crate::agent::SessionOpening;
use crate::agent_policy::AgentPolicy;
use crate::mcp::{McpPolicy, McpTransports};
use crate::rpc::Failure;
use crate::workspace::WorkspaceRoot;

pub(crate) struct SessionAdmission {
    pub servers: McpPolicy,
    /// The MCP servers that the agent takes.
    pub agent: McpTransports,
    pub root: Option<WorkspaceRoot>,
    /// Filters what agents get from clients.
    pub policy: Arc<AgentPolicy>,
}

impl SessionAdmission {
    pub async fn admit(&self, opening: &mut SessionOpening) -> Result<(), Failure> {
        // One that carries a login works nowhere.
        if opening.cwd == LOGIN_DIRECTORY {
            return Ok(());
        }
        // A deleted session has no owner: it only ends, and starts nothing.
        let ends = opening.principal.is_empty();
        let root = self.root.as_ref();
        if let Some(root) = root.filter(|root| root.is_one_for_all() || !ends) {
            let root = root.of(&opening.principal)?;
            opening.beneath = Some(root.path().to_owned());
            root.check("cwd", &opening.cwd)?;
            for directory in opening.directories().as_array().into_iter().flatten() {
                root.check(
                    "additionalDirectories",
                    directory.as_str().unwrap_or_default(),
                )?;
            }
        }
        let asked = opening.asked_servers()?.into_iter();
        let asked = asked.map(|entry| self.policy.server(entry));
        let asked: Vec<Box<RawValue>> = asked.collect::<Result<_, Failure>>()?;
        let asked: Vec<&RawValue> = asked.iter().map(|entry| &**entry).collect();
        let admitted = self.servers.admit(&asked, self.agent).await;
        // Logged for the operator; it contains no secrets.
        let admitted = admitted.inspect_err(|refusal| {
            tracing::warn!(
                session.id = %opening.session,
                %refusal,
                "refused an MCP server of a client"
            );
        })?;
        tracing::debug!(
            session.id = %opening.session,
            servers = admitted.len(),
            "MCP servers admitted"
        );
        opening.admit(admitted);
        Ok(())
    }
}
