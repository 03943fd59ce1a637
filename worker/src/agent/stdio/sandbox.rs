//! The files that an agent's process may open: its session's directories, its HOME and a temporary
//! folder of its own, and of the system what programs need to run. The kernel enforces it
//! (Landlock), for all processes that it starts.
//!
//! A rule names a directory and holds for everything beneath it; there is none that takes something
//! out again. So a directory that holds something of ours is never granted as a whole: see
//! [`paths::without`].

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub use self::kernel::{LandlockSupport, support};
use self::paths::{GrantedPaths, without};
use crate::rpc::Failure;

#[cfg(target_os = "linux")]
mod kernel;
#[cfg(not(target_os = "linux"))]
#[path = "sandbox/no_kernel.rs"]
mod kernel;
mod paths;
#[cfg(target_os = "linux")]
pub mod processes;
#[cfg(not(target_os = "linux"))]
#[path = "sandbox/no_processes.rs"]
pub mod processes;
mod program;
mod system;

#[cfg(target_os = "linux")]
pub(super) use self::kernel::enforce;

/// How the operator wants agents confined.
#[derive(Clone, Debug, Default)]
pub struct SandboxConfig {
    /// More to read, beside what the system and the agent's program need.
    pub read: Vec<PathBuf>,
    /// More to read and write.
    pub write: Vec<PathBuf>,
    /// TCP ports to connect to; all unless given.
    pub connect: Option<Vec<u16>>,
    /// Ours, and never an agent's: the data directory and files with keys.
    pub kept: Vec<PathBuf>,
    /// Callers' own HOMEs are in it: each is for its caller's agents alone.
    pub homes: Option<PathBuf>,
    /// Agents see their own processes and no others, and so may read `/proc`.
    pub own_processes: bool,
    /// Processes are started before their sessions are known, or serve several: they get this
    /// directory, or everything that is not kept if there is none.
    pub common: Option<Option<PathBuf>>,
}

/// The same for all processes of a worker.
#[derive(Clone, Debug)]
pub struct Sandbox {
    read: GrantedPaths,
    write: GrantedPaths,
    common: GrantedPaths,
    /// The one in the environment of all processes.
    home: Option<PathBuf>,
    connect: Option<Vec<u16>>,
    /// With the HOMEs of callers.
    kept: Vec<PathBuf>,
    homes: Option<PathBuf>,
    own_processes: bool,
    /// The kernel was asked, and can: a process that it then does not confine is not started.
    pub support: LandlockSupport,
}

/// One process: where it runs and what it may write to.
#[derive(Clone, Debug, Default)]
pub struct ProcessPaths {
    /// Its working directory, if it is there: a remote client's directories need not be.
    pub cwd: Option<PathBuf>,
    /// The session's directories, as its client named them.
    pub directories: Vec<PathBuf>,
    /// These are beneath it. A link may have been put in their place since that was checked.
    pub beneath: Option<PathBuf>,
    pub home: Option<PathBuf>,
}

impl Sandbox {
    /// `command` is the agent's, `environment` what it gets.
    pub fn new(
        wanted: SandboxConfig,
        command: &[String],
        environment: &[(OsString, OsString)],
    ) -> Self {
        let homes = system::real(wanted.homes.as_slice()).pop();
        let mut ours = system::real(&wanted.kept);
        ours.extend(homes.clone());
        let kept = [ours.clone(), system::never()].concat();
        let mut read = system::readable(environment);
        read.extend(program::files(command, environment));
        let private = system::private();
        let read = without(read, &[ours.clone(), private.clone()].concat());
        let common = match wanted.common {
            None => GrantedPaths::default(),
            Some(Some(root)) => without([root], &kept),
            Some(None) => without(
                [PathBuf::from("/")],
                &[kept.clone(), private.clone()].concat(),
            ),
        };
        let write = system::devices().into_iter().chain(wanted.write);
        let home = environment.iter().find(|(name, _)| name == "HOME");
        let home = home.map(|(_, home)| PathBuf::from(home));
        Self {
            // An operator who names something private means it.
            read: read.and(without(wanted.read, &ours)),
            write: without(write, &ours),
            home: home.filter(|home| system::may_be_home(home)),
            common,
            connect: wanted.connect,
            kept,
            homes,
            own_processes: wanted.own_processes,
            support: support(),
        }
    }

