//! A session with nothing to do: given up at once, or kept for a while because its agent lives here or
//! still works on a call.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Hold, Rested};
use crate::agent::{Rest, Stage};
use crate::outlet::Lost;
use baton_session::sync::MutexExt as _;

/// Between two tries to give a session up that something still waits in.
const PAUSE: Duration = Duration::from_millis(200);

impl Hold {
    pub(super) async fn rest(&mut self) -> Result<Rested, Lost> {
        let patience = self.conversation.stays().filter(|_| !self.over);
        if patience.is_some() || !self.calls.is_empty() {
            let awake = self.waits(patience.unwrap_or_default()).await;
            self.rests(None);
            if awake? {
                return Ok(Rested::Awake);
            }
        }
        self.asides.withdraw();
        if self.outlet.flush(self.conversation.changes(), true).await? {
            return Ok(Rested::Released);
        }
        self.read_inbox().await?;
        if self.queue.is_empty() {
            self.pause().await?;
        }
        Ok(Rested::Awake)
    }

    /// Something waits in the inbox that cannot be read yet, or that was done before: it is looked at again, but
    /// not without a pause.
    async fn pause(&self) -> Result<(), Lost> {
        tokio::select! {
            biased;
            _ = self.reins.lost.cancelled() => Err(Lost::Fenced),
            _ = self.reins.stop.cancelled() => Ok(()),
            _ = self.reins.inbox.notified() => Ok(()),
            () = sleep(PAUSE) => Ok(()),
        }
    }

    fn rests(&self, since: Option<Instant>) {
        let place = &self.reins.place;
        *place.resting.locked() = since;
    }

    /// Waits until there is something to do, or no reason to stay. Output of the agent is passed on
    /// meanwhile, and open calls are answered first.
    async fn waits(&mut self, patience: Duration) -> Result<bool, Lost> {
        let (conversation, outlet) = (self.conversation.clone(), self.outlet.clone());
        let rest = Rest::new(outlet.clone(), self.asides.clone());
        let mut heard = pin!(conversation.listen(Stage::Rest(&rest)));
        let (began, mut patience) = (Instant::now(), pin!(sleep(patience)));
        outlet.flush(conversation.changes(), false).await?;
        loop {
            let idle = self.calls.is_empty();
            self.rests(idle.then_some(began));
            tokio::select! {
                biased;
                _ = self.reins.lost.cancelled() => return Err(Lost::Fenced),
                _ = self.reins.stop.cancelled() => return Ok(true),
                _ = self.reins.inbox.notified() => {
                    self.read_inbox().await?;
                    if !self.queue.is_empty() {
                        return Ok(true);
                    }
                }
                Some(call) = self.calls.join_next() => self.called(call),
                () = &mut heard, if !self.deserted => {
                    self.deserted = true;
                    return Ok(true);
                }
                _ = outlet.due() => {
                    outlet.flush(conversation.changes(), false).await?;
                }
                _ = self.reins.place.leave.notified(), if idle => return Ok(false),
                () = &mut patience, if idle => return Ok(false),
            }
        }
    }
}
