//! A conversation with an agent in a process of its own. The process is started when it is needed, and
//! anew when it has ended.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use baton_protocol::address::{readdress, readdress_params};
use baton_protocol::{Method, compose};
use baton_session::sync::MutexExt as _;
use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use super::memory::SessionMemory;
use super::peer::What;
use super::question::Question;
use super::replay::{ConversationPart, ReplayVerdict};
use super::sandbox::Place;
use super::seat::{self, Opened, Order, Seat};
use super::view::View;
use super::{Inner, OnCrash, Scope, fault};
use crate::agent::{Called, Changes, Conversation, Opening, Stage, StopReason, Turn, raw};
use crate::agent_policy::AgentMessage;
use crate::mcp::over_acp;
use crate::rpc::{self, Failure};

/// How long an agent may take to end a turn that was cancelled.
const CANCEL_PATIENCE: Duration = Duration::from_secs(10);
/// How often a turn is begun again whose agent ended in the middle of it.
const MAX_ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(500);
const SOON: Duration = Duration::from_millis(2);
/// How long an answer waits for what has to be told before it.
const TOLD_WITHIN: Duration = Duration::from_secs(5);

pub struct Talk {
    agent: Arc<Inner>,
    opening: Opening,
    memory: Mutex<SessionMemory>,
    /// The agent's process and the session's seat there, if it runs.
    seat: watch::Sender<Option<Arc<Seat>>>,
    /// Held while a seat is taken, so that it is done once.
    taking: AsyncMutex<()>,
}

