//! Which agent a worker runs, and how.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use baton_worker::agent::llm::mcp_server::McpLaunch;
use baton_worker::agent::stdio::confine::confine;
use baton_worker::agent::stdio::guard::{AgentIdentity, ConfineStep, ProcessLimits, guard};
use baton_worker::agent::stdio::sandbox::{Sandbox, SandboxConfig};
use baton_worker::agent::stdio::{
    AgentAuth, LaunchConfig, OnCrash, ProcessScope, StartFailure, StdioAgent, StdioConfig,
    environment,
};
use baton_worker::agent::{Agent, scripted::ScriptedAgent};
use baton_worker::{PerPrincipal, WorkerMetrics, WorkspaceRoot};
use clap::{Args, ValueEnum};
use nix::unistd::{Uid, User};

use self::known::{KNOWN, KnownAgent, by_name};
use self::sandbox::{PlanArguments, SandboxOptions};
use crate::agent_policy::ClientTrust;
use crate::exit::ConfigurationError;
use crate::headings::AGENT;
use crate::llm::{LlmOptions, LlmSurroundings};

pub mod installed;
pub mod known;
mod sandbox;

/// Before the command line of an agent that is a program.
const PROGRAM: &str = "stdio:";
/// The built-in agent that talks to a model.
pub const LLM_AGENT: &str = "llm";
/// Ourselves, also if the file has been replaced by a newer version meanwhile.
const OURSELVES: &str = "/proc/self/exe";

#[derive(Args)]
pub struct AgentOptions {
    /// Agent: scripted, llm, a product's name, or stdio:COMMAND
    ///
    /// The program speaks ACP on its standard input and output. The agents named scripted and llm
    /// are built in: scripted needs nothing, llm a model endpoint (--llm-url). A name such as
    /// claude or codex stands for the command of that product and for the environment variables
    /// that it reads; `baton agents` lists them.
    #[arg(
        long,
        env = "BATON_AGENT",
        default_value = "scripted",
        value_name = "AGENT",
        help_heading = AGENT
    )]
    agent: String,
    /// Sessions that share one agent process
    #[arg(long, env = "BATON_AGENT_SCOPE", default_value = "session", help_heading = AGENT)]
    agent_scope: ScopeOption,
    /// End of a turn whose agent or worker crashed
    #[arg(long, env = "BATON_ON_CRASH", default_value = "fail", help_heading = AGENT)]
    on_crash: OnCrashOption,
    /// Time until an idle agent process is stopped
    ///
    /// Such as 10m or 30s. The session stays; the next prompt starts a new process.
    #[arg(
        long,
        env = "BATON_AGENT_IDLE",
        default_value = "10m",
        value_parser = humantime::parse_duration,
        value_name = "TIME",
        help_heading = AGENT
    )]
    agent_idle: Duration,
    /// Maximum number of agent processes that are started in advance
    ///
    /// As many are kept ready as sessions began within the time of one start during the last
    /// minute, at least one.
    #[arg(
        long,
        env = "BATON_AGENT_WARM",
        default_value_t = 0,
        value_name = "N",
        help_heading = AGENT
    )]
    agent_warm: usize,
    /// Time for an agent to start and to open a session
    #[arg(
        long,
        env = "BATON_AGENT_START_TIMEOUT",
        default_value = "60s",
        value_parser = humantime::parse_duration,
        value_name = "TIME",
        help_heading = AGENT
    )]
    agent_start_timeout: Duration,
    /// Environment variables that agents inherit from the worker
    ///
    /// Agents always inherit PATH, HOME and the like.
    #[arg(
        long,
        env = "BATON_AGENT_ENV",
        value_delimiter = ',',
        value_name = "NAME",
        help_heading = AGENT
    )]
    agent_env: Vec<String>,
    /// Memory limit of each agent process, in MiB
    #[arg(long, env = "BATON_AGENT_MEMORY", value_name = "MIB", help_heading = AGENT)]
    agent_memory: Option<u64>,
    /// Memory of all agent processes of the worker, in MiB
    ///
    /// A session is taken only if there is memory for another process; the others are left to
    /// other workers, or wait. Linux only.
    #[arg(long, env = "BATON_AGENT_MEMORY_TOTAL", value_name = "MIB", help_heading = AGENT)]
    agent_memory_total: Option<u64>,
    /// CPU time limit of each agent process, in seconds
    #[arg(long, env = "BATON_AGENT_CPU", value_name = "SECONDS", help_heading = AGENT)]
    agent_cpu: Option<u64>,
    /// Open file limit of each agent process
    #[arg(long, env = "BATON_AGENT_FILES", value_name = "N", help_heading = AGENT)]
    agent_files: Option<u64>,
    /// Maximum length of a line that an agent writes, in MiB
    #[arg(
        long,
        env = "BATON_AGENT_LINE",
        default_value_t = 32,
        value_name = "MIB",
        help_heading = AGENT
    )]
    agent_line: usize,
    /// Readers of an agent's standard error
    #[arg(long, env = "BATON_AGENT_STDERR", default_value = "log", help_heading = AGENT)]
    agent_stderr: StderrOption,
    /// HOME of agents, instead of the worker's
    ///
    /// {principal} in the path stands for a directory per caller.
    #[arg(long, env = "BATON_AGENT_HOME", value_name = "DIR", help_heading = AGENT)]
    agent_home: Option<PathBuf>,
    /// Who logs in at the agent
    #[arg(long, env = "BATON_AGENT_AUTH", default_value = "operator", help_heading = AGENT)]
    agent_auth: AuthOption,
    /// User that agents run as; requires root
    ///
    /// The agent has the primary group of the user and no other.
    #[arg(long, env = "BATON_AGENT_USER", value_name = "NAME", help_heading = AGENT)]
    agent_user: Option<String>,
    #[command(flatten)]
    llm: LlmOptions,
    #[command(flatten)]
    sandbox: SandboxOptions,
}

