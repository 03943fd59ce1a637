//! A conversation with an agent in a process of its own. The process is started when it is needed,
//! and again after it has ended.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use baton_protocol::address::{readdress, readdress_params};
use baton_protocol::{Method, compose};
use baton_session::command::ClientCapabilities;
use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use super::agent_request::AgentRequest;
use super::agent_session::{self, AgentSession, OpenRequest, OpenedSession};
use super::client_profile::ClientProfile;
use super::connection::AgentOutput;
use super::memory::SessionMemory;
use super::replay::{ConversationPart, ReplayVerdict};
use super::sandbox::ProcessPaths;
use super::settings_view::SettingsView;
use super::{OnCrash, ProcessScope, StdioShared, failures};
use crate::agent::{
    AskingClient, CallResult, Conversation, ConversationChanges, ListenContext, SessionOpening,
    StopReason, Turn, raw,
};
use crate::agent_policy::AgentMessage;
use crate::mcp::over_acp;
use crate::rpc::{self, Failure};
use baton_session::sync::MutexExt as _;

/// How long an agent may take to end a turn that was cancelled.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a turn is begun again whose agent ended in the middle of it.
const MAX_ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(500);
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// How long an answer waits for what has to be told before it.
const UPDATES_TIMEOUT: Duration = Duration::from_secs(5);

pub struct StdioConversation {
    agent: Arc<StdioShared>,
    opening: SessionOpening,
    memory: Mutex<SessionMemory>,
    /// The session at the agent's process, if that runs.
    agent_session: watch::Sender<Option<Arc<AgentSession>>>,
    /// Held while the session is opened, so that it is opened once.
    taking: AsyncMutex<()>,
}

impl StdioConversation {
    pub fn new(agent: Arc<StdioShared>, opening: SessionOpening) -> Self {
        let memory = SessionMemory::read(&opening);
        Self {
            agent,
            opening,
            memory: Mutex::new(memory),
            agent_session: watch::channel(None).0,
            taking: AsyncMutex::default(),
        }
    }