    /// Refuses directories that hold something of ours, or of the kernel's.
    pub fn check(&self, field: &str, directory: &str) -> Result<(), Failure> {
        let Ok(real) = Path::new(directory).canonicalize() else {
            // A directory that does not exist is not granted either.
            return Ok(());
        };
        let Some(kept) = paths::held(&real, &self.kept) else {
            return Ok(());
        };
        tracing::warn!(
            directory,
            kept = %kept.display(),
            "a client asked for a session in a directory that holds what no agent may have: move \
             one of them, or start with --agent-sandbox none"
        );
        Err(Failure::invalid_params(format!(
            "params.{field} is {directory:?}, which holds files that agents may not have here: \
             send another directory. The operator can keep Baton's data and keys elsewhere, or use \
             --agent-sandbox none"
        )))
    }

    /// The same as arguments of `baton guard`, which hands them on to `baton confine`.
    pub(super) fn arguments(&self, paths: &ProcessPaths) -> Vec<OsString> {
        let mut arguments = Vec::new();
        let mut add = |flag: &str, paths: &[PathBuf]| {
            for path in paths {
                arguments.extend([OsString::from(flag), path.into()]);
            }
        };
        let home = paths.home.clone().or_else(|| self.home.clone());
        let kept = self.kept.iter();
        let kept: Vec<_> = kept
            .filter(|kept| Some(*kept) != self.homes.as_ref())
            .cloned()
            .collect();
        let home = without(home, &kept);
        for granted in [&self.write, &self.common, &home] {
            add("--write", &granted.whole);
            add("--list", &granted.listed);
        }
        add("--read", &self.read.whole);
        add("--list", &self.read.listed);
        add("--directory", &paths.directories);
        add("--beneath", paths.beneath.as_slice());
        add("--kept", &self.kept);
        for port in self.connect.iter().flatten() {
            arguments.extend(["--connect".into(), port.to_string().into()]);
        }
        if self.connect.is_some() {
            arguments.push("--no-other-ports".into());
        }
        if self.support.is_some() {
            arguments.push("--enforced".into());
        }
        if self.own_processes {
            arguments.push("--own-processes".into());
        }
        arguments
    }

    /// Once, for the operator: what holds agents, and what does not.
    pub fn log_confinement(&self) {
        let (confined, open) = (self.support.confines(), self.support.leaves_open());
        if !self.support.is_some() {
            tracing::warn!(
                open,
                "agents are not confined: this kernel has no Landlock, and an agent can open \
                 whatever this user can. Run workers as a user or in a container that may be lost"
            );
            return;
        }
        tracing::info!(
            abi = self.support.abi(),
            confined,
            open,
            processes = if self.own_processes { "own" } else { "system" },
            "agents are confined by Landlock"
        );
        if !self.common.whole.is_empty() {
            let directories = self.common.whole.iter().map(|path| path.to_string_lossy());
            let directories: Vec<_> = directories.take(8).collect();
            tracing::warn!(
                directories = directories.join(" "),
                "agents that serve several sessions, or start before theirs is known, are not \
                 confined to one session's directories: they may read and write all of these"
            );
        }
    }
}

/// The arguments of `baton confine`.
#[derive(Clone, Debug, Default)]
pub struct ConfinePlan {
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
    pub list: Vec<PathBuf>,
    pub directories: Vec<PathBuf>,
    pub beneath: Option<PathBuf>,
    pub kept: Vec<PathBuf>,
    /// TCP ports to connect to; all if `None`.
    pub connect: Option<Vec<u16>>,
    pub enforced: bool,
    /// The process that confines itself is the first of the agent's own.
    pub own_processes: bool,
    /// It ends where it would start the agent.
    pub try_out: bool,
}
