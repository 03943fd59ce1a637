//! One prompt from begin to answer, as the agent sees it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use baton_protocol::{ErrorCode, Method, compose};
use baton_session::command::{ClientCapabilities, CommandId, QueuedCommand};
use baton_session::event::Event;
use baton_session::id::SessionId;
use baton_session::sync::MutexExt as _;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::agent::AskingClient;
use crate::event_writer::EventWriter;
use crate::mcp::functions::ClientFunctions;
use crate::mcp::over_acp;
use crate::out_of_turn_requests::OutOfTurnRequests;
use crate::rpc::{self, ClientAnswer, Failure};
use crate::turn_replay::{TurnReplay, UnansweredRequest};

/// The agent's interface to its session between turns.
pub struct BetweenTurns {
    writer: Arc<EventWriter>,
    out_of_turn: Arc<OutOfTurnRequests>,
}

impl BetweenTurns {
    pub(crate) fn new(writer: Arc<EventWriter>, out_of_turn: Arc<OutOfTurnRequests>) -> Self {
        Self {
            writer,
            out_of_turn,
        }
    }

    /// Asks the controlling client. It is asked at once; what is returned waits for the answer and
    /// may do so anywhere, also while turns come and go. The question ends with this worker's hold
    /// on the session.
    pub fn request(
        &self,
        method: &str,
        params: impl Serialize,
    ) -> BoxFuture<'static, Result<Box<RawValue>, Failure>> {
        self.out_of_turn.ask(method, params)
    }

    /// Passes a whole `session/update` message on as the agent has written it. It is said at once;
    /// what is waited for is room for the next one.
    pub async fn forward(&self, message: Bytes) {
        self.writer.push(Event::Update {
            turn: false,
            message,
        });
        self.writer.wait_for_room().await;
    }
}

const WITHDRAWN: &str = "the agent does not wait for this answer any more";

/// The agent's side of a running turn.
pub struct Turn {
    session: SessionId,
    command: CommandId,
    client: AskingClient,
    /// Capabilities of the client that requests go to.
    controller: Mutex<ClientCapabilities>,
    writer: Arc<EventWriter>,
    replay: Mutex<TurnReplay>,
    requests: AtomicU64,
    waiting: Mutex<HashMap<Arc<str>, TurnWaiter>>,
    /// The client's answer to the last question for a terminal, until it was heard.
    opened_terminal: Mutex<Option<Box<RawValue>>>,
    cancel: CancellationToken,
    interrupted: bool,
    functions: ClientFunctions,
}

struct TurnWaiter {
    seq: u64,
    message: Bytes,
    /// `None` until the resumed turn asks again.
    reply: Option<oneshot::Sender<ClientAnswer>>,
    /// An answer that came before the resumed turn asked again.
    early: Option<ClientAnswer>,
}

impl Turn {
    pub(crate) fn new(
        session: SessionId,
        command: CommandId,
        client: AskingClient,
        writer: Arc<EventWriter>,
        replay: TurnReplay,
        unanswered: Vec<UnansweredRequest>,
        interrupted: bool,
    ) -> Self {
        writer.restore_pending(unanswered.iter().map(|request| request.seq).collect());
        for request in &unanswered {
            writer.permissions.recall(&request.id, &request.message);
        }
        let waiting = unanswered.into_iter().map(|request| {
            (
                request.id,
                TurnWaiter {
                    seq: request.seq,
                    message: request.message,
                    reply: None,
                    early: None,
                },
            )
        });
        Self {
            session,
            command,
            controller: Mutex::new(client.capabilities),
            client,
            writer,
            replay: Mutex::new(replay),
            requests: AtomicU64::new(0),
            waiting: Mutex::new(waiting.collect()),
            opened_terminal: Mutex::default(),
            cancel: CancellationToken::new(),
            interrupted,
            functions: ClientFunctions::default(),
        }
    }

    /// With functions of the client, for the agent to call.
    pub(crate) fn offering(mut self, functions: ClientFunctions) -> Self {
        self.functions = functions;
        self
    }

    /// Capabilities of the client that sent the prompt.
    pub fn client(&self) -> ClientCapabilities {
        self.client.capabilities
    }

    /// The client that sent the prompt.
    pub fn asking_client(&self) -> &AskingClient {
        &self.client
    }

    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// Sends a `session/update`. `apply` makes the change it announces; it is skipped along with
    /// the update when an earlier run of this turn has made it.
    pub async fn update_with(&self, update: impl Serialize, apply: impl FnOnce()) {
        if self.replay().check_off_update() {
            return;
        }
        self.writer.wait_for_room().await;
        apply();
        let message = compose::update(self.session.as_str(), update);
        self.writer.push(Event::Update {
            turn: true,
            message,
        });
    }

