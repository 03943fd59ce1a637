//! The agent as a process: how it is started, what it says on its standard error, how it ended.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, OnceLock};

use baton_session::id::SessionId;
use baton_session::sync::MutexExt as _;
use futures_util::StreamExt as _;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio_util::codec::{AnyDelimiterCodec, AnyDelimiterCodecError, FramedRead};

use super::guard::ProcessLimits;
use super::running_processes::{RegisteredProcess, RunningProcesses};
use super::sandbox::{ProcessPaths, Sandbox};
use crate::per_principal::PerPrincipal;

/// Lines of standard error that are kept to explain an end.
const KEPT_STDERR_LINES: usize = 20;
const STDERR_LINE: usize = 4096;

/// How to start an agent.
#[derive(Clone, Debug)]
pub struct LaunchConfig {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Our own program, which has the guard.
    pub guard: PathBuf,
    pub environment: Vec<(OsString, OsString)>,
    pub limits: ProcessLimits,
    /// User and group of the agent, if not the worker's.
    pub user: Option<(u32, u32)>,
    /// HOME, if each principal has its own.
    pub homes: Option<PerPrincipal>,
    /// Restricts what it may open; without it, everything that the worker may.
    pub sandbox: Option<Sandbox>,
    /// Clients are told what an agent that failed wrote to its standard error. The log has it
    /// always.
    pub stderr_to_client: bool,
}

pub struct AgentProcess {
    guard: Child,
    errors: JoinHandle<()>,
    pub log: Arc<ProcessLog>,
    /// It counts as running until it has ended.
    pub registered: RegisteredProcess,
}

/// Log of a process beside the protocol: its session and its last lines of stderr.
#[derive(Default)]
pub struct ProcessLog {
    /// The session of the process, once it has one.
    session: OnceLock<SessionId>,
    last_words: Mutex<VecDeque<String>>,
    for_clients: bool,
}

impl ProcessLog {
    /// The stderr that clients may see: it may name other callers' files, or secrets.
    pub fn stderr_for_clients(&self) -> Option<Vec<String>> {
        self.for_clients.then(|| self.last_stderr())
    }

    pub fn belongs_to(&self, session: &SessionId) {
        let _ = self.session.set(session.clone());
    }

    pub fn last_stderr(&self) -> Vec<String> {
        let words = self.last_words.locked();
        words.iter().cloned().collect()
    }

    fn note(&self, line: String) {
        let session = self.session.get().map(tracing::field::display);
        tracing::info!(target: "agent", { session.id = session }, "{line}");
        let mut words = self.last_words.locked();
        if words.len() == KEPT_STDERR_LINES {
            words.pop_front();
        }
        words.push_back(line);
    }
}

impl AgentProcess {
    pub fn start(
        launch: &LaunchConfig,
        paths: &ProcessPaths,
        running: &Arc<RunningProcesses>,
    ) -> io::Result<(Self, ChildStdin, ChildStdout)> {
        let mut command = Command::new(&launch.guard);
        command.arg("guard");
        let ProcessLimits { memory, cpu, files } = launch.limits;
        for (flag, most) in [("--memory", memory), ("--cpu", cpu), ("--files", files)] {
            if let Some(most) = most {
                command.arg(flag).arg(most.to_string());
            }
        }
        if let Some((user, group)) = launch.user {
            command.args(["--user", &user.to_string(), "--group", &group.to_string()]);
        }
        if launch.homes.is_some() && paths.home.is_none() {
            command.arg("--private-home");
        }
        let directory = paths.cwd.as_ref().filter(|directory| directory.is_dir());
        if let Some(sandbox) = &launch.sandbox {
            command.arg("--sandbox").args(sandbox.arguments(paths));
            // The worker's own directory is closed to it, and some agents write where they start.
            if directory.is_none() {
                command.arg("--in-temporary-folder");
            }
        }
        command
            .arg("--")
            .args(&launch.command)
            .env_clear()
            .envs(launch.environment.iter().cloned())
            .envs(paths.home.iter().map(|home| ("HOME", home)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A signal from the terminal is for the worker, which ends its agents in order.
            .process_group(0);
        if let Some(directory) = directory {
            command.current_dir(directory);
        }
        let mut guard = command.spawn()?;
        let (Some(input), Some(output), Some(errors)) =
            (guard.stdin.take(), guard.stdout.take(), guard.stderr.take())
        else {
            return Err(io::Error::other("there are no pipes"));
        };
        let pid = guard
            .id()
            .ok_or_else(|| io::Error::other("it has ended at once"))?;
        let log = Arc::new(ProcessLog {
            for_clients: launch.stderr_to_client,
            ..ProcessLog::default()
        });
        let process = Self {
            registered: running.register(pid),
            guard,
            errors: tokio::spawn(collect_stderr(errors, log.clone())),
            log,
        };
        Ok((process, input, output))
    }

    /// Waits for it, and for all that it has started. To be called when it has no input any more.
    pub async fn ended(&mut self) -> String {
        let ended = self.guard.wait().await;
        // Its last words count.
        let _ = (&mut self.errors).await;
        match ended {
            Ok(status) => describe(status),
            Err(error) => format!("ended in an unknown way ({error})"),
        }
    }
}

/// Until the last of its processes has closed it.
async fn collect_stderr(errors: ChildStderr, log: Arc<ProcessLog>) {
    let newline = b"\n".to_vec();
    let codec = AnyDelimiterCodec::new_with_max_length(newline.clone(), newline, STDERR_LINE);
    let mut lines = FramedRead::new(errors, codec);
    loop {
        match lines.next().await {
            Some(Ok(line)) => {
                let text = String::from_utf8_lossy(&line);
                // It ends up on people's terminals.
                log.note(
                    text.trim_end()
                        .replace(|c: char| c.is_control() && c != '\t', "\u{fffd}"),
                );
            }
            // Lines that are too long are skipped. The reader returns an end after an error, then
            // goes on.
            Some(Err(AnyDelimiterCodecError::MaxChunkLengthExceeded)) => {
                lines.next().await;
            }
            Some(Err(AnyDelimiterCodecError::Io(_))) | None => return,
        }
    }
}

/// The guard passes on how the agent ended, as shells do.
fn describe(status: ExitStatus) -> String {
    match status.code() {
        Some(code @ 129..=192) => format!("was ended by signal {}", code - 128),
        Some(code) => format!("exited with status {code}"),
        None => format!("ended with its guard ({status})"),
    }
}
