//! A session with nothing to do: given up at once, or kept for a while because its agent lives here.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Hold, Rested};
use crate::agent::{Rest, Stage};
use crate::outlet::Lost;

impl Hold {
    pub(super) async fn rest(&mut self) -> Result<Rested, Lost> {
        if let Some(patience) = self.conversation.stays() {
            self.rests(Some(Instant::now()));
            let awake = self.waits(patience).await;
            self.rests(None);
            if awake? {
                return Ok(Rested::Awake);
            }
        }
        self.end_calls().await?;
        if self.outlet.flush(self.conversation.changes(), true).await? {
            return Ok(Rested::Released);
        }
        self.read_inbox().await?;
        Ok(Rested::Awake)
    }

    fn rests(&self, since: Option<Instant>) {
        *self
            .reins
            .place
            .resting
            .lock()
            .expect("held for moments only") = since;
    }

    /// Until there is something to do, or no reason to stay. What the agent says meanwhile is heard.
    async fn waits(&mut self, patience: Duration) -> Result<bool, Lost> {
        let (conversation, outlet) = (self.conversation.clone(), self.outlet.clone());
        let rest = Rest::new(outlet.clone());
        let mut heard = pin!(conversation.listen(Stage::Rest(&rest)));
        let mut patience = pin!(sleep(patience));
        outlet.flush(conversation.changes(), false).await?;
        loop {
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
                _ = outlet.due() => {
                    outlet.flush(conversation.changes(), false).await?;
                }
                () = &mut heard => return Ok(false),
                _ = self.reins.place.leave.notified(), if self.calls.is_empty() => return Ok(false),
                () = &mut patience, if self.calls.is_empty() => return Ok(false),
            }
        }
    }

    /// Whoever asked gets an answer before the session is given up.
    async fn end_calls(&mut self) -> Result<(), Lost> {
        let conversation = self.conversation.clone();
        let rest = Rest::new(self.outlet.clone());
        let mut heard = pin!(conversation.listen(Stage::Rest(&rest)));
        let mut hears = true;
        while !self.calls.is_empty() {
            tokio::select! {
                biased;
                _ = self.reins.lost.cancelled() => return Err(Lost::Fenced),
                // They stay in the inbox, for the next worker.
                _ = self.reins.stop.cancelled() => return Ok(()),
                Some(call) = self.calls.join_next() => self.called(call),
                () = &mut heard, if hears => hears = false,
            }
        }
        Ok(())
    }
}
