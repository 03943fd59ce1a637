//! A server that is a program: a process under the same guard as agents.

use std::ffi::OsString;
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::service::RunningService;
use rmcp::transport::IntoTransport;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::EntryFields;
use super::closable_input::ClosableInput;
use super::request_limit::RequestLimit;
use super::server_events::McpHandler;
use crate::agent::stdio::sandbox::{ProcessPaths, Sandbox, SandboxConfig};
use crate::agent::stdio::{AgentProcess, LaunchConfig, RunningProcesses};

/// How MCP servers are started.
#[derive(Clone)]
pub struct McpLaunch {
    /// The command and more variables are the server's own.
    pub launch: LaunchConfig,
    pub sandbox: Option<SandboxConfig>,
    running: Arc<RunningProcesses>,
}

impl McpLaunch {
    pub fn new(launch: LaunchConfig, sandbox: Option<SandboxConfig>) -> Self {
        Self {
            launch,
            sandbox,
            running: Arc::default(),
        }
    }
}

pub struct LocalProcess {
    command: Vec<String>,
    variables: Vec<(OsString, OsString)>,
    launch: Arc<McpLaunch>,
    paths: ProcessPaths,
}

/// The process lives as long as this.
pub struct ProcessHold {
    /// Its end is the guard's work, when its input is closed: also if it has stopped reading.
    process: AgentProcess,
    _closes_input: DropGuard,
}

impl LocalProcess {
    pub(super) fn of(
        entry: EntryFields,
        launch: Arc<McpLaunch>,
        paths: ProcessPaths,
    ) -> Option<Self> {
        let variables = entry.env.unwrap_or_default().into_iter();
        Some(Self {
            command: [vec![entry.command?], entry.args.unwrap_or_default()].concat(),
            variables: variables
                .map(|it| (it.name.into(), it.value.into()))
                .collect(),
            launch,
            paths,
        })
    }

    fn launch_config(&self) -> Result<LaunchConfig, String> {
        let McpLaunch {
            launch, sandbox, ..
        } = &*self.launch;
        let own = |name: &OsString| self.variables.iter().any(|(own, _)| own == name);
        let inherited = launch.environment.iter().filter(|(name, _)| !own(name));
        let environment: Vec<_> = inherited.chain(&self.variables).cloned().collect();
        let sandbox = sandbox.clone();
        let sandbox = sandbox.map(|wanted| Sandbox::new(wanted, &self.command, &environment));
        if let (Some(sandbox), Some(cwd)) = (&sandbox, &self.paths.cwd) {
            let checked = sandbox.check("cwd", &cwd.to_string_lossy());
            checked.map_err(|failure| failure.message)?;
        }
        Ok(LaunchConfig {
            command: self.command.clone(),
            environment,
            sandbox,
            ..launch.clone()
        })
    }

    pub async fn start(
        &self,
        handler: McpHandler,
    ) -> Result<(RunningService<RoleClient, McpHandler>, ProcessHold), String> {
        let launch = self.launch_config()?;
        let started = AgentProcess::start(&launch, &self.paths, &self.launch.running);
        let (process, input, output) = started.map_err(|error| error.to_string())?;
        let closed = CancellationToken::new();
        let input = ClosableInput::new(input, closed.clone());
        let hold = ProcessHold {
            process,
            _closes_input: closed.clone().drop_guard(),
        };
        let transport = RequestLimit::new(
            IntoTransport::into_transport((output, input)),
            closed.clone(),
        );
        let service = rmcp::serve_client(handler, transport).await;
        let service = service.map_err(|error| {
            let said = hold.process.log.last_stderr().join(" ");
            format!("{error} {said}").trim().to_owned()
        })?;
        Ok((service, hold))
    }
}
