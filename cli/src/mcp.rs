//! Options for what sessions may work with: MCP servers and directories.

use std::collections::HashSet;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use baton_worker::WorkspaceRoot;
use baton_worker::mcp::{McpPolicy, ServerEntry};
use clap::Args;

use crate::headings::MCP;

#[derive(Args)]
pub struct McpOptions {
    /// Commands of MCP servers that clients may start here
    ///
    /// Such as "npx -y @example/files@1.2.3". Without this option clients may start none.
    #[arg(
        long,
        env = "BATON_ALLOW_MCP_STDIO",
        value_delimiter = ',',
        value_name = "COMMANDS",
        help_heading = MCP
    )]
    allow_mcp_stdio: Vec<String>,
    /// Variables that clients may set for them
    #[arg(
        long,
        env = "BATON_ALLOW_MCP_ENV",
        value_delimiter = ',',
        default_value = "*_API_KEY,*_TOKEN,*_SECRET,*_PASSWORD",
        value_name = "NAMES",
        help_heading = MCP
    )]
    allow_mcp_env: Vec<String>,
    /// URLs of MCP servers that clients may use, or none
    ///
    /// Such as *.example.com or http://10.0.0.0/8.
    #[arg(
        long,
        env = "BATON_ALLOW_MCP_URL",
        value_delimiter = ',',
        default_value = "https://*",
        value_name = "URLS",
        help_heading = MCP
    )]
    allow_mcp_url: Vec<String>,
    /// Files of MCP servers that every session gets
    ///
    /// A file contains one entry of `mcpServers`, or an array of entries.
    #[arg(
        long,
        env = "BATON_MCP_SERVER",
        value_delimiter = ',',
        value_name = "FILES",
        help_heading = MCP
    )]
    mcp_server: Vec<PathBuf>,
    /// Directory that contains the working directories of all sessions
    ///
    /// {principal} in the path stands for a directory per caller. Without this option a session may
    /// use any directory.
    #[arg(long, env = "BATON_WORKSPACE_ROOT", value_name = "DIR", help_heading = MCP)]
    workspace_root: Option<PathBuf>,
}

impl McpOptions {
    /// The policy, and every fault.
    pub fn policy(&self) -> (McpPolicy, Vec<String>) {
        let mut faults = Vec::new();
        let policy = McpPolicy {
            commands: patterns("--allow-mcp-stdio", &self.allow_mcp_stdio, &mut faults),
            variables: patterns("--allow-mcp-env", &self.allow_mcp_env, &mut faults),
            urls: patterns("--allow-mcp-url", &self.allow_mcp_url, &mut faults),
            own: self.own(&mut faults),
        };
        (policy, faults)
    }

    /// The root, and every fault.
    pub fn root(&self) -> (Option<WorkspaceRoot>, Vec<String>) {
        let open = |path: &PathBuf| {
            let fault = |error| format!("--workspace-root {}: {error}", path.display());
            WorkspaceRoot::open(path).map_err(fault)
        };
        match self.workspace_root.as_ref().map(open).transpose() {
            Ok(root) => (root, Vec::new()),
            Err(fault) => (None, vec![fault]),
        }
    }

    fn own(&self, faults: &mut Vec<String>) -> Vec<ServerEntry> {
        let (mut own, mut names) = (Vec::new(), HashSet::new());
        for path in &self.mcp_server {
            match read(path) {
                Ok(entries) => own.extend(entries),
                Err(fault) => faults.push(format!("--mcp-server {}: {fault}", path.display())),
            }
        }
        for entry in &own {
            if !names.insert(entry.name().to_owned()) {
                let name = entry.name();
                faults.push(format!("--mcp-server: two servers have the name {name:?}"));
            }
        }
        own
    }
}

fn read(path: &Path) -> Result<Vec<ServerEntry>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    ServerEntry::read_file(&text).map_err(|fault| fault.to_string())
}

/// An empty list is `none`, or nothing at all.
pub fn patterns<T: FromStr<Err: Display>>(
    option: &str,
    given: &[String],
    faults: &mut Vec<String>,
) -> Vec<T> {
    let given = given.iter().map(|text| text.trim());
    let given = given.filter(|text| !text.is_empty() && *text != "none");
    let read = given.filter_map(|text| {
        let read = text.parse();
        read.map_err(|fault| faults.push(format!("{option} {text:?}: {fault}")))
            .ok()
    });
    read.collect()
}
