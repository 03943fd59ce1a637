//! One held session: runs its commands in order until none waits, then releases the session.

use std::collections::VecDeque;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;

use baton_protocol::{Method, compose};
use baton_session::command::{CommandKind, QueuedCommand};
use baton_session::event::{Event, TurnBegin};
use baton_session::id::LogId;
use baton_session::store::{self, Claim, RunningTurn, Store, VanishedHolders};
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::task::{JoinSet, yield_now};
use tracing::Instrument as _;

use self::command_history::{CommandHistory, ReadCommand};
use self::commands::{FinishedCall, done, is_about};
use self::slot::UnmovableTurnGuard;
pub(crate) use self::slot::{SessionContext, SessionSlot};
use crate::agent::{Agent, AskingClient, Conversation, ListenContext, SessionOpening, StopReason};
use crate::event_writer::{EventWriter, SessionLost};
use crate::out_of_turn_requests::OutOfTurnRequests;
use crate::rpc::{self, Failure};
use crate::trace;
use crate::turn::Turn;
use crate::turn_replay::{self, TurnReplay, UnansweredRequest};

mod command_history;
mod commands;
mod idle;
mod slot;

pub(crate) async fn run(
    store: Arc<dyn Store>,
    agent: &dyn Agent,
    claim: Claim,
    context: SessionContext,
) -> Result<(), SessionLost> {
    let mut opening = SessionOpening::of(&claim, store.clone(), context.admission.policy.clone());
    let writer = Arc::new(EventWriter::new(
        store.clone(),
        &claim,
        context.metrics.clone(),
        context.audit.clone(),
    ));
    if is_poisonous(claim.vanished) {
        return answer_poisonous(&*store, &writer, &claim, &context).await;
    }
    // The session was only idle at a worker that is gone: no agent has to be started for that.
    if claim.inbox.is_empty() && claim.running.is_none() {
        if !writer.flush(Default::default(), true).await? {
            store.release(&claim.session, &claim.token).await?;
        }
        return Ok(());
    }
    let claimed = trace::claimed(&claim);
    let admitted = async {
        context.admission.admit(&mut opening).await?;
        agent.open(&opening).await
    };
    let opened = tokio::select! {
        biased;
        _ = context.lost.cancelled() => return Err(SessionLost::Fenced),
        _ = context.stop.cancelled() => {
            return Ok(store.release(&claim.session, &claim.token).await?);
        }
        opened = admitted => opened,
    };
    drop(claimed);
    match opened {
        Ok(conversation) => {
            context.metrics.opened.inc();
            let queue: VecDeque<QueuedCommand> = claim.inbox.clone().into();
            let taken = CommandHistory::of(&claim.inbox);
            if conversation.idle_timeout().is_some() {
                // An earlier holder may have vanished with open requests that only it could take
                // answers to.
                writer.reset_pending();
            }
            SessionTask {
                out_of_turn: Arc::new(OutOfTurnRequests::new(
                    claim.session.clone(),
                    writer.clone(),
                )),
                store,
                claim,
                context,
                conversation,
                writer,
                queue,
                taken,
                calls: JoinSet::new(),
                over: false,
                agent_gone: false,
            }
            .run()
            .await
        }
        Err(failure) => {
            context.metrics.unopened.inc();
            answer_all(&*store, &writer, &claim, &context, failure).await
        }
    }
}

/// The agent cannot open this session: all waiting requests get an error.
async fn answer_all(
    store: &dyn Store,
    writer: &EventWriter,
    claim: &Claim,
    context: &SessionContext,
    failure: Failure,
) -> Result<(), SessionLost> {
    for queued in &claim.inbox {
        if !release_bindings(writer, claim, context, queued).await? {
            writer.flush(Default::default(), false).await?;
            return Ok(store.release(&claim.session, &claim.token).await?);
        }
        let outcome = match queued.command.kind {
            // A session need not be opened to be closed.
            kind @ (CommandKind::Close | CommandKind::Delete) => Ok(done(kind)),
            _ => Err(failure.clone()),
        };
        context.metrics.refused(queued);
        let turn = queued.command.kind == CommandKind::Prompt;
        if let Some(event) = rpc::response(queued, turn, outcome) {
            writer.push(event);
        }
        writer.ack(queued);
    }
    // Commands may have arrived since: the next holder handles them.
    if !writer.flush(Default::default(), true).await? {
        store.release(&claim.session, &claim.token).await?;
    }
    Ok(())
}

