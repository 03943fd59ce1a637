//! Which kinds of MCP servers an agent takes.

use serde_json::Value;

use super::server_entry::ServerTransport;

/// Every agent takes those that it starts itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct McpTransports {
    pub http: bool,
    pub sse: bool,
    pub acp: bool,
}

impl McpTransports {
    /// As the agent says in its answer to `initialize`.
    pub fn of(initialize: &Value) -> Self {
        let says = &initialize["agentCapabilities"]["mcpCapabilities"];
        let takes = |kind: &str| says[kind].as_bool().unwrap_or_default();
        Self {
            http: takes("http"),
            sse: takes("sse"),
            acp: takes("acp"),
        }
    }

    pub(super) fn take(self, transport: &ServerTransport) -> bool {
        match transport {
            ServerTransport::Stdio { .. } => true,
            ServerTransport::Http { .. } => self.http,
            ServerTransport::Sse { .. } => self.sse,
            ServerTransport::Acp => self.acp,
        }
    }
}
