//! Any ACP agent as a subprocess: a program that speaks ACP on its standard input and output. A
//! worker is its client, and passes everything on in both directions as it was said, with other
//! ids.
//!
//! | file | what |
//! |---|---|
//! | [`guard`] | a process between worker and agent: nothing of an agent outlives its worker |
//! | [`sandbox`], [`mod@confine`] | what an agent may open, and the step that holds it there |
//! | `process` | how an agent is started, and how it ended |
//! | `client_profile` | what an agent is told of its client when it starts |
//! | `caller_logins` | callers that log in at the agent, each for itself |
//! | `message`, `connection` | JSON-RPC with one process |
//! | `pool`, `start_demand`, `start_backoff` | which process a session gets; when none is started |
//! | `running_processes`, `process_tree` | how much memory they take, and whether there is room |
//! | `agent_session`, `replay`, `transcript` | a session at a process: restored, or told again |
//! | `conversation`, `agent_request` | the conversation: prompts and the agent's requests |
//! | `memory`, `settings_view`, `chosen_settings` | modes and options as they are and were chosen |
//! | `environment`, `failures` | the variables of an agent; errors when it fails |

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use baton_protocol::LOGIN_DIRECTORY;
use baton_session::command::ClientCapabilities;
use baton_session::store::{AgentCard, MAX_AGENT_NAME};
use serde_json::Value;

use self::agent_session::{AgentSession, SessionAbilities};
use self::agent_session_names::AgentSessionNames;
use self::caller_logins::{CallersProcesses, LoginConversation};
use self::client_profile::{ClientProfile, ClientProfiles};
use self::conversation::StdioConversation;
use self::pool::AgentPool;
pub use self::pool::StartFailure;
pub(crate) use self::process::AgentProcess;
pub use self::process::LaunchConfig;
pub(crate) use self::running_processes::RunningProcesses;
use self::sandbox::ProcessPaths;
use super::{Agent, AgentRoom, Conversation, Failure, SessionOpening};
use crate::metrics::AgentProcessMetrics;

mod agent_request;
mod agent_session;
mod agent_session_names;
mod caller_logins;
mod chosen_settings;
mod client_profile;
pub mod confine;
mod connection;
mod conversation;
pub mod environment;
mod failures;
#[cfg(any(fuzzing, test))]
pub(crate) mod fuzzing;
pub mod guard;
mod memory;
mod message;
mod pool;
mod process;
mod process_tree;
mod replay;
mod running_processes;
pub mod sandbox;
mod settings_view;
mod start_backoff;
mod start_demand;
mod transcript;

/// Which sessions share a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessScope {
    /// Each session has its own, for as long as it is in use.
    Session,
    /// Each turn has its own.
    Turn,
    /// All sessions of a worker have one.
    Shared,
}

/// How a turn ends whose agent or worker stopped in the middle of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnCrash {
    /// It ends with an error, and may be asked for again.
    Fail,
    /// The agent gets the prompt once more. Its earlier output stays.
    Resume,
}

/// Who logs in at the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentAuth {
    /// The operator, for all callers.
    Operator,
    /// Each caller, with a HOME of its own.
    Caller,
}

#[derive(Clone, Debug)]
pub struct StdioConfig {
    pub launch: LaunchConfig,
    pub scope: ProcessScope,
    pub on_crash: OnCrash,
    pub auth: AgentAuth,
    /// How long an agent may rest before it is stopped.
    pub idle: Duration,
    /// How many agents are kept ready at most.
    pub warm: usize,
    /// The memory that all agents of the worker may take together, in bytes.
    pub memory_total: Option<u64>,
    pub metrics: AgentProcessMetrics,
    /// How long an agent may take to start and to open a session.
    pub start_timeout: Duration,
    /// The longest line that an agent may write.
    pub line_limit: usize,
}

pub struct StdioAgent {
    inner: Arc<StdioShared>,
    card: AgentCard,
}

struct StdioShared {
    pool: Arc<AgentPool>,
    names: Arc<AgentSessionNames>,
    clients: ClientProfiles,
    auth: AgentAuth,
    running: CallersProcesses,
    scope: ProcessScope,
    on_crash: OnCrash,
    idle: Duration,
    abilities: SessionAbilities,
}

