//! The paths at which clients are served.

use axum::http::Uri;

/// Below it each agent has a path of its own.
pub const ACP: &str = "/acp";
pub const AGENT_ROUTE: &str = "/acp/{agent}";

/// The agent in the path; none at [`ACP`].
pub fn agent_in_path(uri: &Uri) -> Option<&str> {
    uri.path().strip_prefix(ACP)?.strip_prefix('/')
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
            ("/v1/agents", None),
        ] {
            assert_eq!(agent_in_path(&path.parse().unwrap()), expected, "{path}");
        }
    }
}
