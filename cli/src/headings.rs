//! Sections of the help of `serve`, `gateway` and `worker`, in their order.

pub const STORAGE: &str = "Storage";
pub const NETWORK: &str = "Network";
pub const AUTHENTICATION: &str = "Authentication";
pub const ADMINISTRATION: &str = "Administration";
pub const LIMITS: &str = "Limits";
pub const SESSIONS: &str = "Sessions";
pub const AGENT: &str = "Agent";
pub const LLM: &str = "Built-in agent (--agent llm)";
pub const SANDBOX: &str = "Agent sandbox";
pub const EXTENSIONS: &str = "Client extensions";
pub const MCP: &str = "MCP servers and workspaces";
pub const OBSERVABILITY: &str = "Observability";
