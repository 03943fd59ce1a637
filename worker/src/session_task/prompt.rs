//! A prompt from its beginning to its answer, also of a turn that another worker began.

use std::future::pending;
use std::pin::pin;

use baton_protocol::{Method, compose};
use baton_session::clock::unix_millis;
use baton_session::command::{CommandKind, QueuedCommand};
use baton_session::event::{Event, TurnBegin};
use baton_session::id::LogId;
use baton_session::store::RunningTurn;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::task::yield_now;
use tracing::Instrument as _;

use super::commands::is_about;
use super::slot::UnmovableTurnGuard;
use super::{CommandOutcome, SessionTask};
use crate::agent::{AskingClient, ListenContext, StopReason};
use crate::event_writer::SessionLost;
use crate::mcp::functions::ClientFunctions;
use crate::rpc::{self, Failure};
use crate::trace;
use crate::turn::Turn;
use crate::turn_replay::{ReplayReader, TurnReplay, UnansweredRequest};

/// Frames per read of an interrupted turn.
const REREAD: usize = 500;

impl SessionTask {
    /// One prompt from begin to answer.
    pub(super) async fn prompt(
        &mut self,
        queued: QueuedCommand,
    ) -> Result<CommandOutcome, SessionLost> {
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
        let functions = ClientFunctions::of(&blocks);
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
        )
        .offering(functions);
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
                    self.read_news().await?;
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
        let at = unix_millis();
        for block in blocks {
            let update = user_message_chunk(&name, block);
            let message = compose::update(self.claim.session.as_str(), &*update);
            self.writer.push(Event::Echo {
                by: connection.clone(),
                at: Some(at),
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
        let mut reader = ReplayReader::default();
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
