//! The last step before an agent: a process that confines itself, takes on the agent's limits and
//! becomes the agent. The guard stays outside, free to end it and to clean up.
//!
//! Where agents have processes of their own it is the first of them, and starts the agent instead:
//! signals that a program does not expect are lost on the first process of a namespace, and orphans
//! are left to it.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use super::guard::{ProcessLimits, failed};
use super::sandbox::ConfinePlan;

/// Returns only if there is no such program, or it cannot be confined, or it ran as one of its own
/// processes.
pub fn confine(
    plan: &ConfinePlan,
    limits: ProcessLimits,
    user: Option<(u32, u32)>,
    command: &[OsString],
) -> ExitCode {
    #[cfg(target_os = "linux")]
    if plan.own_processes {
        return match first::run(plan, limits, user, command) {
            Ok(code) => code.into(),
            Err(error) => failed(command, &error),
        };
    }
    // The guard has seen to it.
    let _ = user;
    failed(command, &exec_agent(plan, limits, command))
}

fn exec_agent(plan: &ConfinePlan, limits: ProcessLimits, command: &[OsString]) -> io::Error {
    let agent = prepare(plan, limits).and_then(|()| agent(command));
    match agent {
        Ok(mut agent) => with_hint(agent.exec()),
        Err(error) => error,
    }
}

fn agent(command: &[OsString]) -> io::Result<Command> {
    let (program, arguments) = command
        .split_first()
        .ok_or_else(|| io::Error::other("there is no command"))?;
    let mut agent = Command::new(program);
    agent.args(arguments);
    Ok(agent)
}

fn with_hint(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied => io::Error::other(format!(
            "{error}. Agents are confined: if it needs files beside its own and the system's, \
             name them with --agent-sandbox-read"
        )),
        _ => error,
    }
}

#[cfg(target_os = "linux")]
fn prepare(plan: &ConfinePlan, limits: ProcessLimits) -> io::Result<()> {
    super::sandbox::enforce(plan)?;
    limits.apply()
}

#[cfg(not(target_os = "linux"))]
fn prepare(_: &ConfinePlan, _: ProcessLimits) -> io::Result<()> {
    Ok(())
}

#[cfg(target_os = "linux")]
mod first {
    use std::thread;

    use rustix::process::Pid;

    use super::super::guard::outcome;
    use super::super::sandbox::processes;
    use super::*;

    /// When it returns, and this process ends, the kernel ends all others of the namespace.
    pub fn run(
        plan: &ConfinePlan,
        limits: ProcessLimits,
        user: Option<(u32, u32)>,
        command: &[OsString],
    ) -> io::Result<u8> {
        processes::enter_namespace().map_err(|error| {
            io::Error::other(format!(
                "it cannot have processes of its own: {error}. --agent-processes system does \
                 without"
            ))
        })?;
        if plan.try_out {
            return Ok(0);
        }
        // Rules hold for the thread that takes them on and for what it starts. This process stays
        // outside, so that the agent can neither see it nor look into it.
        let started = thread::scope(|scope| {
            let start = scope.spawn(|| {
                prepare(plan, limits)?;
                let mut agent = agent(command)?;
                if let Some((user, group)) = user {
                    // The standard library leaves our other groups with it.
                    agent.uid(user).gid(group);
                }
                agent.spawn().map_err(with_hint)
            });
            start
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("it panicked")))
        })?;
        outcome(Pid::from_child(&started))
    }
}