    pub async fn update(&self, update: impl Serialize) {
        self.update_with(update, || ()).await;
    }

    /// Passes a whole `session/update` message on as the agent has written it. It is said at once;
    /// what is waited for is room for the next one.
    pub async fn forward(&self, message: Bytes) {
        if self.replay().check_off_update() {
            return;
        }
        self.writer.push(Event::Update {
            turn: true,
            message,
        });
        self.writer.wait_for_room().await;
    }

    /// An earlier run of this turn ended with its worker.
    pub fn was_interrupted(&self) -> bool {
        self.interrupted
    }

    /// The agent will not say the same things again: what was said stays, its open questions are
    /// withdrawn, and from here on everything is new.
    pub fn discard_replay(&self) {
        let (mut replay, mut waiting) = (self.replay(), self.waiting());
        replay.forget();
        for (id, waiting) in waiting.drain() {
            // Clients that were asked learn that the request is withdrawn.
            self.withdrawn(id, &waiting);
        }
        // Ids that were used stay used.
        self.requests.fetch_max(replay.asked(), Ordering::Relaxed);
    }

    /// The agent has read in the log what this turn has said and asked, and goes on from there: all
    /// that it says is new, and earlier questions wait for [`Self::resume_request`].
    pub fn resume_from_log(&self) {
        let mut replay = self.replay();
        replay.forget_said();
        self.requests.fetch_max(replay.asked(), Ordering::Relaxed);
    }

    /// The answer to a question that an earlier run of this turn has asked, by its id: from the
    /// log, or when the client gives it.
    pub async fn resume_request(&self, id: &str) -> Result<Box<RawValue>, Failure> {
        let answer = match self.take_up(id) {
            Some(AskOutcome::Answered(answer)) => answer,
            Some(AskOutcome::Before(seq)) => self.answer_at(seq).await?,
            Some(AskOutcome::Waiting(reply)) => reply.await.map_err(|_| turn_ended())?,
            Some(AskOutcome::Refused(failure)) => return Err(failure),
            None => return Err(Failure::internal("this question is not open any more")),
        };
        answer.outcome
    }

    fn take_up(&self, id: &str) -> Option<AskOutcome> {
        if let Some(seq) = self.replay().answer(id) {
            return Some(AskOutcome::Before(seq));
        }
        let mut all = self.waiting();
        let waiting = all.get_mut(id)?;
        if let Some(early) = waiting.early.take() {
            all.remove(id);
            return Some(AskOutcome::Answered(early));
        }
        let (reply, answer) = oneshot::channel();
        waiting.reply = Some(reply);
        Some(AskOutcome::Waiting(answer))
    }

    /// Takes a question back that an earlier run of this turn has asked: the client learns that
    /// nobody waits for its answer.
    pub fn withdraw(&self, id: &str) {
        if let Some((id, waiting)) = self.waiting().remove_entry(id) {
            self.withdrawn(id, &waiting);
        }
    }

    /// The same for all questions whose answers nobody waits for any more.
    pub fn withdraw_abandoned(&self) {
        let mut all = self.waiting();
        let abandoned =
            |waiting: &TurnWaiter| waiting.reply.as_ref().is_some_and(|it| it.is_closed());
        let gone: Vec<Arc<str>> = all
            .iter()
            .filter(|(_, waiting)| abandoned(waiting))
            .map(|(id, _)| id.clone())
            .collect();
        for id in gone {
            if let Some(waiting) = all.remove(&id) {
                self.withdrawn(id, &waiting);
            }
        }
    }

    /// A question of this method that was asked in this run of the turn, and whose answer nobody
    /// waits for any more.
    pub fn abandoned_request(&self, method: &str) -> Option<String> {
        let all = self.waiting();
        let mut all = all.iter();
        let found = all.find(|(_, waiting)| {
            let call = rpc::client_call(&waiting.message);
            let abandoned = waiting.reply.as_ref().is_some_and(|it| it.is_closed());
            abandoned && call.is_ok_and(|call| call.method == method)
        });
        found.map(|(id, _)| id.to_string())
    }

    fn withdrawn(&self, id: Arc<str>, waiting: &TurnWaiter) {
        self.writer.mark_answered(waiting.seq);
        self.writer.push(Event::Answer {
            message: rpc::no_answer(&id, WITHDRAWN),
            by: None,
            id,
        });
    }

