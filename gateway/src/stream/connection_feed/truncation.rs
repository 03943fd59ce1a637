//! Whether everything that this stream has delivered is still part of its logs.

use baton_session::store;

use super::ConnectionFeed;
use crate::stream::truncation::{LOST_TAIL, LogCheck};

impl ConnectionFeed {
    /// Notes a reset if something that was delivered does not exist any more. It is said before
    /// anything else, since every later cursor would pass over it; what was found stays noted if
    /// the store fails before all is looked at.
    pub(super) async fn look_for_loss(&mut self) -> store::Result<()> {
        if (self.fell_behind || !self.outbox.is_intact()) && !self.is_outbox_intact().await? {
            let head = self.outbox.head().await?;
            let sessions = self.sessions.iter();
            let parts = sessions.map(|(watch, watched)| (*watch, Some(watched.feed.position())));
            let parts = parts.collect();
            self.begin_anew(head, &parts).await?;
            self.reset_due = true;
            return Ok(());
        }
        for watch in &self.due {
            if let Some(watched) = self.sessions.get_mut(watch) {
                if watched.feed.was_truncated().await? {
                    self.reset_due = true;
                    self.start.reset = Some(LOST_TAIL);
                }
                self.positions.set(*watch, watched.feed.position());
            }
        }
        Ok(())
    }

    /// Whether the last entry that was read is still there, and what comes after it as well.
    async fn is_outbox_intact(&mut self) -> store::Result<bool> {
        if self.fell_behind {
            return Ok(false);
        }
        // Cursors that name what is lost get a reset; from here on they name something else.
        for entry in self.positions.entries().to_vec() {
            if self.outbox.nonce_of(entry.number).await? != Some(entry.nonce) {
                self.positions.forget_entries();
                break;
            }
        }
        Ok(self.outbox.check().await? != LogCheck::Lost)
    }
}
