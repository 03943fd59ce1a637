//! Keeps streams alive.

use std::time::Instant;

use super::Embedded;
use super::shelf::{Change, Kind, Shelf};
use super::state::State;
use crate::id::LogId;
use crate::store::{Result, Touch};

impl<S: Shelf> Embedded<S> {
    /// False if another holder has the stream.
    pub(super) fn touch(
        &self,
        state: &mut State,
        touch: &Touch,
        until: Option<Instant>,
    ) -> Result<bool> {
        if let (None, Some(delivered)) = (&touch.stream.session, touch.delivered) {
            let connection = &touch.stream.connection;
            let outbox = state.outbox(&self.shelf, connection)?;
            if outbox.holder.as_deref() == Some(&touch.holder) {
                outbox.delivered = delivered.upto;
                self.trim(connection, outbox, delivered.settled)?;
            }
        }
        let held = state.touch(&self.shelf, touch, until)?;
        if held && touch.written.is_some() {
            let connection = &touch.stream.connection;
            match &touch.stream.session {
                Some(id) => {
                    if let Some(session) = state.session(&self.shelf, id)? {
                        self.save(&[Change::Session(id, session)])?;
                    }
                }
                None => {
                    let outbox = state.outbox(&self.shelf, connection)?;
                    let before = outbox.use_now();
                    let log = LogId::Outbox(connection.clone());
                    let now = before.and(Some(outbox.used));
                    let used = Change::Used(Kind::Outbox, &log, before, now);
                    self.save(&[Change::Outbox(connection, outbox), used])?;
                }
            }
        }
        Ok(held)
    }
}