    /// Sends a `session/update` that later workers must not miss: with replicas, they have to
    /// confirm it.
    pub async fn update_lasting(&self, update: impl Serialize) {
        if self.replay().check_off_update() {
            return;
        }
        self.writer.wait_for_room().await;
        let message = compose::update(self.session.as_str(), update);
        self.writer.push_lasting(Event::Update {
            turn: true,
            message,
        });
    }

    /// Waits until all that was said is in the store, so that no later worker can miss it.
    pub async fn wait_until_written(&self) {
        self.writer.wait_until_written().await;
    }

    /// Asks the controlling client. The request outlives this worker: the worker that resumes the
    /// turn gets the answer.
    pub async fn request(
        &self,
        method: &str,
        params: impl Serialize,
    ) -> Result<Box<RawValue>, Failure> {
        let params = to_raw_value(&params).map_err(|error| Failure::internal(error.to_string()))?;
        if Method::of(method) == Method::McpMessage
            && let Some(answer) = self.functions.answer(&params)
        {
            return answer;
        }
        let ordinal = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        // The id routes itself: it names the session, and is the same when the turn is run again.
        let name = format!("{}:{}.{ordinal}", self.session, self.command);
        let params = over_acp::outbound(&self.session, method, params)?;
        let answer = match self.ask(name, method, params) {
            AskOutcome::Refused(failure) => return Err(failure),
            AskOutcome::Answered(answer) => answer,
            AskOutcome::Before(seq) => self.answer_at(seq).await?,
            AskOutcome::Waiting(reply) => reply.await.map_err(|_| turn_ended())?,
        };
        self.take_opened_terminal();
        answer.outcome
    }

    /// The client's answer to a question for a terminal that came when nobody waited for it any
    /// more, because the turn was being cancelled.
    pub fn take_opened_terminal(&self) -> Option<Box<RawValue>> {
        self.opened_terminal.locked().take()
    }

    fn ask(&self, name: String, method: &str, params: Box<RawValue>) -> AskOutcome {
        let mut replay = self.replay();
        let known = replay.check_off_request(&name);
        let asked_before = known.is_some();
        // An earlier run of this turn has asked somebody who could.
        if !asked_before && let Some(failure) = self.refusal(method, &params) {
            return AskOutcome::Refused(failure);
        }
        let id = &known.unwrap_or_else(|| self.writer.unique_name(name).into());
        if let Some(seq) = replay.answer(id) {
            return AskOutcome::Before(seq);
        }
        let mut waiting = self.waiting();
        if let Some(early) = waiting.get_mut(id).and_then(|waiting| waiting.early.take()) {
            waiting.remove(id);
            return AskOutcome::Answered(early);
        }
        let (reply, answer) = oneshot::channel();
        match waiting.get_mut(id) {
            Some(known) if asked_before => known.reply = Some(reply),
            _ => {
                let message = compose::request(id, method, params);
                self.writer.permissions.asked(id, &message);
                let seq = self.writer.push(Event::Request {
                    id: id.clone(),
                    message: message.clone(),
                });
                waiting.insert(
                    id.clone(),
                    TurnWaiter {
                        seq,
                        message,
                        reply: Some(reply),
                        early: None,
                    },
                );
            }
        }
        AskOutcome::Waiting(answer)
    }

    /// Why a request is not made: another client controls the session by now, which has not
    /// announced what the client of the turn has.
    fn refusal(&self, method: &str, params: &RawValue) -> Option<Failure> {
        let controller = *self.controller.locked();
        let (had, has) = [self.client.capabilities, controller]
            .map(|client| can_be_asked(client, method, params))
            .into();
        (had && !has).then(|| not_announced(method))
    }

    /// Reads the answer to an earlier run of this turn from the log.
    async fn answer_at(&self, seq: u64) -> Result<ClientAnswer, Failure> {
        let event = self.writer.read(seq).await;
        let event = event.map_err(|error| Failure::internal(error.to_string()))?;
        let answer = match event {
            Some(Event::Answer { message, .. }) => ClientAnswer::read(&message),
            _ => None,
        };
        answer.ok_or_else(|| Failure::internal("an answer is not in the log any more"))
    }

