//! The first words that a model is told.

use super::settings::AgentMode;
use super::tool::ToolBox;

pub const DEFAULT_PROMPT: &str = "\
You are a helpful agent that works for a person through an editor or terminal. Answer briefly and \
to the point, in the language you are addressed in. Use your tools to find things out instead of \
guessing, and to do what you are asked for. Say what you did and what is left. Never pretend that \
something was done that was not. If a tool's outcome is unknown, find out before you repeat it.";

/// The operator's words, or ours, and the circumstances. They change seldom, so that providers can
/// keep them in their cache.
pub fn system_prompt(own: Option<&str>, cwd: &str, mode: AgentMode, tools: &ToolBox) -> String {
    let words = own.unwrap_or(DEFAULT_PROMPT).trim_end();
    let missing = tools.missing().iter().map(|(name, why)| {
        format!("\nThe MCP server {name} cannot be used ({why}): say so if it is needed.")
    });
    let missing: String = missing.collect();
    let tools = if !tools.definitions().is_empty() {
        ""
    } else {
        "\nThere are no tools: the user's client offers neither files nor terminals."
    };
    let mode = match mode {
        AgentMode::Architect => "\nOnly look and plan: tools that change something are off.",
        AgentMode::Ask | AgentMode::Code => "",
    };
    format!("{words}\n\nThe working directory is {cwd}{tools}{missing}{mode}")
}
