//! Where a connection's stream begins: at the client's cursor, or with a reset.

use baton_session::cursor::Cursor;
use baton_session::event::Event;
use baton_session::id::{LogId, SessionId};
use baton_session::store;

use super::super::footing::nonce_of;
use super::super::session_feed::From;
use super::{ConnectionFeed, PAGE, Position};

const NOT_OURS: &str =
    "the cursor is not part of this connection's history: load your sessions again";

impl ConnectionFeed {
    /// False if the position is not part of the history, or what comes after it is not kept any more.
    pub(super) async fn resume(&mut self, position: Position) -> store::Result<bool> {
        let log = LogId::Outbox(self.connection.id.clone());
        let entry = self.app.store.read(&log, position.outbox.max(1), 1).await?;
        let entry = entry.first();
        let found = match position.outbox {
            0 => entry.is_none_or(|first| first.first == 1),
            outbox => entry.is_some_and(|entry| {
                let is_same = position.nonce.is_none_or(|nonce| nonce == entry.nonce);
                entry.first == outbox && is_same
            }),
        };
        if !found {
            return Ok(false);
        }
        self.read = position.outbox;
        self.nonce = entry.filter(|_| self.read > 0).map(|entry| entry.nonce);
        if position.sessions.is_empty() {
            return Ok(true);
        }
        let watches = self.watches(position.outbox).await?;
        for (watch, cursor) in position.sessions {
            let Some((_, session)) = watches.iter().find(|(number, _)| *number == watch) else {
                return Ok(false);
            };
            let from = From::After(cursor);
            if !self.watch(watch, session.clone(), from).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The client's cursor means nothing here: it gets a reset, and what comes from now on.
    pub(super) async fn start_over(&mut self, head: u64) -> store::Result<()> {
        self.sessions.clear();
        self.fell_behind = false;
        self.start.reset = Some(NOT_OURS);
        self.opened_at = self.opened_at.min(head);
        self.read = head;
        let log = LogId::Outbox(self.connection.id.clone());
        self.nonce = match head {
            0 => None,
            head => nonce_of(&*self.app.store, &log, head).await?,
        };
        for (watch, session) in self.watches(head).await? {
            let log = LogId::Session(session.clone());
            let head = self.app.store.heads(std::slice::from_ref(&log)).await?[0];
            let nonce = nonce_of(&*self.app.store, &log, head).await?;
            let from = From::After(Cursor::live(head, nonce.unwrap_or_default()));
            self.watch(watch, session, from).await?;
        }
        Ok(())
    }

    /// What entries up to `upto` have told to watch, in their order. Those in the outbox are looked at first: one
    /// that leaves it meanwhile is found among those that have left it.
    async fn watches(&self, upto: u64) -> store::Result<Vec<(u64, SessionId)>> {
        let log = LogId::Outbox(self.connection.id.clone());
        let (mut kept, mut from) = (Vec::new(), 1);
        while from <= upto {
            let frames = self.app.store.read(&log, from, PAGE).await?;
            let Some(last) = frames.last() else { break };
            from = last.last() + 1;
            for (seq, event) in frames.iter().flat_map(|frame| frame.numbered()) {
                if let Event::Watch { session, .. } = event
                    && seq <= upto
                {
                    kept.push((seq, session.clone()));
                }
            }
        }
        let mut watches = self.app.store.watches(&self.connection.id).await?;
        watches.extend(kept);
        watches.sort_by_key(|(number, _)| *number);
        watches.dedup();
        Ok(watches)
    }
}