/// Paths and services beside the agent, and which of them it may use.
pub struct AgentSurroundings<'a> {
    /// Ours, and never an agent's.
    pub kept: &'a [PathBuf],
    pub root: Option<&'a WorkspaceRoot>,
    pub clients: ClientTrust,
    pub metrics: &'a WorkerMetrics,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum StderrOption {
    /// The log
    Log,
    /// The log, and the client whose request failed
    Client,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum AuthOption {
    /// The operator, beforehand and for all callers
    Operator,
    /// Each caller through its client, with a HOME of its own in --agent-home
    Caller,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum ScopeOption {
    /// Each session has a process
    Session,
    /// Each turn has a process
    Turn,
    /// All sessions of the worker share a process
    Shared,
}

#[derive(Clone, Copy, ValueEnum)]
enum OnCrashOption {
    /// The turn ends with an error
    Fail,
    /// The turn runs once more
    Resume,
}

impl AgentOptions {
    pub fn faults(&self) -> Vec<String> {
        let mut faults: Vec<String> = self.command().err().into_iter().collect();
        faults.extend(
            self.agent_env
                .iter()
                .filter_map(|name| environment::refusal(name)),
        );
        let numbers = [
            ("--agent-memory", self.agent_memory),
            ("--agent-memory-total", self.agent_memory_total),
            ("--agent-cpu", self.agent_cpu),
            ("--agent-files", self.agent_files),
            ("--agent-line", Some(self.agent_line as u64)),
        ];
        for (flag, _) in numbers.iter().filter(|(_, number)| *number == Some(0)) {
            faults.push(format!("{flag} 0: no agent could run with that"));
        }
        let shared = self.agent_scope == ScopeOption::Shared;
        if self.agent_memory_total.is_some() {
            faults.extend(self.memory_total_faults());
        }
        if shared && self.agent_stderr == StderrOption::Client {
            faults.push(
                "--agent-stderr client: with --agent-scope shared one caller would read what is \
                 said of another's session; leave it at log"
                    .into(),
            );
        }
        faults.extend(self.user().err());
        match self.homes() {
            Err(fault) => faults.push(fault),
            Ok(_) if self.agent_auth == AuthOption::Caller => faults.extend(self.login_faults()),
            Ok(Some(homes)) if self.serves_several() && !homes.is_one_for_all() => faults.push(
                "--agent-home with {principal}: a process of --agent-scope shared or --agent-warm \
                 is not one caller's"
                    .into(),
            ),
            Ok(_) => {}
        }
        faults.extend(self.sandbox.faults());
        if self.agent == LLM_AGENT {
            faults.extend(self.llm.faults());
        }
        faults
    }

    /// Our own files, which agents must not read.
    pub fn kept(&self) -> Vec<PathBuf> {
        self.llm.kept()
    }

    fn memory_total_faults(&self) -> Option<String> {
        let total = "--agent-memory-total";
        if self.agent_scope == ScopeOption::Shared {
            return Some(format!(
                "{total}: with --agent-scope shared all sessions have one process; use --slots and \
                 --agent-memory"
            ));
        }
        let is_linux = cfg!(target_os = "linux");
        (!is_linux).then(|| format!("{total}: only Linux says what processes take; use --slots"))
    }

    fn login_faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.serves_several() {
            faults.push(
                "--agent-auth caller: a process of --agent-scope shared or --agent-warm is not one \
                 caller's; use --agent-scope session or turn, and no --agent-warm"
                    .into(),
            );
        }
        let placeholder = |home: &PathBuf| home.to_string_lossy().contains("{principal}");
        match &self.agent_home {
            None => faults.push(
                "--agent-auth caller: name the folder for the callers' own HOMEs with \
                 --agent-home DIR"
                    .into(),
            ),
            Some(home) if placeholder(home) => faults.push(format!(
                "--agent-home {}: with --agent-auth caller name the folder alone; each caller gets \
                 one of its own in it",
                home.display()
            )),
            Some(_) => {}
        }
        faults
    }

    /// A process may serve sessions of several callers, or is started before its session is known.
    pub fn serves_several(&self) -> bool {
        self.agent_scope == ScopeOption::Shared || self.agent_warm > 0
    }

    fn user(&self) -> Result<Option<User>, String> {
        let Some(name) = &self.agent_user else {
            return Ok(None);
        };
        let fault = |what: &str| Err(format!("--agent-user {name:?}: {what}"));
        match User::from_name(name) {
            _ if !Uid::effective().is_root() => {
                fault("only root can start agents as somebody else")
            }
            Err(error) => fault(&error.to_string()),
            Ok(None) => fault("there is no such user here"),
            Ok(Some(user)) if user.uid.is_root() => {
                fault("agents of root are not safe: name another")
            }
            Ok(user) => Ok(user),
        }
    }

    /// User and group that own the agents' directories, if not ours.
    pub fn owner(&self) -> Option<(u32, u32)> {
        let user = self.user().ok().flatten()?;
        Some((user.uid.as_raw(), user.gid.as_raw()))
    }

    fn homes(&self) -> Result<Option<PerPrincipal>, String> {
        let open = |path: &PathBuf| {
            let fault = |error| format!("--agent-home {}: {error}", path.display());
            let homes = PerPrincipal::open(path).map_err(fault)?;
            let homes = homes.owned_by(self.owner());
            Ok(match self.agent_auth {
                AuthOption::Caller => homes.hashed(),
                AuthOption::Operator => homes,
            })
        };
        self.agent_home.as_ref().map(open).transpose()
    }

    /// The names of `--agent-env` and of a product's row. Callers that log in for themselves get
    /// nothing of the row: it has the operator's keys, and folders that would be one login for all.
    fn passed_variables(&self) -> Vec<String> {
        let operators = |_: &&KnownAgent| self.agent_auth == AuthOption::Operator;
        let known = self.known().filter(operators).into_iter();
        let known = known.flat_map(KnownAgent::environment).map(str::to_owned);
        self.agent_env.iter().cloned().chain(known).collect()
    }

    /// The environment variables that agents get, and their own HOMEs.
    fn environment(&self) -> (Vec<(OsString, OsString)>, Option<PerPrincipal>) {
        let mut environment = environment::scrubbed(std::env::vars_os(), &self.passed_variables());
        if let Ok(Some(user)) = self.user() {
            environment
                .retain(|(name, _)| !["HOME", "LOGNAME", "USER"].iter().any(|own| name == own));
            environment.push(("HOME".into(), user.dir.into()));
            environment
                .extend(["LOGNAME", "USER"].map(|name| (name.into(), user.name.clone().into())));
        }
        let Some(homes) = self.homes().ok().flatten() else {
            return (environment, None);
        };
        environment.retain(|(name, _)| name != "HOME");
        if homes.is_one_for_all() {
            environment.push(("HOME".into(), homes.base().into()));
            return (environment, None);
        }
        (environment, Some(homes))
    }

    /// Where programs without a path are looked for.
    pub fn search_path(&self) -> OsString {
        let (environment, _) = self.environment();
        let path = environment.into_iter().find(|(name, _)| name == "PATH");
        path.map(|(_, path)| path).unwrap_or_default()
    }

    /// The agent's name, if it is built in.
    pub fn built_in(&self) -> Option<&'static str> {
        ["scripted", LLM_AGENT]
            .into_iter()
            .find(|name| self.agent == *name)
    }

    /// The program and its arguments, as a shell would take them apart; `None` for a built-in
    /// agent.
    pub fn command(&self) -> Result<Option<Vec<String>>, String> {
        if self.built_in().is_some() {
            return Ok(None);
        }
        if let Some(known) = self.known() {
            let words = known.command.iter();
            return Ok(Some(words.map(|word| (*word).to_owned()).collect()));
        }
        let fault = |what: &str| Err(format!("--agent {:?}: {what}", self.agent));
        let Some(command) = self.agent.strip_prefix(PROGRAM) else {
            let names: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
            return fault(&format!(
                "the agents are: scripted, llm, {}, stdio:COMMAND",
                names.join(", ")
            ));
        };
        match shlex::split(command) {
            Some(words) if !words.is_empty() => Ok(Some(in_place(words))),
            Some(_) => fault("there is no command after stdio:"),
            None => fault("a quotation in the command has no end"),
        }
    }

    /// The product that `--agent` names.
    pub fn known(&self) -> Option<&'static KnownAgent> {
        by_name(&self.agent)
    }

    /// The product's variables with credentials, if none of them is set here.
    pub fn missing_credentials(&self) -> Option<&'static KnownAgent> {
        let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let without = |known: &&KnownAgent| !known.credentials.iter().any(is_set);
        let operators = |_: &&KnownAgent| self.agent_auth == AuthOption::Operator;
        self.known().filter(operators).filter(without)
    }

    /// Starts it, if it is a program, to learn what it is.
    pub async fn agent(&self, around: AgentSurroundings<'_>) -> anyhow::Result<Arc<dyn Agent>> {
        let command = self
            .command()
            .map_err(|fault| ConfigurationError(vec![fault]))?;
        let Some(command) = command else {
            return self.built_in_agent(around);
        };
        if self.known().is_some()
            && let Some(fault) = installed::fault(&command, &self.search_path())
        {
            anyhow::bail!("--agent {}: {fault}", self.agent);
        }
        let stdio = StdioAgent::start(self.config(command, around)).await;
        let stdio = stdio.map_err(
            |StartFailure {
                 failure,
                 last_words,
             }| {
                let said = last_words.join("\n  ");
                if said.is_empty() {
                    anyhow::anyhow!(failure.message)
                } else {
                    anyhow::anyhow!("{}\nIt said:\n  {said}", failure.message)
                }
            },
        );
        Ok(Arc::new(stdio.context(self.agent.clone())?))
    }

    fn built_in_agent(&self, around: AgentSurroundings<'_>) -> anyhow::Result<Arc<dyn Agent>> {
        if self.agent != LLM_AGENT {
            return Ok(Arc::new(ScriptedAgent));
        }
        let (environment, homes) = self.environment();
        let launch = self.launch(Vec::new(), environment, homes);
        let metrics = around.metrics.models.clone();
        let mcp = McpLaunch::new(launch, self.sandbox_config(around));
        let agent = self.llm.agent(LlmSurroundings {
            mcp,
            idle: self.agent_idle,
            metrics,
        });
        Ok(agent.map_err(|fault| ConfigurationError(vec![fault]))?)
    }

    fn config(&self, command: Vec<String>, around: AgentSurroundings<'_>) -> StdioConfig {
        let (environment, homes) = self.environment();
        let metrics = around.metrics.agent_processes.clone();
        StdioConfig {
            launch: LaunchConfig {
                sandbox: self.confined(&command, &environment, around),
                ..self.launch(command, environment, homes)
            },
            scope: match self.agent_scope {
                ScopeOption::Session => ProcessScope::Session,
                ScopeOption::Turn => ProcessScope::Turn,
                ScopeOption::Shared => ProcessScope::Shared,
            },
            auth: match self.agent_auth {
                AuthOption::Operator => AgentAuth::Operator,
                AuthOption::Caller => AgentAuth::Caller,
            },
            on_crash: match self.on_crash {
                OnCrashOption::Fail => OnCrash::Fail,
                OnCrashOption::Resume => OnCrash::Resume,
            },
            idle: self.agent_idle,
            warm: self.agent_warm,
            memory_total: self.agent_memory_total.map(|mib| mib << 20),
            metrics,
            start_timeout: self.agent_start_timeout,
            line_limit: self.agent_line << 20,
        }
    }
}

