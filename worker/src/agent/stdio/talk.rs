//! A conversation with an agent in a process of its own. The process is started when it is needed, and
//! anew when it has ended.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use baton_session::event::readdress;
use baton_session::field::MAX_VIEW;
use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use super::choices::{Choice, Choices, Subject};
use super::peer::What;
use super::question::Question;
use super::replay::{Part, Verdict};
use super::sandbox::Place;
use super::seat::{self, Opened, Order, Seat, Settled};
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
    memory: Mutex<Memory>,
    /// The agent's process and the session's seat there, if it runs.
    seat: watch::Sender<Option<Arc<Seat>>>,
    /// Held while a seat is taken, so that it is done once.
    taking: AsyncMutex<()>,
}

/// What is kept of a session beside its log.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Memory {
    /// Whose memory this is: a fork inherits its parent's.
    session: String,
    /// The agent's name for the session.
    agent_session: Option<String>,
    view: Value,
    /// What was chosen of it. Builds before this one did not keep it apart: then all of it was.
    #[serde(default)]
    chosen: Option<Choices>,
    /// What the agent has refused of that when it was started last, and may do more without.
    #[serde(default)]
    refused: Vec<Choice>,
    #[serde(skip)]
    unsaved: bool,
    /// It was said that the agent shows too much.
    #[serde(skip)]
    warned: bool,
}

impl Memory {
    fn chosen(&self) -> Choices {
        let view = || View::from_value(self.view.clone());
        let chosen = self.chosen.clone();
        chosen.unwrap_or_else(|| Choices::shown(&view()))
    }
}

