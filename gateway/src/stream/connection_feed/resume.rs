//! Where a connection's stream begins: at the client's cursor, or with a reset.

use std::collections::{BTreeMap, HashMap};

use baton_session::cursor::Cursor;
use baton_session::event::Event;
use baton_session::id::SessionId;
use baton_session::store;

use super::super::session_feed::FeedStart;
use super::super::truncation::LOST_TAIL;
use super::cursor_text::{CursorParts, OutboxEntry, parse_parts};
use super::session_positions::SessionPositions;
use super::{ConnectionCursor, ConnectionFeed};

const NOT_OURS: &str =
    "the cursor is not part of this connection's history: load your sessions again";

impl ConnectionFeed {
    /// False if the position is not part of the history, or what comes after it is not kept any
    /// more.
    pub(super) async fn resume(&mut self, position: ConnectionCursor) -> store::Result<bool> {
        let entry = self.outbox.read_one(position.outbox.max(1)).await?;
        let found = match position.outbox {
            0 => entry.as_ref().is_none_or(|first| first.first == 1),
            outbox => entry.as_ref().is_some_and(|entry| {
                let is_same = position.nonce.is_none_or(|nonce| nonce == entry.nonce);
                entry.first == outbox && is_same
            }),
        };
        if !found {
            return Ok(false);
        }
        let entry = entry.filter(|_| position.outbox > 0);
        let nonce = entry.map(|entry| entry.nonce);
        self.outbox.move_to(position.outbox, nonce);
        let Some(combined) = self
            .combine_entries(position.entries, position.parts)
            .await?
        else {
            return Ok(false);
        };
        if combined.is_empty() {
            return Ok(true);
        }
        let watches = self.known_watches(position.outbox).await?;
        let watches: HashMap<u64, SessionId> = watches.into_iter().collect();
        let sessions = combined.into_iter().map(|(watch, cursor)| {
            let session = watches.get(&watch)?.clone();
            Some((watch, session, Some(FeedStart::After(cursor))))
        });
        let Some(sessions) = sessions.collect::<Option<Vec<_>>>() else {
            return Ok(false);
        };
        let opened = self.open_all(sessions).await?;
        if !self.add_all(opened) {
            // Each goes on where its client and its log part.
            self.start.reset = Some(LOST_TAIL);
        }
        for (watch, session) in &watches {
            let first = self.watches.get(session).filter(|first| *first < watch);
            if let Some(watched) = first.and_then(|first| self.sessions.get_mut(first)) {
                watched.last_watch = watched.last_watch.max(*watch);
            }
        }
        Ok(true)
    }

    /// Lays what a cursor says over the entries of the outbox that it names. `None` if one of them
    /// is not there, or is another one.
    async fn combine_entries(
        &mut self,
        entries: Vec<OutboxEntry>,
        parts: CursorParts,
    ) -> store::Result<Option<BTreeMap<u64, Cursor>>> {
        let (mut combined, mut read) = (CursorParts::new(), Vec::new());
        for entry in &entries {
            let frame = self.outbox.read_one(entry.number).await?;
            let found = frame
                .as_ref()
                .filter(|found| found.first == entry.number && found.nonce == entry.nonce);
            let text = found.and_then(|found| match found.events.first() {
                Some(Event::Positions { text }) => Some(text.clone()),
                _ => None,
            });
            let Some((text, named_parts)) =
                text.and_then(|text| Some((text.len(), parse_parts(&text)?)))
            else {
                return Ok(None);
            };
            combined.extend(&named_parts);
            read.push((text, named_parts));
        }
        combined.extend(parts);
        self.positions = SessionPositions::resume(entries, read);
        let combined = combined.into_iter();
        let combined = combined.filter_map(|(watch, cursor)| Some((watch, cursor?)));
        Ok(Some(combined.collect()))
    }

    /// The client's place in the outbox means nothing here: it gets a reset, and what comes from
    /// now on. Sessions go on where it has seen them, as far as `parts` say so.
    pub(super) async fn begin_anew(&mut self, head: u64, parts: &CursorParts) -> store::Result<()> {
        let nonce = match head {
            0 => None,
            head => self.outbox.nonce_of(head).await?,
        };
        let watches = self.known_watches(head).await?.into_iter();
        let watches = watches.map(|(watch, session)| {
            let seen = parts.get(&watch).copied().flatten();
            (watch, session, seen.map(FeedStart::After))
        });
        let opened = self.open_all(watches.collect()).await?;
        // A failure until here changes nothing, and is tried again.
        self.outbox.move_to(head, nonce);
        self.fell_behind = false;
        self.start.reset = Some(NOT_OURS);
        self.opened_at = self.opened_at.min(head);
        self.sessions.clear();
        self.watches.clear();
        self.due.clear();
        self.positions = SessionPositions::default();
        self.add_all(opened);
        Ok(())
    }

    /// The sessions that entries up to `upto` named for watching, in their order. Those in the
    /// outbox are read first: one that leaves it meanwhile is found among those that have left it.
    async fn known_watches(&self, upto: u64) -> store::Result<Vec<(u64, SessionId)>> {
        let (mut kept, mut from) = (Vec::new(), 1);
        while from <= upto {
            let frames = self.outbox.read(from).await?;
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
        let mut watches = self.services.store.watches(&self.connection.id).await?;
        watches.extend(kept);
        watches.sort_by_key(|(number, _)| *number);
        watches.dedup();
        Ok(watches)
    }
}