/// Releases the bindings of a session before it ends, and runs the operator's hook; other commands
/// change nothing. False if the worker stops first: then the next holder handles the command.
async fn release_bindings(
    writer: &EventWriter,
    claim: &Claim,
    context: &SessionContext,
    queued: &QueuedCommand,
) -> Result<bool, SessionLost> {
    let reason = match queued.command.kind {
        CommandKind::Close => "closed",
        CommandKind::Delete => "deleted",
        _ => return Ok(true),
    };
    let bound = writer.bound();
    if let Some(hook) = context.on_release.as_ref().filter(|_| !bound.is_empty()) {
        tokio::select! {
            () = hook.run(&claim.session, reason, bound) => {}
            _ = context.lost.cancelled() => return Err(SessionLost::Fenced),
            _ = context.stop.cancelled() => return Ok(false),
        }
    }
    writer.unbind();
    Ok(true)
}

/// Frames per read of an interrupted turn.
const REREAD: usize = 500;
/// How many workers in a row may vanish over one command before their first renewal of the lease.
const MAX_VANISHED_AT_ONCE: u32 = 3;
/// How many may vanish later, unless they only waited for a client's answer.
const MAX_VANISHED_WORKING: u32 = 10;

fn is_poisonous(vanished: VanishedHolders) -> bool {
    vanished.at_once >= MAX_VANISHED_AT_ONCE || vanished.working >= MAX_VANISHED_WORKING
}

/// Several workers in a row vanished over this session: its next command is answered with an error
/// instead of run, and the next holder goes on with the others.
async fn answer_poisonous(
    store: &dyn Store,
    writer: &EventWriter,
    claim: &Claim,
    context: &SessionContext,
) -> Result<(), SessionLost> {
    let running = claim.running.map(|running| running.command);
    let is_next = |queued: &&QueuedCommand| running.is_none_or(|running| queued.id == running);
    if let Some(queued) = claim.inbox.iter().find(is_next) {
        tracing::error!(
            session.id = %claim.session,
            command = queued.id.number,
            vanished = claim.vanished.working,
            "answering a command with an error: every worker that ran it stopped"
        );
        if !release_bindings(writer, claim, context, queued).await? {
            return Ok(store.release(&claim.session, &claim.token).await?);
        }
        context.metrics.refused(queued);
        let turn = queued.command.kind == CommandKind::Prompt;
        if let Some(event) = rpc::response(queued, turn, Err::<(), _>(Failure::poisonous())) {
            writer.push(event);
        }
        writer.ack(queued);
        writer.reset_pending();
    }
    if !writer.flush(Default::default(), true).await? {
        store.release(&claim.session, &claim.token).await?;
    }
    Ok(())
}

struct SessionTask {
    store: Arc<dyn Store>,
    claim: Claim,
    context: SessionContext,
    conversation: Arc<dyn Conversation>,
    writer: Arc<EventWriter>,
    out_of_turn: Arc<OutOfTurnRequests>,
    /// Commands that were read and are not handled yet.
    queue: VecDeque<QueuedCommand>,
    /// Commands that were read.
    taken: CommandHistory,
    /// Calls that the agent handles outside of turns.
    calls: JoinSet<FinishedCall>,
    /// The session was closed or deleted: there is nothing to stay for.
    over: bool,
    /// The agent is gone: the next holder opens it again.
    agent_gone: bool,
}

enum IdleOutcome {
    /// There is something to do.
    Awake,
    /// The session was released.
    Released,
}

