//! What must hold whatever strangers send to agents, and agents to us: a file for each kind of input. The
//! targets in `fuzz/` try it for as long as they are let, and every test run does for a moment (`tests`).

pub use self::agent_line::agent_line;
pub use self::agent_params::agent_params;
pub use self::mcp_entry::mcp_entry;

mod agent_line;
mod agent_params;
mod mcp_entry;
#[cfg(test)]
mod tests;
