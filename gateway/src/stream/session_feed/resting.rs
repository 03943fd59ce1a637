//! For a connection stream, which reads many sessions and hears little of most.

use baton_session::cursor::Cursor;
use baton_session::route::DeliveryPath;

use super::SessionFeed;
use crate::stream::tailed_log::MuteState;

impl SessionFeed {
    /// Stops listening if the session's own stream carries it from here on.
    pub fn rest(&mut self) -> bool {
        let elsewhere = self.attachment.route.at(self.tail.next()) == Some(DeliveryPath::Session);
        let settled = !self.stale && self.is_certain();
        let idle = self.directive().is_none() && self.ask_after.is_none() && settled;
        elsewhere && idle && self.tail.mute(&self.connection)
    }

    /// False while it rests and nothing concerns it. To be asked after [`Self::was_truncated`].
    pub fn rouse(&mut self) -> bool {
        let muted = self.tail.muted();
        // If somebody was attached meanwhile, what came since has to be looked at, from where it
        // rested.
        if self.stale || self.tail.has_unread_notices() {
            self.stale = true;
            return true;
        }
        match muted {
            MuteState::Still(last) => {
                if let Some((seq, nonce)) = last.filter(|(seq, _)| *seq >= self.tail.next()) {
                    self.tail.advance(seq, nonce);
                    self.position = Cursor::live(seq, nonce);
                }
                !self.tail.is_intact()
            }
            MuteState::ResumeAt(seq) => {
                if seq > self.tail.next() {
                    self.tail.skip_to(seq);
                }
                // Requests in between are in the store, not here.
                self.stale = true;
                true
            }
            MuteState::Unsure => true,
        }
    }
}