impl Talk {
    pub fn new(agent: Arc<Inner>, opening: Opening) -> Self {
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
    fn taken(&self) -> Option<Arc<Seat>> {
        let seat = self.seat.borrow().clone();
        seat.filter(|seat| !seat.peer.is_gone())
    }

    /// Starts the agent if it does not run.
    pub async fn seat(&self) -> Result<Arc<Seat>, Failure> {
        let _one_at_a_time = self.taking.lock().await;
        if let Some(seat) = self.taken() {
            return Ok(seat);
        }
        let client = self.opening.client;
        let (peer, alone) = match self.agent.scope {
            Scope::Shared => (self.agent.pool.share(client).await?, false),
            Scope::Session | Scope::Turn => {
                let place = self.place()?;
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
        let order = Order {
            opening: &self.opening,
            before: before.as_deref(),
            shown: &shown,
            chosen: &chosen,
            abilities: self.agent.abilities,
            names: &self.agent.names,
            alone,
            patience: self.agent.pool.patience,
        };
        let Opened { seat, settled } = order.open(peer).await?;
        let updates = self.memory().opened(&seat.session, &shown, settled);
        // Clients are shown something else: they hear of it before all that the agent says.
        for update in updates.into_iter().rev() {
            seat.tell_first(compose::update(&seat.session, update));
        }
        let seat = Arc::new(seat);
        self.seat.send_replace(Some(seat.clone()));
        Ok(seat)
    }

    fn place(&self) -> Result<Place, Failure> {
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
        Ok(Place {
            cwd: Some(PathBuf::from(&self.opening.cwd)),
            directories: directories.filter(|path| path.is_absolute()).collect(),
            beneath: self.opening.beneath.clone(),
            home,
        })
    }

    /// The process ends with its last user.
    fn leave(&self) {
        self.seat.send_replace(None);
    }

    /// One attempt. The listener passes on the output meanwhile.
    async fn attempt(&self, turn: &Turn, prompt: &AgentMessage) -> Result<Box<RawValue>, Attempt> {
        let seat = tokio::select! {
            biased;
            () = turn.cancelled() => return Ok(StopReason::Cancelled.answer()),
            seat = self.seat() => seat.map_err(Attempt::Failed)?,
        };
        let withheld = self.memory().withheld();
        if let Some(failure) = withheld {
            // Clients get the current modes and options before the error.
            let told = async {
                while seat.has_more_to_tell() && !seat.peer.is_gone() {
                    sleep(SOON).await;
                }
            };
            let _ = timeout(TOLD_WITHIN, told).await;
            return Err(Attempt::Failed(failure));
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
                match timeout(CANCEL_PATIENCE, reply).await {
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
            Err(failure) if seat.peer.is_gone() => Err(Attempt::Gone(failure)),
            Err(failure) => Err(Attempt::Failed(failure)),
        }
    }

    /// Passes on what one process says, until it has nothing more to say.
    async fn hear(&self, seat: &Seat, stage: Stage<'_>) {
        let mut heard = seat.heard.lock().await;
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
                What::Answer { to, reply } => {
                    drop(to.send(reply));
                    // If it ends the turn, what the agent said after it comes after it.
                    yield_now().await;
                }
                What::Notice {
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
                What::Question {
                    id,
                    method,
                    params,
                    session,
                } => {
                    let question =
                        Question::new(seat.peer.clone(), id, self.opening.policy().clone());
                    match self.is_about_us(seat, session.as_deref()) {
                        true => {
                            let params = readdress_params(&params, self.opening.session.as_str());
                            questions.push(question.put(stage, method, params));
                        }
                        false => question.refuse("there is no such session here"),
                    }
                }
            }
        }
    }

    /// Whether the agent tells something of the past, which the log has.
    async fn is_replayed(&self, seat: &Seat, stage: Stage<'_>, line: &[u8]) -> bool {
        let replay = || seat.replay.locked();
        if replay().is_over() {
            return false;
        }
        let Some(part) = ConversationPart::of(line) else {
            return false;
        };
        let asked = matches!(stage, Stage::Turn(_));
        let verdict = replay().judge(&part, asked);
        if verdict != ReplayVerdict::Unsure {
            return verdict == ReplayVerdict::Replayed;
        }
        match seat::past(&self.opening).await {
            Ok(past) => replay().past_is(&past),
            Err(failure) => {
                tracing::warn!(session.id = %self.opening.session, why = failure.message, "the agent's replay cannot be compared with the log");
                replay().end();
            }
        }
        replay().judge(&part, asked) == ReplayVerdict::Replayed
    }

    /// An agent has no say in sessions that are not its own.
    fn is_about_us(&self, seat: &Seat, session: Option<&str>) -> bool {
        let ours = session.is_none_or(|session| session == seat.session);
        if !ours {
            tracing::warn!(session.id = %self.opening.session, "dropped an agent message that names another session");
        }
        ours
    }

    async fn pass_on(&self, stage: Stage<'_>, method: &str, line: Bytes) {
        if Method::of(method) == Method::Update && View::is_about_one(&line) {
            self.memory().change_view(|view| view.read(&line));
        }
        let message = match Method::of(method) {
            Method::McpMessage => self.to_server(&line),
            _ => Some(readdress(&line, self.opening.session.as_str())),
        };
        let Some(message) = message else { return };
        match stage {
            Stage::Turn(turn) => turn.forward(message).await,
            Stage::Rest(rest) => rest.forward(message).await,
        }
    }
}

impl Talk {
    /// A notification to an MCP server that lives in the client; `None` if it says of no request that it
    /// is about.
    fn to_server(&self, line: &[u8]) -> Option<Bytes> {
        let asked = rpc::asked(line).ok()?;
        let params = over_acp::outbound(&self.opening.session, &asked.method, asked.params).ok()?;
        Some(compose::notification(&asked.method, params))
    }
}

/// How an attempt at a turn ended.
enum Attempt {
    /// The agent answered with an error, or cannot be started.
    Failed(Failure),
    /// The agent ended in the middle of it.
    Gone(Failure),
}

#[async_trait]
impl Conversation for Talk {
    async fn prompt(&self, turn: &Turn, prompt: &AgentMessage) -> Result<Box<RawValue>, Failure> {
        if turn.was_interrupted() {
            match self.agent.on_crash {
                OnCrash::Fail => return Err(fault::interrupted()),
                OnCrash::Resume => turn.start_over(),
            }
        }
        let mut attempts = 1;
        let outcome = loop {
            match self.attempt(turn, prompt).await {
                Ok(result) => break Ok(result),
                Err(Attempt::Failed(failure)) => break Err(failure),
                Err(Attempt::Gone(failure)) => {
                    tracing::warn!(session.id = %turn.session(), failure.message, "the agent ended in the middle of a turn");
                    if self.agent.on_crash == OnCrash::Fail || attempts == MAX_ATTEMPTS {
                        break Err(failure);
                    }
                }
            }
            sleep(PAUSE * attempts).await;
            attempts += 1;
            turn.start_over();
        };
        if self.agent.scope == Scope::Turn {
            self.leave();
        }
        outcome
    }

    async fn call(&self, message: &AgentMessage) -> Result<Called, Failure> {
        let seat = self.seat().await?;
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
        Ok(Called { result, announces })
    }

    async fn notify(&self, message: &AgentMessage) -> Result<Called, Failure> {
        self.seat().await?.notify(message);
        Ok(Called {
            result: raw(&Value::Null),
            announces: None,
        })
    }

    async fn listen(&self, stage: Stage<'_>) {
        let mut seats = self.seat.subscribe();
        loop {
            let seat = seats.borrow_and_update().clone();
            if let Some(seat) = seat {
                self.hear(&seat, stage).await;
            }
            if seats.changed().await.is_err() {
                return;
            }
        }
    }

    fn stays(&self) -> Option<Duration> {
        self.taken().map(|_| self.agent.idle)
    }

    /// A turn cannot be moved: it ends with its agent's process.
    fn moves(&self) -> bool {
        false
    }

    fn view(&self) -> Bytes {
        self.memory().view_text()
    }

    fn changes(&self) -> Changes {
        self.memory().take_changes()
    }
}
