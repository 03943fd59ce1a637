//! A process between a worker and its agent: starts the agent, and ensures that none of its
//! processes is left when the agent has ended or the worker is gone, for whatever reason.
//!
//! Only the worker writes to the agent's input, so when it is closed the worker has dropped the
//! agent or was killed.

use std::ffi::OsString;
use std::fs;
use std::io::{self, stdin};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, kill_process_group, wait,
};
#[cfg(target_os = "linux")]
use rustix::{
    event::Timespec,
    io::Errno,
    process::{PidfdFlags, Resource, Rlimit, pidfd_open, prlimit, setrlimit},
};

use tempfile::TempDir;

use super::process_tree;

/// How long the agent may take to end by itself, and once more after it was told to.
const SIGNAL_PAUSE: Duration = Duration::from_secs(1);
/// As shells do: the command was not found.
const NOT_FOUND: u8 = 127;

/// Limits for an agent and everything it starts, for each process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Bytes of data.
    pub memory: Option<u64>,
    /// Seconds of computing.
    pub cpu: Option<u64>,
    pub files: Option<u64>,
}

/// The step that confines itself and becomes the agent: our own program, and what it is told.
#[derive(Debug)]
pub struct ConfineStep {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    /// It is the first of processes that are the agent's own, and becomes the agent's user itself.
    pub own_processes: bool,
    /// The agent has no directory of a session yet, and starts in its temporary folder.
    pub in_temporary_folder: bool,
}

/// The user and HOME of the agent.
#[derive(Clone, Copy, Debug, Default)]
pub struct AgentIdentity {
    /// User and group, if not ours. It is in no other group then.
    pub user: Option<(u32, u32)>,
    /// It has no session yet, and must not see a principal's HOME.
    pub private_home: bool,
}

/// Runs the agent to its end. Returns what it returned.
pub fn guard(
    limits: ProcessLimits,
    confined: Option<ConfineStep>,
    identity: AgentIdentity,
    command: &[OsString],
) -> ExitCode {
    match run(limits, confined, identity, command) {
        Ok(code) => code.into(),
        Err(error) => failed(command, &error),
    }
}

pub(super) fn failed(command: &[OsString], error: &io::Error) -> ExitCode {
    let name = command.first().map(|name| name.to_string_lossy());
    eprintln!("cannot start {}: {error}", name.unwrap_or_default());
    NOT_FOUND.into()
}

fn run(
    limits: ProcessLimits,
    confined: Option<ConfineStep>,
    identity: AgentIdentity,
    command: &[OsString],
) -> io::Result<u8> {
    // So that gateways on this machine know what is below it for agents.
    #[cfg(target_os = "linux")]
    rustix::thread::set_name(baton_session::guard::NAME)?;
    let own_processes = confined.as_ref().is_some_and(|step| step.own_processes);
    #[cfg(target_os = "linux")]
    if own_processes {
        super::sandbox::processes::create_namespace(identity.user.is_some()).map_err(|error| {
            io::Error::other(format!(
                "it cannot have processes of its own: {error}. --agent-processes system does \
                 without"
            ))
        })?;
    }
    // Removed when everything that could write there has ended.
    let temporary = (confined.is_some() || identity.private_home).then(temporary_folder);
    let temporary = temporary.transpose()?;
    let mut agent = match (&confined, &temporary) {
        (Some(confined), Some(temporary)) => confined.command(temporary.path(), command),
        _ => plain(command)?,
    };
    if let Some(temporary) = temporary.as_ref().filter(|_| identity.private_home) {
        agent.env("HOME", temporary.path());
    }
    if let Some((user, group)) = identity.user {
        if let Some(temporary) = &temporary {
            chown(temporary.path(), Some(user), Some(group))?;
        }
        // Another user cannot mount anything.
        if !own_processes {
            // The standard library leaves our other groups with it.
            agent.uid(user).gid(group);
        }
    }
    // Orphaned processes become our children, so nothing of the agent escapes. On other systems
    // only the agent's process group ends with it.
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(getpid()))?;
    let agent = agent.process_group(0).spawn()?;
    let agent = Pid::from_child(&agent);
    #[cfg(target_os = "linux")]
    if confined.is_none() {
        limits.apply_to(agent)?;
    }
    // The rule for an agent's own `/proc` holds as long as the kernel does not forget this
    // directory.
    let _own = fs::File::open(format!("/proc/{}", agent.as_raw_nonzero()));
    #[cfg(target_os = "linux")]
    if own_processes {
        return watch(agent);
    }
    thread::spawn(move || end_when_hung_up(agent));
    let ended = outcome(agent)?;
    end_the_rest();
    Ok(ended)
}

