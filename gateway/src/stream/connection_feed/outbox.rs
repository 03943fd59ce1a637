//! The connection's own messages, and the sessions that it is told to watch.

use baton_session::event::Event;
use baton_session::id::Nonce;
use baton_session::store;

use super::super::session_feed::FeedStart;
use super::ConnectionFeed;
use crate::stream::feed::{OutgoingMessage, is_enough};

impl ConnectionFeed {
    pub(super) async fn read_outbox(
        &mut self,
        out: &mut Vec<OutgoingMessage>,
    ) -> store::Result<()> {
        while !is_enough(out, OutgoingMessage::size) {
            let Some(page) = self.outbox.next_page().await? else {
                return Ok(());
            };
            // A reader that reads an entry before it leaves the outbox has it; a later one has to
            // be told.
            if page.has_hole() {
                self.fell_behind = true;
                self.outbox.wake().wake_up();
                return Ok(());
            }
            for frame in &page.frames {
                for (seq, event) in frame.numbered() {
                    if seq < self.outbox.next() {
                        continue;
                    }
                    // An entry counts as read only when it is dealt with: opening a watch may fail.
                    self.apply_entry(seq, frame.nonce, event, out).await?;
                }
            }
        }
        Ok(())
    }

    async fn apply_entry(
        &mut self,
        seq: u64,
        nonce: Nonce,
        event: &Event,
        out: &mut Vec<OutgoingMessage>,
    ) -> store::Result<()> {
        self.shorten_cursor().await?;
        match event {
            Event::Watch { session, after } => {
                let from = if *after == 0 {
                    FeedStart::Joined
                } else {
                    self.after(session, *after).await?
                };
                self.watch(seq, session.clone(), from).await?;
            }
            Event::Closed => self.ended |= seq > self.opened_at,
            _ => {}
        }
        self.outbox.advance(seq, nonce);
        self.positions.pass(seq, event.size());
        if let Event::Message { message } = event {
            let cursor = self.cursor();
            out.push(OutgoingMessage {
                cursor,
                message: message.clone(),
            });
        }
        Ok(())
    }
}
