//! Names of HTTP headers, in the form in which HTTP/2 has them.

/// The connection token: in the answer to `initialize`, then in every request of the connection.
pub const CONNECTION_ID: &str = "acp-connection-id";
/// The session that a request or stream is about.
pub const SESSION_ID: &str = "acp-session-id";
/// A session token, which lets its holder in to one session.
pub const SESSION_TOKEN: &str = "acp-session-token";
/// A WebSocket whose frames carry cursors.
pub const RESUME: &str = "acp-resume";
/// The cursor from which a stream continues.
pub const LAST_EVENT_ID: &str = "last-event-id";
/// Names a one-shot request without a connection, so that it can be repeated.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The name of the gateway that has answered.
pub const GATEWAY: &str = "baton-gateway";
/// The directory of which a backup is taken, on the administrators' port.
pub const BACKUP_DIRECTORY: &str = "baton-directory";

/// The session that `initialize` of an MCP client has opened, in all that it sends later.
pub const MCP_SESSION_ID: &str = "mcp-session-id";
/// The revision of MCP that a request is written in.
pub const MCP_PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// The method of an MCP request, once more.
pub const MCP_METHOD: &str = "mcp-method";
/// The tool, resource or task that an MCP request names, once more.
pub const MCP_NAME: &str = "mcp-name";
