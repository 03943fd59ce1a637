//! One held session: runs its commands in order until none waits, then releases the session.

use std::collections::VecDeque;
use std::sync::Arc;

use baton_session::command::{CommandKind, QueuedCommand};
use baton_session::store::{self, Claim, Store};
use tokio::task::JoinSet;
use tracing::Instrument as _;

use self::bindings::release_bindings;
use self::command_history::{CommandHistory, ReadCommand};
use self::commands::FinishedCall;
pub(crate) use self::slot::{SessionContext, SessionSlot};
use self::unopened::{answer_all, answer_poisonous, is_poisonous};
use crate::agent::{Agent, Conversation, SessionOpening};
use crate::event_writer::{EventWriter, SessionLost};
use crate::out_of_turn_requests::OutOfTurnRequests;
use crate::trace;

mod bindings;
mod command_history;
mod commands;
mod idle;
mod prompt;
mod slot;
mod unopened;

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

    /// What was heard of the inbox, if nothing can have been missed, else what is in it.
    async fn read_news(&mut self) -> Result<(), SessionLost> {
        match self.context.inbox.take() {
            Some(heard) if self.taken.is_followed_by(&heard) => {
                self.take_commands(heard);
                Ok(())
            }
            _ => self.read_inbox().await,
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
        self.take_commands(waiting);
        Ok(())
    }

    fn take_commands(&mut self, waiting: Vec<QueuedCommand>) {
        for queued in waiting {
            match self.taken.take(queued.id, &queued.command) {
                ReadCommand::New => self.queue.push_back(queued),
                ReadCommand::Repeated => {}
                ReadCommand::Done => self.writer.ack(&queued),
            }
        }
    }

    /// The command is done with.
    fn ack(&mut self, queued: &QueuedCommand) {
        self.writer.ack(queued);
        for name in self.taken.acknowledge(queued.id) {
            self.writer.ack_name(name);
        }
    }
}
