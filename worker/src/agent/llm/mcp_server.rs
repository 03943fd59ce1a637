//! An MCP server of a session: a process under the same guard as agents, started when its tools are
//! asked for and again when it has died.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::ClientHandler;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotificationParam,
    ClientRequest, JsonObject, PaginatedRequestParams, ServerResult, Tool,
};
use rmcp::service::{
    NotificationContext, Peer, PeerRequestOptions, RequestHandle, RoleClient, RunningService,
    ServiceError,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::mcp_input::ClosableInput;
use super::mcp_tools::MAX_TOOLS;
use crate::agent::stdio::sandbox::{ProcessPaths, Sandbox, SandboxConfig};
use crate::agent::stdio::{AgentProcess, LaunchConfig, RunningProcesses};

/// For a program to start, and to list its tools.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// A tool that never ends is given up.
const CALL_PATIENCE: Duration = Duration::from_secs(600);
/// For a server that reads nothing: it is not told either that its call is cancelled.
const STUCK_PATIENCE: Duration = Duration::from_secs(5);
/// Texts of a server in errors, which go to logs and to the model.
const MAX_WHY: usize = 400;
/// More pages of tools are not asked for.
const MAX_PAGES: usize = 16;
/// A server that cannot be started is not tried at every step.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

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

pub struct McpServer {
    pub name: String,
    command: Vec<String>,
    variables: Vec<(OsString, OsString)>,
    launch: Arc<McpLaunch>,
    paths: ProcessPaths,
    state: Mutex<ServerState>,
}

#[derive(Default)]
struct ServerState {
    running: Option<RunningServer>,
    /// Why it does not run, and when the next start is tried.
    failure: Option<(String, Instant, Duration)>,
}

struct RunningServer {
    service: RunningService<RoleClient, McpEvents>,
    /// Its end is the guard's work, when its input is closed: also if it has stopped reading.
    _process: AgentProcess,
    _closes_input: DropGuard,
    tools: Arc<[Tool]>,
    changed: Arc<AtomicBool>,
}

/// Takes the notifications of a server.
struct McpEvents {
    changed: Arc<AtomicBool>,
}

impl ClientHandler for McpEvents {
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.store(true, Ordering::Relaxed);
    }
}

#[derive(Deserialize)]
struct StdioEntry {
    name: String,
    command: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Vec<EntryVariable>,
}

#[derive(Deserialize)]
struct EntryVariable {
    name: String,
    value: String,
}

impl McpServer {
    /// An entry of `mcpServers` that was admitted.
    pub fn of(entry: &RawValue, launch: Arc<McpLaunch>, paths: ProcessPaths) -> Option<Self> {
        let entry: StdioEntry = serde_json::from_str(entry.get()).ok()?;
        let variables = entry.env.into_iter();
        Some(Self {
            name: entry.name,
            command: [vec![entry.command], entry.args].concat(),
            variables: variables
                .map(|it| (it.name.into(), it.value.into()))
                .collect(),
            launch,
            paths,
            state: Mutex::default(),
        })
    }

    /// Its tools at the moment, or why there are none.
    pub async fn tools(&self) -> Result<Arc<[Tool]>, String> {
        let mut state = self.state.lock().await;
        let (_, tools) = self.running(&mut state).await?;
        Ok(tools)
    }

    async fn running(
        &self,
        state: &mut ServerState,
    ) -> Result<(Peer<RoleClient>, Arc<[Tool]>), String> {
        if let Some(running) = &mut state.running
            && !running.service.is_closed()
            && !running.service.peer().is_transport_closed()
        {
            if running.changed.swap(false, Ordering::Relaxed) {
                running.tools = list(running.service.peer()).await?;
            }
            return Ok((running.service.peer().clone(), running.tools.clone()));
        }
        let had_died = state.running.take().is_some();
        let pause = match &state.failure {
            Some((why, until, _)) if Instant::now() < *until => return Err(why.clone()),
            Some((_, _, pause)) => (*pause * 2).min(LONGEST_PAUSE),
            None => FIRST_PAUSE,
        };
        if had_died {
            tracing::warn!(
                server = self.name,
                "an MCP server has ended: starting it again"
            );
        }
        match timeout(START_PATIENCE, self.start()).await {
            Ok(Ok(started)) => {
                state.failure = None;
                let found = (started.service.peer().clone(), started.tools.clone());
                state.running = Some(started);
                Ok(found)
            }
            failed => {
                let why = match failed {
                    Ok(Err(why)) => why,
                    _ => format!("it did not answer within {START_PATIENCE:?}"),
                };
                let why: String = why.chars().take(MAX_WHY).collect();
                tracing::warn!(server = self.name, why, "an MCP server cannot be used");
                state.failure = Some((why.clone(), Instant::now() + pause, pause));
                Err(why)
            }
        }
    }