    fn memory(&self) -> MutexGuard<'_, SessionMemory> {
        self.memory.locked()
    }

    /// The open session, if its agent is still there.
    fn current_session(&self) -> Option<Arc<AgentSession>> {
        let agent_session = self.agent_session.borrow().clone();
        agent_session.filter(|agent_session| !agent_session.connection.is_gone())
    }

    /// Starts the agent if it does not run.
    pub async fn agent_session(&self) -> Result<Arc<AgentSession>, Failure> {
        let _one_at_a_time = self.taking.lock().await;
        if let Some(agent_session) = self.current_session() {
            return Ok(agent_session);
        }
        let client = &self.profile_of(self.controller().as_ref()).await;
        let (connection, alone) = match self.agent.scope {
            ProcessScope::Shared => (self.agent.pool.share(client).await?, false),
            ProcessScope::Session | ProcessScope::Turn => {
                let paths = self.process_paths()?;
                let connection = self.agent.pool.take(client, &paths).await?;
                self.agent
                    .running
                    .note(&self.opening.principal, &connection);
                (connection, true)
            }
        };
        let (before, shown, chosen) = {
            let memory = self.memory();
            (
                memory.agent_session.clone(),
                memory.shown(),
                memory.chosen(),
            )
        };
        let request = OpenRequest {
            opening: &self.opening,
            client,
            before: before.as_deref(),
            shown: &shown,
            chosen: &chosen,
            abilities: self.agent.abilities,
            names: &self.agent.names,
            alone,
            patience: self.agent.pool.patience,
        };
        let OpenedSession {
            agent_session,
            settled,
        } = request.open(connection).await?;
        let updates = self
            .memory()
            .opened(&agent_session.session, &shown, settled);
        // Clients are shown something else: they hear of it before all that the agent says.
        for update in updates.into_iter().rev() {
            agent_session.push_first(compose::update(&agent_session.session, update));
        }
        let agent_session = Arc::new(agent_session);
        self.agent_session.send_replace(Some(agent_session.clone()));
        Ok(agent_session)
    }

    /// The client that the agent's requests go to: the one that sent the last prompt, or has opened
    /// the session.
    fn controller(&self) -> Option<AskingClient> {
        let known = self.memory().controller();
        known.or_else(|| self.opening.client.clone())
    }

    async fn profile_of(&self, client: Option<&AskingClient>) -> ClientProfile {
        let Some(client) = client else {
            return ClientProfile::of_letters(ClientCapabilities::default());
        };
        let (store, policy) = (self.opening.store(), self.opening.policy());
        let profile = self.agent.clients.of(client, store, policy).await;
        let profile = profile.unwrap_or_else(|error| {
            tracing::warn!(
                session.id = %self.opening.session,
                %error,
                "the description of a client cannot be read"
            );
            ClientProfile::of_letters(client.capabilities)
        });
        if self.agent.scope == ProcessScope::Shared {
            profile.without_name()
        } else {
            profile
        }
    }

    /// An agent learns only when it starts what its client can do. So it is started again if the
    /// turn's client can do something else: else it would ask this one for what it cannot do, or
    /// never for what it can.
    async fn serve(&self, client: &AskingClient) {
        let _one_at_a_time = self.taking.lock().await;
        self.memory().set_controller(client);
        let Some(agent_session) = self.current_session() else {
            return;
        };
        let profile = self.profile_of(Some(client)).await;
        if profile.can_the_same(&agent_session.client) {
            return;
        }
        tracing::info!(
            session.id = %self.opening.session,
            "the client of the turn has other capabilities: starting the agent again"
        );
        self.drop_session();
        self.agent.stop(&agent_session);
        if self.agent.scope != ProcessScope::Shared {
            // It may be writing what the next one reads.
            agent_session.connection.ended().await;
        }
        agent_session.leave();
    }

    fn process_paths(&self) -> Result<ProcessPaths, Failure> {
        let more = self.opening.directories();
        let more = more.as_array().into_iter().flatten();
        let more = more.filter_map(|directory| directory.as_str());
        let directories = std::iter::once(self.opening.cwd.as_str()).chain(more);
        let directories = directories.map(PathBuf::from);
        let home = self.agent.home_of(&self.opening.principal)?;
        Ok(ProcessPaths {
            cwd: Some(PathBuf::from(&self.opening.cwd)),
            directories: directories.filter(|path| path.is_absolute()).collect(),
            beneath: self.opening.beneath.clone(),
            home,
        })
    }

    /// The process ends with its last user.
    fn drop_session(&self) {
        self.agent_session.send_replace(None);
    }

    /// One attempt. The listener passes on the output meanwhile.
    async fn attempt(
        &self,
        turn: &Turn,
        prompt: &AgentMessage,
    ) -> Result<Box<RawValue>, AttemptError> {
        let started = async {
            self.serve(turn.asking_client()).await;
            self.agent_session().await
        };
        let agent_session = tokio::select! {
            biased;
            () = turn.cancelled() => return Ok(StopReason::Cancelled.answer()),
            agent_session = started => agent_session.map_err(AttemptError::Failed)?,
        };
        let withheld = self.memory().withheld();
        if let Some(failure) = withheld {
            // Clients get the current modes and options before the error.
            let told = async {
                while agent_session.has_early_output() && !agent_session.connection.is_gone() {
                    sleep(POLL_INTERVAL).await;
                }
            };
            let _ = timeout(UPDATES_TIMEOUT, told).await;
            return Err(AttemptError::Failed(failure));
        }
        let context = agent_session.context.locked().clone();
        let bound = turn.bound();
        let bound = (!bound.is_empty()).then_some(Value::Object(bound));
        let prompt = prompt.with_context(context, bound);
        let mut reply = Box::pin(agent_session.call(&prompt));
        let reply = tokio::select! {
            biased;
            reply = &mut reply => reply,
            () = turn.cancelled() => {
                let nobody = json!({ "sessionId": "" });
                agent_session.notify(&AgentMessage::own(Method::Cancel, &nobody));
                match timeout(CANCEL_TIMEOUT, reply).await {
                    // Many abort with an error. They were asked to.
                    Ok(reply) => Ok(reply.unwrap_or_else(|_| StopReason::Cancelled.answer())),
                    Err(_) => {
                        tracing::warn!(
                            session.id = %turn.session(),
                            "the agent did not end a cancelled turn: stopping it"
                        );
                        self.agent.stop(&agent_session);
                        Ok(StopReason::Cancelled.answer())
                    }
                }
            }
        };
        match reply {
            Ok(result) => {
                // From here on it knows, and has told what it had to tell.
                agent_session.replay.locked().end();
                agent_session.context.locked().take();
                Ok(result)
            }
            Err(failure) if agent_session.connection.is_gone() => Err(AttemptError::Gone(failure)),
            Err(failure) => Err(AttemptError::Failed(failure)),
        }
    }

    /// Passes on what one process says, until it has nothing more to say.
    async fn pass_on_output(&self, agent_session: &AgentSession, stage: ListenContext<'_>) {
        let mut heard = agent_session.output.lock().await;
        let mut questions = FuturesUnordered::new();
        loop {
            let early = agent_session.early.locked().pop_front();
            let what = match early {
                Some(what) => what,
                None => tokio::select! {
                    biased;
                    Some(()) = questions.next(), if !questions.is_empty() => continue,
                    heard = heard.recv() => match heard {
                        Some(heard) => heard.what,
                        None => return,
                    },
                },
            };
            match what {
                // Nobody waits for it if the turn was abandoned.
                AgentOutput::Answer { to, reply } => {
                    drop(to.send(reply));
                    // If it ends the turn, what the agent said after it comes after it.
                    yield_now().await;
                }
                AgentOutput::Notice {
                    line,
                    method,
                    session,
                } => {
                    if self.is_about_us(agent_session, session.as_deref())
                        && !self.is_replayed(agent_session, stage, &line).await
                    {
                        self.pass_on(stage, &method, line).await;
                    }
                }
                AgentOutput::Question {
                    id,
                    method,
                    params,
                    session,
                } => {
                    let question = AgentRequest::new(
                        agent_session.connection.clone(),
                        id,
                        self.opening.policy().clone(),
                    );
                    if self.is_about_us(agent_session, session.as_deref()) {
                        let params = readdress_params(&params, self.opening.session.as_str());
                        questions.push(question.put(stage, method, params));
                    } else {
                        question.refuse("there is no such session here")
                    }
                }
            }
        }
    }

    /// Whether the agent tells something of the past, which the log has.
    async fn is_replayed(
        &self,
        agent_session: &AgentSession,
        stage: ListenContext<'_>,
        line: &[u8],
    ) -> bool {
        let replay = || agent_session.replay.locked();
        if replay().is_over() {
            return false;
        }
        let Some(part) = ConversationPart::of(line) else {
            return false;
        };
        let asked = matches!(stage, ListenContext::Turn(_));
        let verdict = replay().judge(&part, asked);
        if verdict != ReplayVerdict::Unsure {
            return verdict == ReplayVerdict::Replayed;
        }
        match agent_session::logged_conversation(&self.opening).await {
            Ok(past) => replay().past_is(&past),
            Err(failure) => {
                tracing::warn!(
                    session.id = %self.opening.session,
                    why = failure.message,
                    "the agent's replay cannot be compared with the log"
                );
                replay().end();
            }
        }
        replay().judge(&part, asked) == ReplayVerdict::Replayed
    }

    /// An agent has no say in sessions that are not its own.
    fn is_about_us(&self, agent_session: &AgentSession, session: Option<&str>) -> bool {
        let ours = session.is_none_or(|session| session == agent_session.session);
        if !ours {
            tracing::warn!(
                session.id = %self.opening.session,
                "dropped an agent message that names another session"
            );
        }
        ours
    }

    async fn pass_on(&self, stage: ListenContext<'_>, method: &str, line: Bytes) {
        if Method::of(method) == Method::Update && SettingsView::is_about_one(&line) {
            self.memory().change_view(|view| view.read(&line));
        }
        let message = match Method::of(method) {
            Method::McpMessage => self.mcp_notification(&line),
            _ => Some(readdress(&line, self.opening.session.as_str())),
        };
        let Some(message) = message else { return };
        match stage {
            ListenContext::Turn(turn) => turn.forward(message).await,
            ListenContext::Rest(rest) => rest.forward(message).await,
        }
    }
}

