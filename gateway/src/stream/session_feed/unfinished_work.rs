//! For a gateway that drains: whether something is under way that this stream has to carry yet.

use baton_session::command::CommandId;
use baton_session::store;

use super::SessionFeed;

impl SessionFeed {
    pub fn turn_seems_to_run(&self) -> bool {
        self.tail.turn_runs() == Some(true)
    }

    /// The commands that are not done with. One stays in the inbox until its answer is in the log:
    /// an empty inbox means that no turn runs and none is about to.
    pub async fn work(&self) -> store::Result<Vec<CommandId>> {
        self.store.waiting_commands(&self.session).await
    }

    /// Nothing is left to do, as far as is known here. Any change of that wakes the stream.
    pub fn is_idle(&self) -> bool {
        let settled = !self.stale && self.is_certain();
        let heard = !self.tail.has_unread_notices();
        let open_requests = self.directive().is_some() || self.ask_after.is_some();
        settled && heard && !open_requests && self.tail.is_up_to_date()
    }

    /// There is something this stream has not carried out yet.
    async fn is_behind(&self) -> store::Result<bool> {
        let settled = !self.stale && self.is_certain();
        if !settled || self.directive().is_some() || self.ask_after.is_some() {
            return Ok(true);
        }
        let head = self.tail.head().await?;
        self.tail.grow(head);
        Ok(self.tail.next() <= head)
    }

    /// The inbox first: what it no longer holds is in the log by then.
    pub async fn is_under_way(&self) -> store::Result<bool> {
        Ok(self.only.is_some() || !self.work().await?.is_empty() || self.is_behind().await?)
    }
}