enum CommandOutcome {
    Answered,
    /// The worker stops; the session was handed over.
    HandedOver,
}

impl SessionTask {
    async fn run(mut self) -> Result<(), SessionLost> {
        loop {
            if self.context.stop.is_cancelled() {
                return self.hand_over().await;
            }
            if self.agent_gone {
                self.out_of_turn.withdraw_all();
                // Buffered events are written first, or the next holder would say them again.
                if !self.writer.flush(self.conversation.changes(), true).await? {
                    self.store
                        .release(&self.claim.session, &self.claim.token)
                        .await?;
                }
                return Ok(());
            }
            let Some(mut queued) = self.queue.pop_front() else {
                match self.idle().await? {
                    IdleOutcome::Awake => continue,
                    IdleOutcome::Released => return Ok(()),
                }
            };
            match queued.command.kind {
                CommandKind::Prompt => {
                    let span = trace::turn(&self.claim.session, &mut queued);
                    match self.prompt(queued).instrument(span).await? {
                        CommandOutcome::Answered => {}
                        CommandOutcome::HandedOver => return Ok(()),
                    }
                }
                CommandKind::Close | CommandKind::Delete => match self.end(queued).await? {
                    CommandOutcome::Answered => {}
                    CommandOutcome::HandedOver => return Ok(()),
                },
                _ => self.handle(queued, None),
            }
        }
    }

    /// Everything before is through.
    async fn end(&mut self, queued: QueuedCommand) -> Result<CommandOutcome, SessionLost> {
        // Finished answers do not wait for the release hook.
        self.writer
            .flush(self.conversation.changes(), false)
            .await?;
        if !release_bindings(&self.writer, &self.claim, &self.context, &queued).await? {
            self.hand_over().await?;
            return Ok(CommandOutcome::HandedOver);
        }
        self.over = true;
        self.handle(queued, None);
        Ok(CommandOutcome::Answered)
    }

    /// Events in the middle of a turn are written while the session is released, so that the next
    /// worker waits for one round trip only. If they come too late they are refused, and the turn
    /// repeats them there. Acknowledgements are written first: the next worker would run those
    /// commands again.
    async fn hand_over(&self) -> Result<(), SessionLost> {
        self.out_of_turn.withdraw_all();
        let (session, token) = (&self.claim.session, &self.claim.token);
        if self.writer.has_acks() {
            let changes = self.conversation.changes();
            if !self.writer.flush(changes, true).await? {
                self.store.release(session, token).await?;
            }
            return Ok(());
        }
        let last_words = self.writer.flush(self.conversation.changes(), false);
        let release = self.store.release(session, token);
        let (written, released) = tokio::join!(last_words, release);
        released?;
        match written {
            Err(SessionLost::Fenced) => Ok(()),
            written => written.map(drop),
        }
    }

    /// An unavailable store is no error here: the inbox is read again after every renewal of the
    /// lease.
    async fn read_inbox(&mut self) -> Result<(), SessionLost> {
        let known = self.taken.open();
        let waiting = match self.store.inbox(&self.claim.session, &known).await {
            Err(store::Error::Unavailable(_)) => Vec::new(),
            read => read?,
        };
        for queued in waiting {
            match self.taken.take(queued.id, &queued.command) {
                ReadCommand::New => self.queue.push_back(queued),
                ReadCommand::Repeated => {}
                ReadCommand::Done => self.writer.ack(&queued),
            }
        }
        Ok(())
    }

    /// The command is done with.
    fn ack(&mut self, queued: &QueuedCommand) {
        self.writer.ack(queued);
        for name in self.taken.acknowledge(queued.id) {
            self.writer.ack_name(name);
        }
    }

