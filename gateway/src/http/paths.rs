//! The paths at which clients are served.

use axum::http::Uri;

/// Below it each agent has a path of its own.
pub const ACP: &str = "/acp";
pub const AGENT_ROUTE: &str = "/acp/{agent}";
/// The same for clients that speak MCP.
pub const MCP: &str = "/mcp";
pub const MCP_AGENT_ROUTE: &str = "/mcp/{agent}";

/// The agent in the path; none at [`ACP`] and [`MCP`].
pub fn agent_in_path(uri: &Uri) -> Option<&str> {
    let path = uri.path();
    let below = path.strip_prefix(ACP).or_else(|| path.strip_prefix(MCP))?;
    below.strip_prefix('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_an_agent_or_none() {
        for (path, expected) in [
            ("/acp", None),
            ("/acp/coder", Some("coder")),
            ("/acp/coder?resume=1", Some("coder")),
            ("/acpx", None),
            ("/mcp", None),
            ("/mcp/coder?scope=shared", Some("coder")),
            ("/v1/agents", None),
        ] {
            assert_eq!(agent_in_path(&path.parse().unwrap()), expected, "{path}");
        }
    }
}
