//! What a session may work with, settled before its agent hears of it: the one place that every agent's
//! sessions pass.

use crate::agent::Opening;
use crate::mcp::{McpPolicy, Transports};
use crate::rpc::Failure;
use crate::workspace::WorkspaceRoot;

pub(crate) struct Admission {
    pub servers: McpPolicy,
    /// The MCP servers that the agent takes.
    pub agent: Transports,
    pub root: Option<WorkspaceRoot>,
}

impl Admission {
    pub async fn admit(&self, opening: &mut Opening) -> Result<(), Failure> {
        if let Some(root) = &self.root {
            root.check("cwd", &opening.cwd)?;
            for directory in opening.directories().as_array().into_iter().flatten() {
                root.check(
                    "additionalDirectories",
                    directory.as_str().unwrap_or_default(),
                )?;
            }
        }
        let asked = opening.asked_servers()?;
        let admitted = self.servers.admit(&asked, self.agent).await;
        // An operator wants to know what strangers try; it holds nothing that is secret.
        let admitted = admitted.inspect_err(|refusal| {
            tracing::warn!(session.id = %opening.session, %refusal, "a client asked for an MCP server that it may not have");
        })?;
        tracing::debug!(session.id = %opening.session, servers = admitted.len(), "MCP servers admitted");
        opening.admit(admitted);
        Ok(())
    }
}