impl StdioConversation {
    /// A notification to an MCP server that lives in the client; `None` if it says of no request
    /// that it is about.
    fn mcp_notification(&self, line: &[u8]) -> Option<Bytes> {
        let asked = rpc::client_call(line).ok()?;
        let params = over_acp::outbound(&self.opening.session, &asked.method, asked.params).ok()?;
        Some(compose::notification(&asked.method, params))
    }
}

/// How an attempt at a turn ended.
enum AttemptError {
    /// The agent answered with an error, or cannot be started.
    Failed(Failure),
    /// The agent ended in the middle of it.
    Gone(Failure),
}

#[async_trait]
impl Conversation for StdioConversation {
    async fn prompt(&self, turn: &Turn, prompt: &AgentMessage) -> Result<Box<RawValue>, Failure> {
        if turn.was_interrupted() {
            match self.agent.on_crash {
                OnCrash::Fail => return Err(failures::interrupted()),
                OnCrash::Resume => turn.discard_replay(),
            }
        }
        let mut attempts = 1;
        let outcome = loop {
            match self.attempt(turn, prompt).await {
                Ok(result) => break Ok(result),
                Err(AttemptError::Failed(failure)) => break Err(failure),
                Err(AttemptError::Gone(failure)) => {
                    tracing::warn!(
                        session.id = %turn.session(),
                        failure.message,
                        "the agent ended in the middle of a turn"
                    );
                    if self.agent.on_crash == OnCrash::Fail || attempts == MAX_ATTEMPTS {
                        break Err(failure);
                    }
                }
            }
            sleep(PAUSE * attempts).await;
            attempts += 1;
            turn.discard_replay();
        };
        if self.agent.scope == ProcessScope::Turn {
            self.drop_session();
        }
        outcome
    }