impl Talk {
    pub fn new(agent: Arc<Inner>, opening: Opening) -> Self {
        let mut memory: Memory = serde_json::from_slice(&opening.state).unwrap_or_default();
        let own = memory.session == opening.session.as_str();
        if !own {
            // The agent's own session is the parent's. The fork gets another.
            memory.agent_session = None;
            memory.session = opening.session.to_string();
        }
        Self {
            agent,
            opening,
            memory: Mutex::new(memory),
            seat: watch::channel(None).0,
            taking: AsyncMutex::default(),
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().expect("held for moments only")
    }

    /// What the agent changes is chosen, as is what it is asked to change.
    fn change_view(&self, change: impl FnOnce(&mut View) -> bool) -> bool {
        let before = View::from_value(self.memory().view.clone());
        let changed = self.replace_view(change);
        if changed {
            self.choose(|choices, now| choices.follow(&before, now));
        }
        changed
    }

    fn choose(&self, choose: impl FnOnce(&mut Choices, &View)) {
        let mut memory = self.memory();
        let view = View::from_value(memory.view.clone());
        let mut chosen = memory.chosen();
        choose(&mut chosen, &view);
        let is_so = |choice: &Choice| view.value(&choice.what) == Some(&choice.value);
        memory
            .refused
            .retain(|choice| !chosen.has_replaced(choice) && !is_so(choice));
        memory.chosen = Some(chosen);
        memory.unsaved = true;
    }

    fn replace_view(&self, change: impl FnOnce(&mut View) -> bool) -> bool {
        let mut memory = self.memory();
        let mut view = View::from_value(memory.view.clone());
        if !change(&mut view) {
            return false;
        }
        let view = view.to_value();
        let (length, most) = (view.to_string().len(), MAX_VIEW);
        if length > most {
            // An agent may try as often as it likes.
            if !std::mem::replace(&mut memory.warned, true) {
                tracing::warn!(
                    session.id = %self.opening.session,
                    length,
                    most,
                    "what the agent shows is too long: kept what it has shown before"
                );
            }
            return false;
        }
        memory.view = view;
        memory.unsaved = true;
        true
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
            let shown = View::from_value(memory.view.clone());
            (memory.agent_session.clone(), shown, memory.chosen())
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
        self.remember(&seat, &shown, settled);
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

    fn remember(&self, seat: &Seat, shown: &View, settled: Settled) {
        let Settled { view, refused } = settled;
        let mut memory = self.memory();
        if memory.agent_session.as_deref() != Some(&seat.session) {
            memory.agent_session = Some(seat.session.clone());
            memory.unsaved = true;
        }
        let mut chosen = memory.chosen();
        // Of what was merely shown, as builds before this one kept it, only the mode was surely wanted.
        let was_chosen = memory.chosen.is_some();
        let guards = |choice: &Choice| choice.guards() && (was_chosen || choice.is_mode());
        let (refused, given_up): (Vec<_>, Vec<_>) = refused.into_iter().partition(guards);
        given_up.iter().for_each(|choice| chosen.forget(choice));
        if memory.chosen.as_ref() != Some(&chosen) || memory.refused != refused {
            memory.chosen = Some(chosen);
            memory.refused = refused;
            memory.unsaved = true;
        }
        drop(memory);
        if !shown.is_empty() {
            // Clients are shown something else: they hear of it first of all.
            for update in view.differences_to(shown).into_iter().rev() {
                seat.tell_first(rpc::update(&seat.session, update));
            }
        }
        self.replace_view(|known| known.renew(view));
    }

    /// Why no turn runs, if the agent may do more now than was wanted.
    fn withheld(&self) -> Option<Failure> {
        let memory = self.memory();
        let refused: Vec<String> = memory.refused.iter().map(Choice::told).collect();
        (!refused.is_empty()).then(|| fault::withheld(&refused))
    }

    /// The process goes when nobody has it any more.
    fn leave(&self) {
        self.seat.send_replace(None);
    }

    /// One attempt. What is said meanwhile is passed on by whoever listens.
    async fn attempt(&self, turn: &Turn, prompt: &AgentMessage) -> Result<Box<RawValue>, Attempt> {
        let seat = tokio::select! {
            biased;
            () = turn.cancelled() => return Ok(StopReason::Cancelled.answer()),
            seat = self.seat() => seat.map_err(Attempt::Failed)?,
        };
        if let Some(failure) = self.withheld() {
            // Everybody hears before how the session is now.
            let told = async {
                while seat.has_more_to_tell() && !seat.peer.is_gone() {
                    sleep(SOON).await;
                }
            };
            let _ = timeout(TOLD_WITHIN, told).await;
            return Err(Attempt::Failed(failure));
        }
        let context = seat.context.lock().expect("held for moments only").clone();
        let bound = turn.bound();
        let bound = (!bound.is_empty()).then_some(Value::Object(bound));
        let prompt = prompt.with_context(context, bound);
        let mut reply = Box::pin(seat.call(&prompt));
        let reply = tokio::select! {
            biased;
            reply = &mut reply => reply,
            () = turn.cancelled() => {
                let nobody = json!({ "sessionId": "" });
                seat.notify(&AgentMessage::own("session/cancel", &nobody));
                match timeout(CANCEL_PATIENCE, reply).await {
                    // Many abort with an error. They were asked to.
                    Ok(reply) => Ok(reply.unwrap_or_else(|_| StopReason::Cancelled.answer())),
                    Err(_) => {
                        tracing::warn!(session.id = %turn.session(), "the agent goes on with a turn that was cancelled: it is stopped");
                        self.agent.stop(&seat);
                        Ok(StopReason::Cancelled.answer())
                    }
                }
            }
        };
        match reply {
            Ok(result) => {
                // From here on it knows, and has told what it had to tell.
                seat.replay.lock().expect("held for moments only").end();
                seat.context.lock().expect("held for moments only").take();
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
            let early = seat
                .early
                .lock()
                .expect("held for moments only")
                .pop_front();
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
                            let params = rpc::readdress(&params, self.opening.session.as_str());
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
        let replay = || seat.replay.lock().expect("held for moments only");
        if replay().is_over() {
            return false;
        }
        let Some(part) = Part::of(line) else {
            return false;
        };
        let asked = matches!(stage, Stage::Turn(_));
        let verdict = replay().judge(&part, asked);
        if verdict != Verdict::Unsure {
            return verdict == Verdict::Replayed;
        }
        match seat::past(&self.opening).await {
            Ok(past) => replay().past_is(&past),
            Err(failure) => {
                tracing::warn!(session.id = %self.opening.session, why = failure.message, "what the agent says cannot be compared with the log");
                replay().end();
            }
        }
        replay().judge(&part, asked) == Verdict::Replayed
    }

    /// An agent has no say in sessions that are not its own.
    fn is_about_us(&self, seat: &Seat, session: Option<&str>) -> bool {
        let ours = session.is_none_or(|session| session == seat.session);
        if !ours {
            tracing::warn!(session.id = %self.opening.session, "the agent named a session that is not its own: the message is dropped");
        }
        ours
    }

    async fn pass_on(&self, stage: Stage<'_>, method: &str, line: Bytes) {
        if method == "session/update" && View::is_about_one(&line) {
            self.change_view(|view| view.read(&line));
        }
        let message = match method {
            over_acp::MESSAGE => self.to_server(&line),
            _ => Some(readdress(&line, &self.opening.session)),
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
        Some(rpc::notification(&asked.method, params))
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
        let announces = match message.method() {
            // If the agent has told everybody, the view has changed by now.
            "session/set_mode" => {
                let mode = &asked["modeId"];
                let changed = self.change_view(|view| view.set_mode(mode));
                self.choose(|choices, view| choices.choose(Subject::Mode, mode.clone(), view));
                changed.then(
                    || json!({ "sessionUpdate": "current_mode_update", "currentModeId": mode }),
                )
            }
            "session/set_model" => {
                let model = &asked["modelId"];
                self.change_view(|view| view.set_model(model));
                self.choose(|choices, view| choices.choose(Subject::Model, model.clone(), view));
                None
            }
            "session/set_config_option" => {
                let result: Value = serde_json::from_str(result.get()).unwrap_or_default();
                let options = &result["configOptions"];
                let changed = self.change_view(|view| view.set_options(options));
                if let Some(id) = asked["configId"].as_str() {
                    let what = Subject::Option(id.to_owned());
                    self.choose(|choices, view| {
                        // What the agent has made of it counts, if it says so.
                        let value = view.value(&what).unwrap_or(&asked["value"]).clone();
                        choices.choose(what, value, view);
                    });
                }
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
        let view = self.memory().view.clone();
        View::from_value(view).to_value().to_string().into()
    }

    fn changes(&self) -> Changes {
        let mut memory = self.memory();
        if !std::mem::take(&mut memory.unsaved) {
            return Changes::default();
        }
        let state = serde_json::to_vec(&*memory).expect("plain data encodes");
        let view = View::from_value(memory.view.clone()).to_value();
        Changes {
            state: Some(state.into()),
            view: Some(view.to_string().into()),
        }
    }
}
