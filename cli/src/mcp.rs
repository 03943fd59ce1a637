//! Options for what sessions may work with: MCP servers and directories.

use std::collections::HashSet;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use baton_worker::WorkspaceRoot;
use baton_worker::mcp::{Entry, McpPolicy};
use clap::Args;

#[derive(Args)]
pub struct McpOptions {
    /// MCP servers that clients may have started here, as "npx -y @example/files@1.2.3"; none unless given
    #[arg(
        long,
        env = "BATON_ALLOW_MCP_STDIO",
        value_delimiter = ',',
        value_name = "COMMANDS"
    )]
    allow_mcp_stdio: Vec<String>,
    /// Variables that clients may set for them
    #[arg(
        long,
        env = "BATON_ALLOW_MCP_ENV",
        value_delimiter = ',',
        default_value = "*_API_KEY,*_TOKEN,*_SECRET,*_PASSWORD",
        value_name = "NAMES"
    )]
    allow_mcp_env: Vec<String>,
    /// MCP servers that clients may have connected to, as *.example.com or http://10.0.0.0/8, or none
    #[arg(
        long,
        env = "BATON_ALLOW_MCP_URL",
        value_delimiter = ',',
        default_value = "https://*",
        value_name = "URLS"
    )]
    allow_mcp_url: Vec<String>,
    /// File of MCP servers that every session gets: one entry of `mcpServers`, or an array
    #[arg(
        long,
        env = "BATON_MCP_SERVER",
        value_delimiter = ',',
        value_name = "FILES"
    )]
    mcp_server: Vec<PathBuf>,
    /// Directory beneath which sessions must live; any will do unless given. {principal} in it stands for a folder for
    /// each caller
    #[arg(long, env = "BATON_WORKSPACE_ROOT", value_name = "DIR")]
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

    fn own(&self, faults: &mut Vec<String>) -> Vec<Entry> {
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

fn read(path: &Path) -> Result<Vec<Entry>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    Entry::read_file(&text).map_err(|fault| fault.to_string())
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
