//! An idle session is kept for a while, because its next prompt may be near, because its agent runs
//! here, or because that still works on a call. Then it is released.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::slot::IdleSession;
use super::{IdleOutcome, SessionTask};
use crate::agent::{BetweenTurns, ListenContext};
use crate::event_writer::SessionLost;
use baton_session::sync::MutexExt as _;

/// How long a session stays with its worker after a turn. The next prompt of a conversation then
/// costs neither a claim nor a release, and its agent is open. A worker that has no slot left for
/// another session gives one up sooner.
const STAY: Duration = Duration::from_secs(3);
/// Between two tries to give a session up that something still waits in.
const PAUSE: Duration = Duration::from_millis(200);

impl SessionTask {
    pub(super) async fn idle(&mut self) -> Result<IdleOutcome, SessionLost> {
        if !self.over || !self.calls.is_empty() {
            let awake = self.wait_while_idle().await;
            self.set_idle(None);
            if awake? {
                return Ok(IdleOutcome::Awake);
            }
        }
        if self.context.inbox.has_new_setup() {
            // Whatever has come meanwhile is for the next holder, who opens it with these.
            self.hand_over().await?;
            return Ok(IdleOutcome::Released);
        }
        self.out_of_turn.withdraw_all();
        if self.writer.flush(self.conversation.changes(), true).await? {
            return Ok(IdleOutcome::Released);
        }
        self.read_inbox().await?;
        if self.queue.is_empty() {
            self.pause().await?;
        }
        Ok(IdleOutcome::Awake)
    }

    /// Something waits in the inbox that cannot be read yet, or that was done before: it is looked
    /// at again, but not without a pause.
    async fn pause(&self) -> Result<(), SessionLost> {
        tokio::select! {
            biased;
            _ = self.context.lost.cancelled() => Err(SessionLost::Fenced),
            _ = self.context.stop.cancelled() => Ok(()),
            _ = self.context.inbox.notified() => Ok(()),
            () = sleep(PAUSE) => Ok(()),
        }
    }

    fn set_idle(&self, idle: Option<IdleSession>) {
        *self.context.slot.idle.locked() = idle;
    }

    /// Waits until there is something to do, or no reason to stay. Output of the agent is passed on
    /// meanwhile, and open calls are answered first.
    async fn wait_while_idle(&mut self) -> Result<bool, SessionLost> {
        let asked = self.conversation.idle_timeout();
        let has_agent = asked.is_some();
        let patience = asked.unwrap_or(STAY);
        let patience = if self.over { Duration::ZERO } else { patience };
        let (conversation, writer) = (self.conversation.clone(), self.writer.clone());
        let rest = BetweenTurns::new(writer.clone(), self.out_of_turn.clone());
        let mut heard = pin!(conversation.listen(ListenContext::Rest(&rest)));
        let (since, mut patience) = (Instant::now(), pin!(sleep(patience)));
        writer.flush(conversation.changes(), false).await?;
        writer.rest();
        loop {
            let idle = self.calls.is_empty();
            // A program keeps the settings with which it was started, until it is stopped.
            if idle && !has_agent && self.context.inbox.has_new_setup() {
                return Ok(false);
            }
            self.set_idle(idle.then_some(IdleSession { since, has_agent }));
            tokio::select! {
                biased;
                _ = self.context.lost.cancelled() => return Err(SessionLost::Fenced),
                _ = self.context.stop.cancelled() => return Ok(true),
                _ = self.context.inbox.notified() => {
                    if idle && !has_agent && self.context.inbox.has_new_setup() {
                        return Ok(false);
                    }
                    self.read_news().await?;
                    if !self.queue.is_empty() {
                        return Ok(true);
                    }
                }
                Some(call) = self.calls.join_next() => self.called(call),
                () = &mut heard, if !self.agent_gone => {
                    self.agent_gone = true;
                    return Ok(true);
                }
                _ = writer.wait_until_due() => {
                    writer.flush(conversation.changes(), false).await?;
                }
                _ = self.context.slot.evict.notified(), if idle => return Ok(false),
                () = &mut patience, if idle => return Ok(false),
            }
        }
    }
}
