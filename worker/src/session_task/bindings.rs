//! The end of what a session has bound: the operator's hook hears of it before the session is gone.

use baton_session::command::{CommandKind, QueuedCommand};
use baton_session::store::Claim;

use super::SessionContext;
use crate::event_writer::{EventWriter, SessionLost};

/// Releases the bindings of a session before it ends, and runs the operator's hook; other commands
/// change nothing. False if the worker stops first: then the next holder handles the command.
pub(super) async fn release_bindings(
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
