//! A conversation with an agent in a process of its own. The process is started when it is needed, and
//! anew when it has ended.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use baton_protocol::address::{readdress, readdress_params};
use baton_protocol::{Method, compose};
use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use super::memory::SessionMemory;
use super::connection::AgentOutput;
use super::agent_request::AgentRequest;
use super::replay::{ConversationPart, ReplayVerdict};
use super::sandbox::ProcessPaths;
use super::agent_session::{self, OpenedSession, OpenRequest, AgentSession};
use super::settings_view::SettingsView;
use super::{StdioShared, OnCrash, ProcessScope, failures};
use crate::agent::{CallResult, ConversationChanges, Conversation, SessionOpening, ListenContext, StopReason, Turn, raw};
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
    /// The agent's process and the session's seat there, if it runs.
    seat: watch::Sender<Option<Arc<AgentSession>>>,
    /// Held while a seat is taken, so that it is done once.
    taking: AsyncMutex<()>,
}

impl StdioConversation {
    pub fn new(agent: Arc<StdioShared>, opening: SessionOpening) -> Self {
        let memory = SessionMemory::read(&opening);
        Self {
            agent,
            opening,
            memory: Mutex::new(memory),
            seat: watch::channel(None).0,
            taking: AsyncMutex::default(),
        }
    }