    async fn call(&self, message: &AgentMessage) -> Result<CallResult, Failure> {
        let agent_session = self.agent_session().await?;
        let asked: Value = rpc::read(message.params())?;
        let result = agent_session.call(message).await?;
        let announces = match Method::of(message.method()) {
            // If the agent has told everybody, the view has changed by now.
            Method::SetMode => {
                let mode = &asked["modeId"];
                let changed = self.memory().set_mode(mode);
                changed.then(
                    || json!({ "sessionUpdate": "current_mode_update", "currentModeId": mode }),
                )
            }
            Method::SetModel => {
                self.memory().set_model(&asked["modelId"]);
                None
            }
            Method::SetConfigOption => {
                let result: Value = serde_json::from_str(result.get()).unwrap_or_default();
                let options = &result["configOptions"];
                let changed = self.memory().set_option(&asked, options);
                changed.then(
                    || json!({ "sessionUpdate": "config_option_update", "configOptions": options }),
                )
            }
            _ => None,
        };
        Ok(CallResult { result, announces })
    }

    async fn notify(&self, message: &AgentMessage) -> Result<CallResult, Failure> {
        self.agent_session().await?.notify(message);
        Ok(CallResult {
            result: raw(&Value::Null),
            announces: None,
        })
    }

    async fn listen(&self, stage: ListenContext<'_>) {
        let mut agent_sessions = self.agent_session.subscribe();
        loop {
            let agent_session = agent_sessions.borrow_and_update().clone();
            if let Some(agent_session) = agent_session {
                self.pass_on_output(&agent_session, stage).await;
            }
            if agent_sessions.changed().await.is_err() {
                return;
            }
        }
    }

    fn idle_timeout(&self) -> Option<Duration> {
        self.current_session().map(|_| self.agent.idle)
    }

    /// A turn cannot be moved: it ends with its agent's process.
    fn can_move(&self) -> bool {
        false
    }

    fn view(&self) -> Bytes {
        self.memory().view_text()
    }

    fn changes(&self) -> ConversationChanges {
        self.memory().take_changes()
    }
}