    /// Handles a client's answer. False if there is no such request, or it was answered before.
    pub(crate) fn answer(&self, answer: ClientAnswer) -> bool {
        let mut all = self.waiting();
        let Some(waiting) = all.get_mut(answer.id.as_str()) else {
            return false;
        };
        self.writer.mark_answered(waiting.seq);
        match waiting.reply.take() {
            Some(reply) => {
                let id = answer.id.clone();
                let asked = rpc::client_call(&waiting.message);
                if asked.is_ok_and(|it| it.method == Method::CreateTerminal.name()) {
                    let opened = answer.outcome.as_ref().ok().cloned();
                    *self.opened_terminal.locked() = opened;
                }
                let _ = reply.send(answer);
                all.remove(id.as_str());
            }
            None if waiting.early.is_none() => waiting.early = Some(answer),
            None => return false,
        }
        true
    }

    /// The connection behind a waiting prompt has taken control: the open questions are now for it
    /// to answer.
    pub(crate) fn transfer_control(&self, prompt: &QueuedCommand) {
        *self.controller.locked() = prompt.command.client;
        if !self.replay().note_control(prompt.id) {
            return;
        }
        self.writer.push(Event::Control {
            by: prompt.command.connection.clone(),
            command: prompt.id,
            via: prompt.via,
        });
        let mut waiting = self.waiting();
        let open = |(_, waiting): &(&Arc<str>, &mut TurnWaiter)| waiting.early.is_none();
        let mut open: Vec<_> = waiting.iter_mut().filter(open).collect();
        open.sort_by_key(|(_, waiting)| waiting.seq);
        let mut refused = Vec::new();
        for (id, waiting) in open {
            self.writer.mark_answered(waiting.seq);
            let asked = rpc::client_call(&waiting.message).ok();
            let refusal = asked.and_then(|asked| self.refusal(&asked.method, asked.params));
            if let Some(failure) = refusal {
                refused.push((id.clone(), failure));
                continue;
            }
            waiting.seq = self.writer.push(Event::Request {
                id: id.clone(),
                message: waiting.message.clone(),
            });
        }
        for (id, failure) in refused {
            self.writer.push(Event::Answer {
                message: rpc::no_answer(&id, &failure.message),
                by: None,
                id: id.clone(),
            });
            let answer = ClientAnswer {
                id: id.to_string(),
                outcome: Err(failure),
            };
            match waiting.get_mut(&id).map(|waiting| waiting.reply.take()) {
                Some(Some(reply)) => {
                    let _ = reply.send(answer);
                    waiting.remove(&id);
                }
                // The resumed turn has not asked again.
                Some(None) => {
                    let waiting = waiting.get_mut(&id).expect("just found");
                    waiting.early = Some(answer);
                }
                None => {}
            }
        }
    }

    /// Identifiers that agents and tools have bound to the session until now.
    pub fn bound(&self) -> Map<String, Value> {
        self.writer.bound()
    }

    /// Pauses, except where an earlier run of this turn has paused already.
    pub async fn sleep(&self, duration: Duration) {
        if self.replay().is_live() {
            tokio::time::sleep(duration).await;
        }
    }

    /// Resolves when the client cancels the turn.
    pub async fn cancelled(&self) {
        self.cancel.cancelled().await;
    }

    pub(crate) fn cancel(&self) {
        self.cancel.cancel();
    }

    fn replay(&self) -> MutexGuard<'_, TurnReplay> {
        self.replay.locked()
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<Arc<str>, TurnWaiter>> {
        self.waiting.locked()
    }
}

/// Whether a client with these capabilities takes such a request. Those that need none are for
/// every client.
fn can_be_asked(client: ClientCapabilities, method: &str, params: &RawValue) -> bool {
    match Method::of(method) {
        Method::ReadTextFile => client.read_file,
        Method::WriteTextFile => client.write_file,
        Method::CreateTerminal
        | Method::TerminalOutput
        | Method::WaitForTerminalExit
        | Method::ReleaseTerminal => client.terminal,
        Method::CreateElicitation => {
            let asked: Value = serde_json::from_str(params.get()).unwrap_or_default();
            if asked["mode"] == "url" {
                client.url_elicitation
            } else {
                client.elicitation
            }
        }
        _ => !method.starts_with("terminal/") || client.terminal,
    }
}

fn turn_ended() -> Failure {
    Failure::internal("the turn ended before the answer came")
}

fn not_announced(method: &str) -> Failure {
    let text = format!("the client that controls the session now has not announced {method}");
    Failure::new(ErrorCode::MethodNotFound, text)
}

enum AskOutcome {
    /// The client cannot be asked.
    Refused(Failure),
    Answered(ClientAnswer),
    /// By an earlier run of the turn; the answer is this event.
    Before(u64),
    Waiting(oneshot::Receiver<ClientAnswer>),
}