impl StdioShared {
    /// The principal's own HOME, if each has one.
    fn home_of(&self, principal: &str) -> Result<Option<PathBuf>, Failure> {
        let homes = self.pool.launch.homes.as_ref();
        let home = homes.map(|homes| homes.of(principal)).transpose();
        home.map_err(|error| {
            tracing::error!(%error, "a caller's own HOME beneath --agent-home cannot be made");
            Failure::internal("your own HOME cannot be made; the worker's log says why")
        })
    }

    /// One that does not listen. If others are with it, they go on.
    fn stop(&self, agent_session: &AgentSession) {
        if self.scope != ProcessScope::Shared {
            agent_session.connection.kill();
        }
    }
}

impl StdioAgent {
    /// Starts the agent once, to learn what it is.
    pub async fn start(mut config: StdioConfig) -> Result<Self, StartFailure> {
        // The stderr of a shared process may be about any caller's session.
        config.launch.stderr_to_client &= config.scope != ProcessScope::Shared;
        let command = config.launch.command.first().cloned().unwrap_or_default();
        let pool = Arc::new(AgentPool::new(&config));
        let client = ClientProfile::of_letters(ClientCapabilities::default());
        let (connection, initialize) = pool.start(&client, &ProcessPaths::default()).await?;
        pool.measure().await;
        if let Some(total) = config.memory_total {
            failures::check_memory(pool.running.expected(), total)?;
        }
        tokio::spawn(AgentPool::tend(Arc::downgrade(&pool)));
        if config.warm > 0 || config.scope == ProcessScope::Shared {
            pool.put(&client, connection);
        }
        let (mut initialize, auth) = (initialize, config.auth);
        let logins = match auth {
            AgentAuth::Operator => None,
            AgentAuth::Caller => {
                let client = ClientProfile::with_terminal_logins();
                let (_, told) = pool.start(&client, &ProcessPaths::default()).await?;
                Some(told["authMethods"].clone())
            }
        };
        caller_logins::announce(&mut initialize, logins);
        let inner = StdioShared {
            auth,
            running: CallersProcesses::default(),
            pool,
            names: Arc::default(),
            clients: ClientProfiles::default(),
            scope: config.scope,
            on_crash: config.on_crash,
            idle: config.idle,
            abilities: SessionAbilities::of(&initialize),
        };
        Ok(Self {
            inner: Arc::new(inner),
            card: card(&command, initialize),
        })
    }
}

/// An agent that does not say its name has that of its program.
fn card(command: &str, initialize: Value) -> AgentCard {
    let program = command.rsplit('/').next().unwrap_or(command);
    let info = &initialize["agentInfo"];
    AgentCard {
        name: plain(info["name"].as_str().unwrap_or(program)),
        version: info["version"].as_str().unwrap_or("unknown").to_owned(),
        initialize,
    }
}

/// Names are part of URLs. Some agents have those of packages, such as `@scope/agent`.
fn plain(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "-_.".contains(c) {
            c
        } else {
            '-'
        }
    };
    let name: String = name.chars().map(plain).take(MAX_AGENT_NAME).collect();
    let name = name.trim_start_matches(['-', '_', '.']);
    if AgentCard::is_name(name) {
        name.to_owned()
    } else {
        "agent".to_owned()
    }
}

#[async_trait]
impl Agent for StdioAgent {
    fn card(&self) -> AgentCard {
        self.card.clone()
    }

    fn room_for(&self, sessions: usize) -> AgentRoom {
        self.inner.pool.room_for(sessions)
    }

    /// A session that is new hears from its agent at once what it offers, or why it cannot be. Any
    /// other has been told, and starts its agent when something is asked of it.
    async fn open(&self, session: &SessionOpening) -> Result<Arc<dyn Conversation>, Failure> {
        if session.cwd == LOGIN_DIRECTORY {
            let login = LoginConversation::new(self.inner.clone(), session.clone());
            return Ok(Arc::new(login));
        }
        if let Some(sandbox) = &self.inner.pool.launch.sandbox {
            sandbox.check("cwd", &session.cwd)?;
            for directory in session.directories().as_array().into_iter().flatten() {
                let directory = directory.as_str().unwrap_or_default();
                sandbox.check("additionalDirectories", directory)?;
            }
        }
        let talk = StdioConversation::new(self.inner.clone(), session.clone());
        if session.state.is_empty() {
            talk.agent_session().await?;
        }
        Ok(Arc::new(talk))
    }
}