impl AgentOptions {
    /// How a process is started, but not how it is confined.
    fn launch(
        &self,
        command: Vec<String>,
        environment: Vec<(OsString, OsString)>,
        homes: Option<PerPrincipal>,
    ) -> LaunchConfig {
        LaunchConfig {
            command,
            guard: PathBuf::from(OURSELVES),
            environment,
            user: self.owner(),
            homes,
            limits: ProcessLimits {
                memory: self.agent_memory.map(|mib| mib << 20),
                cpu: self.agent_cpu,
                files: self.agent_files,
            },
            sandbox: None,
            stderr_to_client: self.agent_stderr == StderrOption::Client,
        }
    }

    /// Says what confines agents, and what does not.
    fn confined(
        &self,
        command: &[String],
        environment: &[(OsString, OsString)],
        around: AgentSurroundings<'_>,
    ) -> Option<Sandbox> {
        let sandbox = Sandbox::new(self.sandbox_config(around)?, command, environment);
        sandbox.log_confinement();
        Some(sandbox)
    }

    /// Paths that a process may open beside those that its command needs.
    fn sandbox_config(&self, around: AgentSurroundings<'_>) -> Option<SandboxConfig> {
        let common = self
            .serves_several()
            .then(|| around.root.map(WorkspaceRoot::path));
        let Some(mut wanted) = self.sandbox.wanted(around.kept, common) else {
            tracing::warn!(
                "agents are not confined (--agent-sandbox none): they can open whatever this user \
                 can"
            );
            return None;
        };
        // Some agents' programs end without `/proc`. On somebody's own machine there is nobody else
        // whose processes it could show.
        match around.clients {
            ClientTrust::Local => wanted.read.push("/proc".into()),
            ClientTrust::Anybody => {
                let ourselves = Path::new(OURSELVES);
                wanted.own_processes = self.sandbox.own_processes(ourselves, self.owner());
            }
        }
        if self.agent_auth == AuthOption::Caller {
            let homes = self.homes().ok().flatten();
            wanted.homes = homes.map(|homes| homes.base().to_owned());
        }
        Some(wanted)
    }
}

