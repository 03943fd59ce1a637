//! Adding entries to a connection's outbox, and removing them.

use bytes::Bytes;

use super::EmbeddedStore;
use super::backend::{ExpiryKind, StorageBackend, StoreChange};
use super::outbox::{Outbox, RecalledPost};
use super::state::StoreState;
use crate::command::IdempotencyKey;
use crate::event::Event;
use crate::id::{ConnectionId, LogId};
use crate::store::{Error, OUTBOX_BYTES, OUTBOX_TRIMMED_AT_ONCE, PostOutcome, Result};

impl<S: StorageBackend> EmbeddedStore<S> {
    pub(super) fn post_event(
        &self,
        state: &mut StoreState,
        to: &ConnectionId,
        event: Event,
        key: &IdempotencyKey,
    ) -> Result<PostOutcome> {
        let outbox = state.outbox(&self.backend, to)?;
        let log = LogId::Outbox(to.clone());
        match outbox.recall(key) {
            None => {}
            Some(RecalledPost::SomethingElse) => return Ok(PostOutcome::Conflict),
            Some(RecalledPost::Trimmed(watch)) => {
                let watch = watch.map(|session| Event::Watch { session, after: 0 });
                return Ok(watch.map_or(PostOutcome::Delivered, PostOutcome::Known));
            }
            Some(RecalledPost::Entry(number)) => {
                let frames = self.backend.read(&log, number, 1)?;
                let event = frames.first().and_then(|frame| frame.events.first());
                let missing = || Error::Broken(format!("entry {number} of {to} is missing"));
                return event.cloned().map(PostOutcome::Known).ok_or_else(missing);
            }
        }
        if !outbox.has_room(&event) {
            self.trim(to, outbox, outbox.delivered)?;
            if !outbox.has_room(&event) {
                return Ok(PostOutcome::Full);
            }
        }
        let frame = outbox.add(event, key);
        let before = outbox.use_now();
        self.save(&[
            StoreChange::Frame(&log, &frame),
            StoreChange::Outbox(to, outbox),
            StoreChange::Used(
                ExpiryKind::Outbox,
                &log,
                before,
                before.and(Some(outbox.used)),
            ),
        ])?;
        let (number, nonce) = (frame.first, frame.nonce);
        self.announce_frame(log, frame);
        Ok(PostOutcome::New { number, nonce })
    }

    pub(super) fn keep_description(
        &self,
        state: &mut StoreState,
        of: &ConnectionId,
        description: &Bytes,
    ) -> Result<()> {
        let outbox = state.outbox(&self.backend, of)?;
        outbox.client = Some(String::from_utf8_lossy(description).into_owned());
        let log = LogId::Outbox(of.clone());
        let before = outbox.use_now();
        let used = before.and(Some(outbox.used));
        self.save(&[
            StoreChange::Outbox(of, outbox),
            StoreChange::Used(ExpiryKind::Outbox, &log, before, used),
        ])
    }

    pub(super) fn outbox_room(&self, state: &mut StoreState, of: &ConnectionId) -> Result<bool> {
        let outbox = state.outbox(&self.backend, of)?;
        if !outbox.has_room_for(0, OUTBOX_BYTES / 2) {
            self.trim(of, outbox, outbox.delivered)?;
        }
        Ok(outbox.has_room_for(0, OUTBOX_BYTES / 2))
    }

    /// Entries before `upto` leave the outbox as far as its window allows.
    pub(super) fn trim(&self, id: &ConnectionId, outbox: &mut Outbox, upto: u64) -> Result<()> {
        if !outbox.is_beyond_its_window() || outbox.trimmed + 1 >= upto {
            return Ok(());
        }
        let log = LogId::Outbox(id.clone());
        let first = outbox.trimmed + 1;
        let mut left = OUTBOX_TRIMMED_AT_ONCE;
        loop {
            let page = self.backend.read(&log, outbox.trimmed + 1, left)?;
            left -= page.len();
            // An entry that has to stay ends the loop; so does the end of the outbox.
            if page.is_empty() || !page.iter().all(|entry| outbox.trim(entry, upto)) {
                break;
            }
        }
        if outbox.trimmed < first {
            return Ok(());
        }
        self.save(&[
            StoreChange::Trimmed(&log, first, outbox.trimmed),
            StoreChange::Outbox(id, outbox),
        ])
    }
}
