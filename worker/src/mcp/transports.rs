//! Which kinds of MCP servers an agent takes.

use serde_json::Value;

use super::entry::Transport;

/// Every agent takes those that it starts itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Transports {
    pub http: bool,
    pub sse: bool,
    pub acp: bool,
}

impl Transports {
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

    pub(super) fn take(self, transport: &Transport) -> bool {
        match transport {
            Transport::Stdio { .. } => true,
            Transport::Http { .. } => self.http,
            Transport::Sse { .. } => self.sse,
            Transport::Acp => self.acp,
        }
    }
}
