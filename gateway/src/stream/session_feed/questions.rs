//! The agent's requests, as one client sees them. A client that was asked learns when there is
//! nothing to answer any more: another client has answered, or the turn has ended.

use std::sync::Arc;

use baton_session::cursor::Cursor;
use baton_session::event::Event;
use baton_session::store;
use bytes::Bytes;

use super::SessionFeed;

impl SessionFeed {
    /// True if this client was asked, or may have been before it came back.
    pub(super) fn settle_question(&mut self, answered: u64, id: &str) -> bool {
        self.open_requests.settle(id) || answered <= self.recalled
    }

    /// To be said before the turn's end, under the cursor before it: said twice does no harm, and a
    /// client that comes back in between does not miss the end.
    pub(super) fn withdraw_questions(&mut self, end: u64, out: &mut Vec<(Cursor, Bytes)>) {
        let here = self.attachment.route.at(end) == Some(self.via);
        for message in self.open_requests.withdraw().filter(|_| here) {
            out.push((self.position, message));
        }
    }

    /// For a client that comes back: it may have been asked what is still open, and what was
    /// answered while it was away.
    pub(super) async fn recall_questions(&mut self) -> store::Result<()> {
        self.recalled = self.attachment.head;
        let open = self.attachment.pending.iter().copied();
        let open: Vec<u64> = open.filter(|seq| *seq < self.tail.next()).collect();
        for seq in open {
            if let Some((id, _)) = self.question(seq).await? {
                self.open_requests.note(&id);
            }
        }
        Ok(())
    }

    pub(super) async fn question(&self, seq: u64) -> store::Result<Option<(Arc<str>, Bytes)>> {
        let frame = self.tail.read_one(seq).await?;
        let mut events = frame.iter().flat_map(|frame| frame.numbered());
        let event = events.find(|(number, _)| *number == seq);
        Ok(event.and_then(|(_, event)| match event {
            Event::Request { id, message } => Some((id.clone(), message.clone())),
            _ => None,
        }))
    }
}
