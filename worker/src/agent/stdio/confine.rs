//! The last step before an agent: a process that confines itself, takes on the agent's limits and becomes the
//! agent. The guard stays outside, free to end it and to clean up.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use super::guard::{Limits, failed};
use super::sandbox::Plan;

/// Returns only if there is no such program, or it cannot be confined.
pub fn confine(plan: &Plan, limits: Limits, command: &[OsString]) -> ExitCode {
    failed(command, &become_it(plan, limits, command))
}

fn become_it(plan: &Plan, limits: Limits, command: &[OsString]) -> io::Error {
    let Some((program, arguments)) = command.split_first() else {
        return io::Error::other("there is no command");
    };
    if let Err(error) = prepare(plan, limits) {
        return error;
    }
    let error = Command::new(program).args(arguments).exec();
    match error.kind() {
        io::ErrorKind::PermissionDenied => io::Error::other(format!(
            "{error}. Agents are confined: if it needs files beside its own and the system's, name them with --agent-sandbox-read"
        )),
        _ => error,
    }
}

#[cfg(target_os = "linux")]
fn prepare(plan: &Plan, limits: Limits) -> io::Result<()> {
    super::sandbox::enforce(plan)?;
    limits.apply()
}

#[cfg(not(target_os = "linux"))]
fn prepare(_: &Plan, _: Limits) -> io::Result<()> {
    Ok(())
}