    /// One prompt from begin to answer.
    async fn prompt(&mut self, queued: QueuedCommand) -> Result<CommandOutcome, SessionLost> {
        let was_begun = self.claim.running.map(|running| running.command);
        if was_begun != Some(queued.id) {
            self.context.metrics.observe_wait(&queued);
        }
        let asked = rpc::client_call(&queued.command.message);
        let checked = asked.and_then(|asked| {
            let PromptParams { prompt } = rpc::read(asked.params)?;
            let blocks = self.context.accepts.check(prompt)?;
            let policy = &self.context.admission.policy;
            Ok((policy.message(Method::Prompt.name(), asked.params)?, blocks))
        });
        let (message, blocks) = match checked {
            Ok(checked) => checked,
            Err(failure) => {
                self.context.metrics.answered("invalid");
                return Ok(self.finish(&queued, Err(failure)));
            }
        };
        let interrupted = self
            .claim
            .running
            .take()
            .filter(|running| running.command == queued.id);
        let was_interrupted = interrupted.is_some();
        let (replay, unanswered) = match interrupted {
            Some(running) => {
                self.context.metrics.takeovers.inc();
                self.replay_turn(running).await?
            }
            None if self.is_cancelled(&queued) => {
                let cancelled = StopReason::Cancelled;
                self.context.metrics.answered(cancelled.as_str());
                return Ok(self.finish(&queued, Ok(cancelled.answer())));
            }
            None => {
                // A fork of a running session gets what the agent knew before the turn.
                self.writer
                    .flush(self.conversation.changes(), false)
                    .await?;
                self.begin(&queued, &blocks)
            }
        };
        let timed = self.context.metrics.start_turn();
        let turn = Turn::new(
            self.claim.session.clone(),
            queued.id,
            AskingClient::of(&queued),
            self.writer.clone(),
            replay,
            unanswered,
            was_interrupted,
        );
        self.handle_during_turn(&queued, &turn);
        let conversation = self.conversation.clone();
        let work = conversation.prompt(&turn, &message);
        let mut work = pin!(work.instrument(trace::agent(&queued)));
        let mut heard = pin!(conversation.listen(ListenContext::Turn(&turn)));
        let writer = self.writer.clone();
        let mut flight: Option<FlushInFlight<'_>> = None;
        let (stop, bound) = if conversation.can_move() {
            (self.context.stop.clone(), None)
        } else {
            (
                self.context.interrupt.clone(),
                Some(UnmovableTurnGuard::of(&self.context.slot)),
            )
        };
        let outcome = loop {
            tokio::select! {
                biased;
                _ = self.context.lost.cancelled() => return Err(SessionLost::Fenced),
                // Both before the work, or an agent that never pauses could be neither handed over
                // nor cancelled.
                _ = stop.cancelled() => {
                    if let Some(flight) = flight {
                        flight.await?;
                    }
                    self.hand_over().await?;
                    return Ok(CommandOutcome::HandedOver);
                }
                _ = self.context.inbox.notified() => {
                    self.read_inbox().await?;
                    self.handle_during_turn(&queued, &turn);
                }
                Some(call) = self.calls.join_next() => self.called(call),
                // Before the outcome, so that nothing is said after it.
                () = &mut heard, if !self.agent_gone => self.agent_gone = true,
                outcome = &mut work => break outcome,
                written = flush_outcome(&mut flight) => {
                    written?;
                    flight = None;
                    // A store in the same process never makes us wait, and others want their turn.
                    yield_now().await;
                }
                _ = writer.wait_until_due(), if flight.is_none() => {
                    flight = Some(Box::pin(writer.flush(self.conversation.changes(), false)));
                }
            }
        };
        if let Some(flight) = flight {
            flight.await?;
        }
        drop(bound);
        timed.ends(&queued, &outcome);
        Ok(self.finish(&queued, outcome))
    }

    /// The turn's first events: who reads it how, and the user's words for everyone else.
    fn begin(
        &self,
        queued: &QueuedCommand,
        blocks: &[&RawValue],
    ) -> (TurnReplay, Vec<UnansweredRequest>) {
        let connection = queued.command.connection.clone();
        let began = self.writer.push(Event::Begin(TurnBegin {
            command: queued.id,
            connection: connection.clone(),
            via: queued.via,
        }));
        let name = self.writer.unique_name(format!("user-{began}"));
        for block in blocks {
            let update = user_message_chunk(&name, block);
            let message = compose::update(self.claim.session.as_str(), &*update);
            self.writer.push(Event::Echo {
                by: connection.clone(),
                message,
            });
        }
        (TurnReplay::default(), Vec::new())
    }