    async fn start(&self) -> Result<RunningServer, String> {
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
        let launch = LaunchConfig {
            command: self.command.clone(),
            environment,
            sandbox,
            ..launch.clone()
        };
        let started = AgentProcess::start(&launch, &self.paths, &self.launch.running);
        let (process, input, output) = started.map_err(|error| error.to_string())?;
        let changed = Arc::new(AtomicBool::new(false));
        let events = McpEvents {
            changed: changed.clone(),
        };
        let closed = CancellationToken::new();
        let input = ClosableInput::new(input, closed.clone());
        let closes_input = closed.drop_guard();
        let service = rmcp::serve_client(events, (output, input)).await;
        let service = service.map_err(|error| {
            let said = process.log.last_stderr().join(" ");
            format!("{error} {said}").trim().to_owned()
        })?;
        Ok(RunningServer {
            tools: list(service.peer()).await?,
            service,
            _process: process,
            _closes_input: closes_input,
            changed,
        })
    }

    /// Calls a tool. Dropped, it tells the server that the call is cancelled.
    pub async fn call(&self, tool: &str, arguments: JsonObject) -> Result<CallToolResult, String> {
        let (peer, _) = {
            let mut state = self.state.lock().await;
            self.running(&mut state).await?
        };
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let mut options = PeerRequestOptions::default();
        options.timeout = Some(CALL_PATIENCE);
        let stuck = |_| "it does not read what it is sent".to_owned();
        let sent = timeout(
            CALL_PATIENCE,
            peer.send_cancellable_request(request, options),
        );
        let handle = sent.await.map_err(stuck)?.map_err(short)?;
        let open = OpenCall::of(&handle);
        let answer = timeout(CALL_PATIENCE + STUCK_PATIENCE, handle.await_response()).await;
        let answer = answer.map_err(stuck)?;
        open.finish();
        match answer.map_err(short)? {
            ServerResult::CallToolResult(result) => Ok(result),
            _ => Err("the server answered with something else than a result".into()),
        }
    }
}

async fn list(peer: &Peer<RoleClient>) -> Result<Arc<[Tool]>, String> {
    let listed = timeout(START_PATIENCE, pages(peer)).await;
    listed.map_err(|_| format!("it did not list its tools within {START_PATIENCE:?}"))?
}

/// As many tools as a model may be offered; a server may go on for ever.
async fn pages(peer: &Peer<RoleClient>) -> Result<Arc<[Tool]>, String> {
    let (mut tools, mut cursor) = (Vec::new(), None);
    for _ in 0..MAX_PAGES {
        let wanted = PaginatedRequestParams::default().with_cursor(cursor);
        let page = peer.list_tools(Some(wanted)).await.map_err(short)?;
        tools.extend(page.tools);
        cursor = page.next_cursor;
        if cursor.is_none() || tools.len() >= MAX_TOOLS {
            break;
        }
    }
    tools.truncate(MAX_TOOLS);
    Ok(tools.into())
}

fn short(error: ServiceError) -> String {
    error.to_string().chars().take(MAX_WHY).collect()
}

/// A call that is cancelled if nobody waits for it any more.
struct OpenCall(Option<(Peer<RoleClient>, CancelledNotificationParam)>);

impl OpenCall {
    fn of(handle: &RequestHandle<RoleClient>) -> Self {
        let reason = Some("nobody waits for it any more".to_owned());
        let id = Some(handle.id.clone());
        let cancelled = CancelledNotificationParam::new(id, reason);
        Self(Some((handle.peer.clone(), cancelled)))
    }

    fn finish(mut self) {
        self.0 = None;
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        if let Some((peer, cancelled)) = self.0.take() {
            tokio::spawn(timeout(STUCK_PATIENCE, async move {
                peer.notify_cancelled(cancelled).await
            }));
        }
    }
}