/// Waits for it, and for those that are left to us meanwhile.
pub(super) fn outcome(agent: Pid) -> io::Result<u8> {
    loop {
        match wait(WaitOptions::empty())? {
            Some((pid, status)) if pid == agent => return Ok(code(status)),
            _ => {}
        }
    }
}

fn plain(command: &[OsString]) -> io::Result<Command> {
    let (program, arguments) = command
        .split_first()
        .ok_or_else(|| io::Error::other("there is no command"))?;
    let mut agent = Command::new(program);
    agent.args(arguments);
    Ok(agent)
}

/// Readable by the agent only.
fn temporary_folder() -> io::Result<TempDir> {
    tempfile::Builder::new().prefix("baton-agent-").tempdir()
}

impl ConfineStep {
    fn command(&self, temporary: &Path, command: &[OsString]) -> Command {
        let mut confine = Command::new(&self.program);
        confine.arg("confine").args(&self.arguments);
        confine
            .arg("--write")
            .arg(temporary)
            .arg("--")
            .args(command);
        confine.env("TMPDIR", temporary);
        if self.in_temporary_folder {
            confine.current_dir(temporary);
        }
        confine
    }
}

#[cfg(target_os = "linux")]
impl ProcessLimits {
    fn given(self) -> impl Iterator<Item = (Resource, Rlimit)> {
        let all = [
            (Resource::Data, self.memory),
            (Resource::Cpu, self.cpu),
            (Resource::Nofile, self.files),
        ];
        let given = all.into_iter().filter(|(_, most)| most.is_some());
        given.map(|(resource, most)| {
            let limit = Rlimit {
                current: most,
                maximum: most,
            };
            (resource, limit)
        })
    }

    /// To this process, which becomes the agent.
    pub(super) fn apply(self) -> io::Result<()> {
        for (resource, limit) in self.given() {
            setrlimit(resource, limit)?;
        }
        Ok(())
    }

    /// From outside: our own memory is no measure for the agent's.
    fn apply_to(self, agent: Pid) -> rustix::io::Result<()> {
        for (resource, limit) in self.given() {
            match prlimit(Some(agent), resource, limit) {
                // It has ended already.
                Ok(_) | Err(Errno::SRCH) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Without requested events, `poll` still reports a pipe whose writer is gone, whatever is left in
/// it.
fn end_when_hung_up(agent: Pid) {
    let input = stdin();
    while poll(&mut [PollFd::new(&input, PollFlags::empty())], None).is_err() {}
    thread::sleep(SIGNAL_PAUSE);
    let _ = kill_process_group(agent, Signal::TERM);
    thread::sleep(SIGNAL_PAUSE);
    let _ = kill_process_group(agent, Signal::KILL);
    // Processes that left the group are killed after the agent has been reaped.
}

/// The same for an agent in a PID namespace, which ends with its first process. A process that has
/// created a PID namespace for its children cannot start threads.
#[cfg(target_os = "linux")]
fn watch(first: Pid) -> io::Result<u8> {
    let (input, ended) = (stdin(), pidfd_open(first, PidfdFlags::empty())?);
    let mut both = [
        PollFd::new(&input, PollFlags::empty()),
        PollFd::new(&ended, PollFlags::IN),
    ];
    while poll(&mut both, None).is_err() {}
    let patience = Timespec::try_from(SIGNAL_PAUSE).map_err(io::Error::other)?;
    for signal in [Signal::TERM, Signal::KILL] {
        let mut one = [PollFd::new(&ended, PollFlags::IN)];
        // It has ended if there is something to read.
        if poll(&mut one, Some(&patience)) != Ok(0) {
            break;
        }
        let _ = kill_process_group(first, signal);
    }
    outcome(first)
}

/// Children of those that die become ours, until there are none.
fn end_the_rest() {
    loop {
        for child in children() {
            let _ = kill_process(child, Signal::KILL);
        }
        if wait(WaitOptions::empty()).is_err() {
            return;
        }
    }
}

fn children() -> Vec<Pid> {
    let me = getpid().as_raw_nonzero().get() as u32;
    let ours = process_tree::parents().filter(|(_, parent)| *parent == me);
    ours.filter_map(|(pid, _)| Pid::from_raw(pid as i32))
        .collect()
}

/// As shells do: a signal is 128 and its number.
fn code(ended: WaitStatus) -> u8 {
    let code = ended.exit_status().map(|code| code as u8);
    let signal = ended.terminating_signal().map(|signal| 128 + signal as u8);
    code.or(signal).unwrap_or(1)
}
