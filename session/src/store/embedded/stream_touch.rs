//! Keeps streams alive.

use std::time::Instant;

use super::EmbeddedStore;
use super::backend::{ExpiryKind, StorageBackend, StoreChange};
use super::state::StoreState;
use crate::id::LogId;
use crate::store::{Result, StreamTouch};

impl<S: StorageBackend> EmbeddedStore<S> {
    /// False if another holder has the stream.
    pub(super) fn touch(
        &self,
        state: &mut StoreState,
        touch: &StreamTouch,
        until: Option<Instant>,
    ) -> Result<bool> {
        if let (None, Some(delivered)) = (&touch.stream.session, touch.delivered) {
            let connection = &touch.stream.connection;
            let outbox = state.outbox(&self.backend, connection)?;
            if outbox.holder.as_deref() == Some(&touch.holder) {
                outbox.delivered = delivered.upto;
                self.trim(connection, outbox, delivered.settled)?;
            }
        }
        let held = state.touch(&self.backend, touch, until)?;
        if held && touch.written.is_some() {
            let connection = &touch.stream.connection;
            match &touch.stream.session {
                Some(id) => {
                    if let Some(session) = state.session(&self.backend, id)? {
                        self.save(&[StoreChange::Session(id, session)])?;
                    }
                }
                None => {
                    let outbox = state.outbox(&self.backend, connection)?;
                    let before = outbox.use_now();
                    let log = LogId::Outbox(connection.clone());
                    let now = before.and(Some(outbox.used));
                    let used = StoreChange::Used(ExpiryKind::Outbox, &log, before, now);
                    self.save(&[StoreChange::Outbox(connection, outbox), used])?;
                }
            }
        }
        Ok(held)
    }
}
