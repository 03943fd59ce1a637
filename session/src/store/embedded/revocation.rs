//! Revocations in an embedded store.

use super::Embedded;
use super::shelf::{Change, Shelf};
use super::state::State;
use crate::clock::unix_millis;
use crate::revocation::{Applied, Revocation};
use crate::store::{Result, Signal, Topic};

impl<S: Shelf> Embedded<S> {
    pub(super) fn revoke_subject(
        &self,
        state: &mut State,
        revocation: &Revocation,
    ) -> Result<bool> {
        self.forget_ended(state)?;
        let kept = match state.revoked.apply(revocation, unix_millis() / 1000) {
            Applied::Full => return Ok(false),
            Applied::Covered => return Ok(true),
            // Again if it is repeated: the first time may have reached nobody.
            Applied::Known => revocation.clone(),
            Applied::Done(kept, gone) => {
                let gone = gone.iter().map(Change::Unrevoked);
                let changes: Vec<_> = gone.chain([Change::Revoked(&kept)]).collect();
                self.save(&changes)?;
                *kept
            }
        };
        self.announce(Topic::Revocations, Signal::Revoked(kept));
        Ok(true)
    }

    pub(super) fn all_revocations(&self, state: &mut State) -> Result<Vec<Revocation>> {
        self.forget_ended(state)?;
        Ok(state.revoked.all().cloned().collect())
    }

    fn forget_ended(&self, state: &mut State) -> Result<()> {
        let over = state.revoked.forget(unix_millis() / 1000);
        if !over.is_empty() {
            let changes: Vec<_> = over.iter().map(Change::Unrevoked).collect();
            self.save(&changes)?;
        }
        Ok(())
    }
}
