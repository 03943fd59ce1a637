//! Sessions whose commands are answered without an agent: it cannot open them, or several workers
//! in a row have vanished over one.

use baton_session::command::{CommandKind, QueuedCommand};
use baton_session::store::{Claim, Store, VanishedHolders};

use super::SessionContext;
use super::bindings::release_bindings;
use super::commands::done;
use crate::event_writer::{EventWriter, SessionLost};
use crate::rpc::{self, Failure};

/// How many workers in a row may vanish over one command before their first renewal of the lease.
const MAX_VANISHED_AT_ONCE: u32 = 3;
/// How many may vanish later, unless they only waited for a client's answer.
const MAX_VANISHED_WORKING: u32 = 10;

pub(super) fn is_poisonous(vanished: VanishedHolders) -> bool {
    vanished.at_once >= MAX_VANISHED_AT_ONCE || vanished.working >= MAX_VANISHED_WORKING
}

/// Several workers in a row vanished over this session: its next command is answered with an error
/// instead of run, and the next holder goes on with the others.
pub(super) async fn answer_poisonous(
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

/// The agent cannot open this session: all waiting requests get an error.
pub(super) async fn answer_all(
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