    fn memory(&self) -> MutexGuard<'_, SessionMemory> {
        self.memory.locked()
    }

    /// The seat that there is, if its agent is still there.
    fn current_session(&self) -> Option<Arc<AgentSession>> {
        let seat = self.seat.borrow().clone();
        seat.filter(|seat| !seat.peer.is_gone())
    }

    /// Starts the agent if it does not run.
    pub async fn agent_session(&self) -> Result<Arc<AgentSession>, Failure> {
        let _one_at_a_time = self.taking.lock().await;
        if let Some(seat) = self.current_session() {
            return Ok(seat);
        }
        let client = self.opening.client;
        let (peer, alone) = match self.agent.scope {
            ProcessScope::Shared => (self.agent.pool.share(client).await?, false),
            ProcessScope::Session | ProcessScope::Turn => {
                let place = self.process_paths()?;
                (self.agent.pool.take(client, &place).await?, true)
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
        let order = OpenRequest {
            opening: &self.opening,
            before: before.as_deref(),
            shown: &shown,
            chosen: &chosen,
            abilities: self.agent.abilities,
            names: &self.agent.names,
            alone,
            patience: self.agent.pool.patience,
        };
        let OpenedSession { seat, settled } = order.open(peer).await?;
        let updates = self.memory().opened(&seat.session, &shown, settled);
        // Clients are shown something else: they hear of it before all that the agent says.
        for update in updates.into_iter().rev() {
            seat.push_first(compose::update(&seat.session, update));
        }
        let seat = Arc::new(seat);
        self.seat.send_replace(Some(seat.clone()));
        Ok(seat)
    }

    fn process_paths(&self) -> Result<ProcessPaths, Failure> {
        let more = self.opening.directories();
        let more = more.as_array().into_iter().flatten();
        let more = more.filter_map(|directory| directory.as_str());
        let directories = std::iter::once(self.opening.cwd.as_str()).chain(more);
        let directories = directories.map(PathBuf::from);
        let homes = self.agent.pool.launch.homes.as_ref();
        let home = homes
            .map(|homes| homes.of(&self.opening.principal))
            .transpose();
        let home = home.map_err(|error| {
            tracing::error!(%error, "a caller's own HOME beneath --agent-home cannot be made");
            Failure::internal("your own HOME cannot be made; the worker's log says why")
        })?;
        Ok(ProcessPaths {
            cwd: Some(PathBuf::from(&self.opening.cwd)),
            directories: directories.filter(|path| path.is_absolute()).collect(),
            beneath: self.opening.beneath.clone(),
            home,
        })
    }

    /// The process ends with its last user.
    fn drop_session(&self) {
        self.seat.send_replace(None);
    }

    /// One attempt. The listener passes on the output meanwhile.
    async fn attempt(&self, turn: &Turn, prompt: &AgentMessage) -> Result<Box<RawValue>, AttemptError> {
        let seat = tokio::select! {
            biased;
            () = turn.cancelled() => return Ok(StopReason::Cancelled.answer()),
            seat = self.agent_session() => seat.map_err(AttemptError::Failed)?,
        };
        let withheld = self.memory().withheld();
        if let Some(failure) = withheld {
            // Clients get the current modes and options before the error.
            let told = async {
                while seat.has_early_output() && !seat.peer.is_gone() {
                    sleep(POLL_INTERVAL).await;
                }
            };
            let _ = timeout(UPDATES_TIMEOUT, told).await;
            return Err(AttemptError::Failed(failure));
        }
        let context = seat.context.locked().clone();
        let bound = turn.bound();
        let bound = (!bound.is_empty()).then_some(Value::Object(bound));
        let prompt = prompt.with_context(context, bound);
        let mut reply = Box::pin(seat.call(&prompt));
        let reply = tokio::select! {
            biased;
            reply = &mut reply => reply,
            () = turn.cancelled() => {
                let nobody = json!({ "sessionId": "" });
                seat.notify(&AgentMessage::own(Method::Cancel, &nobody));
                match timeout(CANCEL_TIMEOUT, reply).await {
                    // Many abort with an error. They were asked to.
                    Ok(reply) => Ok(reply.unwrap_or_else(|_| StopReason::Cancelled.answer())),
                    Err(_) => {
                        tracing::warn!(session.id = %turn.session(), "the agent did not end a cancelled turn: stopping it");
                        self.agent.stop(&seat);
                        Ok(StopReason::Cancelled.answer())
                    }
                }
            }
        };
        match reply {
            Ok(result) => {
                // From here on it knows, and has told what it had to tell.
                seat.replay.locked().end();
                seat.context.locked().take();
                Ok(result)
            }
            Err(failure) if seat.peer.is_gone() => Err(AttemptError::Gone(failure)),
            Err(failure) => Err(AttemptError::Failed(failure)),
        }
    }

    /// Passes on what one process says, until it has nothing more to say.
    async fn pass_on_output(&self, seat: &AgentSession, stage: ListenContext<'_>) {
        let mut heard = seat.output.lock().await;
        let mut questions = FuturesUnordered::new();
        loop {
            let early = seat.early.locked().pop_front();
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
                // Nobody waits for it if the turn was given up.
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
                    if self.is_about_us(seat, session.as_deref())
                        && !self.is_replayed(seat, stage, &line).await
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
                    let question =
                        AgentRequest::new(seat.peer.clone(), id, self.opening.policy().clone());
                    if self.is_about_us(seat, session.as_deref()) {
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
    async fn is_replayed(&self, seat: &AgentSession, stage: ListenContext<'_>, line: &[u8]) -> bool {
        let replay = || seat.replay.locked();
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
                tracing::warn!(session.id = %self.opening.session, why = failure.message, "the agent's replay cannot be compared with the log");
                replay().end();
            }
        }
        replay().judge(&part, asked) == ReplayVerdict::Replayed
    }

    /// An agent has no say in sessions that are not its own.
    fn is_about_us(&self, seat: &AgentSession, session: Option<&str>) -> bool {
        let ours = session.is_none_or(|session| session == seat.session);
        if !ours {
            tracing::warn!(session.id = %self.opening.session, "dropped an agent message that names another session");
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
    /// A notification to an MCP server that lives in the client; `None` if it says of no request that it
    /// is about.
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
                    tracing::warn!(session.id = %turn.session(), failure.message, "the agent ended in the middle of a turn");
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
        let seat = self.agent_session().await?;
        let asked: Value = rpc::read(message.params())?;
        let result = seat.call(message).await?;
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
        let mut seats = self.seat.subscribe();
        loop {
            let seat = seats.borrow_and_update().clone();
            if let Some(seat) = seat {
                self.pass_on_output(&seat, stage).await;
            }
            if seats.changed().await.is_err() {
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
