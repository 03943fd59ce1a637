//! Fields of `_meta` that belong to Baton.

/// All of them begin so.
pub const PREFIX: &str = "baton/";
/// A session token. `null` in an answer: the session is over, forget its token.
pub const SESSION: &str = "baton/session";
/// The connection token, for a WebSocket that resumes.
pub const CONNECTION: &str = "baton/connection";
/// `session/fork`: where to cut, and whether bindings are inherited.
pub const FORK: &str = "baton/fork";
/// `session/load` and `session/resume` without taking control.
pub const OBSERVE: &str = "baton/observe";
/// In a client's capabilities: it wants to know when turns begin and end.
pub const TURNS: &str = "baton/turns";
/// The usage of a session in a list.
pub const USAGE: &str = "baton/usage";
/// What a progress notification of MCP tells: words of the agent, or a tool that it calls.
pub const KIND: &str = "baton/kind";
/// An agent binds values to its session.
pub const BIND: &str = "baton/bind";
/// In the content of a prompt that Open Responses made: what its client asked for, to be reported
/// back.
pub const RESPONSE: &str = "baton/response";
/// The MCP server that stands for functions which a client of Open Responses offers. Between Baton
/// and the agent; no client answers for it.
pub const FUNCTIONS_SERVER: &str = "baton:functions";
/// The values that are bound to the session, for the agent.
pub const BOUND: &str = "baton/bound";
/// A content block that repeats the conversation so far.
pub const TRANSCRIPT: &str = "baton/transcript";
/// What the native agent keeps with its updates and questions, to go on from them.
pub const LLM: &str = "baton/llm";

/// Where an update that was imported comes from.
pub const HISTORY: &str = "baton/history";

/// In `clientInfo`, for the agent: Baton is between it and the client.
pub const VIA: &str = "baton/via";

/// In the card of an agent at which callers log in themselves: what it offers to clients that have
/// a terminal. Never shown.
pub const LOGINS: &str = "baton/logins";

/// W3C trace context: ACP reserves these names in `_meta`.
pub const TRACE_PARENT: &str = "traceparent";
pub const TRACE_STATE: &str = "tracestate";
