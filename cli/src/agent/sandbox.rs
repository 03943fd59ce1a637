//! Options for how agents are confined, and what the step that confines them is told.

use std::path::{Path, PathBuf};

use baton_worker::agent::stdio::sandbox::{ConfinePlan, SandboxConfig, processes, support};
use clap::{Args, ValueEnum};

use crate::headings::SANDBOX;

const DEFAULT: &str = if cfg!(target_os = "linux") {
    "landlock"
} else {
    "none"
};

#[derive(Args)]
pub struct SandboxOptions {
    /// Files that agents can open
    ///
    /// Applies to all processes that an agent starts. Landlock is a feature of the Linux kernel.
    #[arg(long, env = "BATON_AGENT_SANDBOX", default_value = DEFAULT, help_heading = SANDBOX)]
    agent_sandbox: SandboxKind,
    /// Further paths that confined agents may read
    ///
    /// Files and directories, separated by commas.
    #[arg(
        long,
        env = "BATON_AGENT_SANDBOX_READ",
        value_delimiter = ',',
        value_name = "PATHS",
        help_heading = SANDBOX
    )]
    agent_sandbox_read: Vec<PathBuf>,
    /// Further paths that confined agents may read and write
    ///
    /// Files and directories, separated by commas.
    #[arg(
        long,
        env = "BATON_AGENT_SANDBOX_WRITE",
        value_delimiter = ',',
        value_name = "PATHS",
        help_heading = SANDBOX
    )]
    agent_sandbox_write: Vec<PathBuf>,
    /// TCP ports that confined agents may connect to, such as 443, or none
    ///
    /// Several are separated by commas. Without this option they may connect to all ports.
    #[arg(
        long,
        env = "BATON_AGENT_CONNECT",
        value_delimiter = ',',
        value_name = "PORTS",
        help_heading = SANDBOX
    )]
    agent_connect: Option<Vec<String>>,
    /// Processes that confined agents see in /proc
    #[arg(long, env = "BATON_AGENT_PROCESSES", default_value = "own", help_heading = SANDBOX)]
    agent_processes: ProcessesOption,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum ProcessesOption {
    /// The processes that they started, where the system permits it
    Own,
    /// All processes of the system, without their contents
    System,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum SandboxKind {
    /// Only the session's directory and the paths of --agent-sandbox-read and --agent-sandbox-write
    Landlock,
    /// All files that the user can open
    None,
}

impl SandboxOptions {
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let paths = [
            ("--agent-sandbox-read", &self.agent_sandbox_read),
            ("--agent-sandbox-write", &self.agent_sandbox_write),
        ];
        for (flag, paths) in paths {
            if self.agent_sandbox == SandboxKind::None && !paths.is_empty() {
                faults.push(format!(
                    "{flag}: agents are not confined with --agent-sandbox none"
                ));
            }
            let wrong = paths
                .iter()
                .filter(|path| !path.is_absolute() || !path.exists());
            faults.extend(
                wrong.map(|path| {
                    format!("{flag} {}: an absolute path that is there", path.display())
                }),
            );
        }
        if let Err(fault) = self.ports() {
            faults.push(fault);
        }
        if self.agent_connect.is_some() {
            faults.extend(match self.agent_sandbox {
                SandboxKind::None => Some(
                    "--agent-connect: agents are not confined with --agent-sandbox none".into(),
                ),
                SandboxKind::Landlock if !support().confines_tcp() => Some(
                    "--agent-connect: this kernel cannot confine TCP; that takes Linux 6.7 with \
                     Landlock"
                        .into(),
                ),
                SandboxKind::Landlock => None,
            });
        }
        if self.agent_sandbox == SandboxKind::Landlock && !cfg!(target_os = "linux") {
            faults.push("--agent-sandbox landlock: there is no such thing on this system".into());
        }
        faults
    }

    fn ports(&self) -> Result<Option<Vec<u16>>, String> {
        let Some(ports) = &self.agent_connect else {
            return Ok(None);
        };
        let ports = ports.iter().map(|port| port.trim());
        let ports = ports.filter(|port| !port.is_empty() && *port != "none");
        let ports = ports.map(|port| {
            let fault =
                |_| format!("--agent-connect {port:?}: ports are numbers from 0 to 65535, or none");
            port.parse::<u16>().map_err(fault)
        });
        Ok(Some(ports.collect::<Result<_, _>>()?))
    }

    /// `None` if agents are not confined. `common` is for processes that serve several sessions.
    pub fn wanted(&self, kept: &[PathBuf], common: Option<Option<&Path>>) -> Option<SandboxConfig> {
        (self.agent_sandbox == SandboxKind::Landlock).then(|| SandboxConfig {
            read: self.agent_sandbox_read.clone(),
            write: self.agent_sandbox_write.clone(),
            connect: self.ports().ok().flatten(),
            kept: kept.to_vec(),
            homes: None,
            own_processes: false,
            common: common.map(|root| root.map(Path::to_owned)),
        })
    }
}

impl SandboxOptions {
    /// Whether agents get processes of their own. Says why not, if they were to.
    pub fn own_processes(&self, ourselves: &Path, user: Option<(u32, u32)>) -> bool {
        if self.agent_processes == ProcessesOption::System {
            return false;
        }
        let tried = processes::check_support(ourselves, user);
        if let Err(reason) = &tried {
            tracing::warn!(
                reason,
                "agents have no processes of their own here, so /proc is closed to what they \
                 start: programs that need it fail. The reason may be a container's seccomp \
                 profile, user.max_user_namespaces, or AppArmor"
            );
        }
        tried.is_ok()
    }
}

/// For `baton guard`, which hands it on to `baton confine`.
#[derive(Args)]
pub struct PlanArguments {
    /// The agent is confined.
    #[arg(long)]
    pub sandbox: bool,
    #[arg(long)]
    read: Vec<PathBuf>,
    #[arg(long)]
    write: Vec<PathBuf>,
    #[arg(long)]
    list: Vec<PathBuf>,
    #[arg(long)]
    directory: Vec<PathBuf>,
    #[arg(long)]
    beneath: Option<PathBuf>,
    #[arg(long)]
    kept: Vec<PathBuf>,
    #[arg(long)]
    connect: Vec<u16>,
    #[arg(long)]
    no_other_ports: bool,
    #[arg(long)]
    enforced: bool,
    #[arg(long)]
    pub own_processes: bool,
    #[arg(long)]
    try_out: bool,
}

impl PlanArguments {
    pub fn plan(&self) -> ConfinePlan {
        ConfinePlan {
            read: self.read.clone(),
            write: self.write.clone(),
            list: self.list.clone(),
            directories: self.directory.clone(),
            beneath: self.beneath.clone(),
            kept: self.kept.clone(),
            connect: self.no_other_ports.then(|| self.connect.clone()),
            enforced: self.enforced,
            own_processes: self.own_processes,
            try_out: self.try_out,
        }
    }
}