/// Agents run in their session's directory, so a relative path of an existing file is made
/// absolute. Links are left as they are: a Python of a virtual environment is one, and finds its
/// packages by its own name only.
fn in_place(words: Vec<String>) -> Vec<String> {
    let absolute = |(number, word): (usize, String)| {
        // A program without a path is looked for in PATH.
        let is_path = number > 0 || word.contains('/');
        let is_file = is_path && std::path::Path::new(&word).exists();
        let found = std::path::absolute(&word).ok().filter(|_| is_file);
        let found = found.and_then(|path| Some(path.to_str()?.to_owned()));
        found.unwrap_or(word)
    };
    words.into_iter().enumerate().map(absolute).collect()
}

/// `baton guard`, which workers start and nobody else, and `baton confine`, which it starts.
#[derive(Args)]
pub struct GuardArguments {
    #[arg(long)]
    memory: Option<u64>,
    #[arg(long)]
    cpu: Option<u64>,
    #[arg(long)]
    files: Option<u64>,
    #[arg(long)]
    user: Option<u32>,
    #[arg(long)]
    group: Option<u32>,
    #[arg(long)]
    private_home: bool,
    #[arg(long)]
    in_temporary_folder: bool,
    #[command(flatten)]
    plan: PlanArguments,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

impl GuardArguments {
    fn limits(&self) -> ProcessLimits {
        ProcessLimits {
            memory: self.memory,
            cpu: self.cpu,
            files: self.files,
        }
    }

