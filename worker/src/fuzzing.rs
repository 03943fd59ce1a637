//! Properties that hold for any input from clients to agents, and from agents and models to us: a
//! file for each kind of input. The targets in `fuzz/` check them for as long as they run, and every test run
//! checks them briefly (`tests`).

pub use self::agent_line::agent_line;
pub use self::agent_params::agent_params;
pub use self::mcp_entry::mcp_entry;
pub use self::model_answer::model_answer;

mod agent_line;
mod agent_params;
mod mcp_entry;
mod model_answer;
#[cfg(test)]
mod tests;