    /// Reads back the events that the interrupted turn has written.
    async fn replay_turn(
        &self,
        running: RunningTurn,
    ) -> Result<(TurnReplay, Vec<UnansweredRequest>), SessionLost> {
        tracing::info!(
            session.id = %self.claim.session,
            command = running.command.number,
            "resuming an interrupted turn"
        );
        let log = LogId::Session(self.claim.session.clone());
        let mut reader = turn_replay::ReplayReader::default();
        let mut from = running.began;
        while from <= self.claim.head {
            let page = self.store.read(&log, from, REREAD).await?;
            let Some(last) = page.last() else { break };
            let events = page.iter().flat_map(|frame| frame.numbered());
            for (seq, event) in events.filter(|(seq, _)| *seq >= from) {
                reader.read(seq, event);
            }
            from = last.last() + 1;
        }
        Ok(reader.finish())
    }

    /// Handles what can be handled while a turn runs; prompts stay queued.
    fn handle_during_turn(&mut self, running: &QueuedCommand, turn: &Turn) {
        for queued in std::mem::take(&mut self.queue) {
            let cancels = self.cancels(&queued, running);
            if cancels {
                turn.cancel();
            }
            match queued.command.kind {
                CommandKind::Prompt => {
                    if queued.takes_control {
                        turn.transfer_control(&queued);
                    }
                    self.queue.push_back(queued);
                }
                CommandKind::Cancel
                | CommandKind::CancelRequest
                | CommandKind::Close
                | CommandKind::Delete => {
                    self.queue.push_back(queued);
                }
                _ => self.handle(queued, Some(turn)),
            }
        }
    }

    /// A cancel or close that came after the prompt concerns it, whether or not it has begun.
    fn is_cancelled(&self, prompt: &QueuedCommand) -> bool {
        self.queue.iter().any(|queued| self.cancels(queued, prompt))
    }

    /// Everything in the queue came after the prompt that was taken from it.
    fn cancels(&self, queued: &QueuedCommand, prompt: &QueuedCommand) -> bool {
        match queued.command.kind {
            CommandKind::Cancel | CommandKind::Close | CommandKind::Delete => true,
            CommandKind::CancelRequest => is_about(&queued.command, &prompt.command),
            _ => false,
        }
    }

    /// The answer and the end of the command go into the log together.
    fn finish(
        &mut self,
        queued: &QueuedCommand,
        outcome: Result<Box<RawValue>, Failure>,
    ) -> CommandOutcome {
        self.writer.clear_pending();
        self.out_of_turn.restore_pending();
        trace::ended(queued, &outcome);
        if let Some(event) = rpc::response(queued, true, outcome) {
            self.writer.push(event);
        }
        self.ack(queued);
        CommandOutcome::Answered
    }
}

#[derive(Deserialize)]
struct PromptParams<'a> {
    #[serde(borrow)]
    prompt: &'a RawValue,
}

/// All blocks of a prompt are one message, named by where its turn begins.
fn user_message_chunk(name: &str, content: &RawValue) -> Box<RawValue> {
    let text = format!(
        "{{\"sessionUpdate\":\"user_message_chunk\",\"content\":{},\"messageId\":\"{name}\"}}",
        content.get()
    );
    RawValue::from_string(text).expect("made of valid JSON")
}

/// An append of the events so far, while more are collected.
type FlushInFlight<'a> = BoxFuture<'a, Result<bool, SessionLost>>;

/// Waits for ever if there is none.
async fn flush_outcome(flight: &mut Option<FlushInFlight<'_>>) -> Result<bool, SessionLost> {
    match flight {
        Some(flight) => flight.await,
        None => pending().await,
    }
}