    pub fn guard(&self) -> ExitCode {
        let own = std::env::args_os().skip(2);
        let confined = self.plan.sandbox.then(|| ConfineStep {
            program: PathBuf::from(OURSELVES),
            arguments: own.take_while(|argument| argument != "--").collect(),
            own_processes: self.plan.own_processes,
            in_temporary_folder: self.in_temporary_folder,
        });
        let identity = AgentIdentity {
            user: self.user.zip(self.group),
            private_home: self.private_home,
        };
        guard(self.limits(), confined, identity, &self.command)
    }

    pub fn confine(&self) -> ExitCode {
        let user = self.user.zip(self.group);
        confine(&self.plan.plan(), self.limits(), user, &self.command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: AgentOptions,
    }

    #[test]
    fn the_operators_keys_are_not_for_callers_that_log_in() {
        let passed = |more: &[&'static str]| {
            let words = ["baton", "--agent", "claude", "--agent-env", "MINE"];
            let line = <Line as clap::Parser>::parse_from([&words[..], more].concat());
            line.options.passed_variables()
        };
        let of_operator = passed(&[]);
        assert!(of_operator.contains(&"ANTHROPIC_API_KEY".to_owned()));
        assert!(of_operator.contains(&"MINE".to_owned()));
        assert_eq!(passed(&["--agent-auth", "caller"]), ["MINE"]);
    }

    #[test]
    fn files_are_found_from_elsewhere_and_links_stay_links() {
        let dir = tempfile::TempDir::new().expect("a temporary directory");
        let link = dir.path().join("python");
        std::os::unix::fs::symlink("/bin/sh", &link).expect("a link");
        let link = link.to_str().expect("a plain path");
        // Tests run in the package's folder.
        let words = [link, "Cargo.toml", "acp", "./nothing"].map(str::to_owned);
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        assert_eq!(in_place(words.to_vec()), [link, file, "acp", "./nothing"]);
        assert_eq!(in_place(vec!["Cargo.toml".into()]), ["Cargo.toml"]);
    }
}
