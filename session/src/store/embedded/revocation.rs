//! Revocations in an embedded store.

use super::EmbeddedStore;
use super::backend::{StorageBackend, StoreChange};
use super::state::StoreState;
use crate::clock::unix_millis;
use crate::revocation::{Revocation, RevokeOutcome};
use crate::store::{Result, Signal, Topic};

impl<S: StorageBackend> EmbeddedStore<S> {
    pub(super) fn revoke_subject(
        &self,
        state: &mut StoreState,
        revocation: &Revocation,
    ) -> Result<bool> {
        self.forget_ended(state)?;
        let kept = match state.revoked.apply(revocation, unix_millis() / 1000) {
            RevokeOutcome::Full => return Ok(false),
            RevokeOutcome::Covered => return Ok(true),
            // Again if it is repeated: the first time may have reached nobody.
            RevokeOutcome::Known => revocation.clone(),
            RevokeOutcome::Done(kept, gone) => {
                let gone = gone.iter().map(StoreChange::Unrevoked);
                let changes: Vec<_> = gone.chain([StoreChange::Revoked(&kept)]).collect();
                self.save(&changes)?;
                *kept
            }
        };
        self.announce(Topic::Revocations, Signal::Revoked(kept));
        Ok(true)
    }

    pub(super) fn all_revocations(&self, state: &mut StoreState) -> Result<Vec<Revocation>> {
        self.forget_ended(state)?;
        Ok(state.revoked.all().cloned().collect())
    }

    fn forget_ended(&self, state: &mut StoreState) -> Result<()> {
        let over = state.revoked.forget(unix_millis() / 1000);
        if !over.is_empty() {
            let changes: Vec<_> = over.iter().map(StoreChange::Unrevoked).collect();
            self.save(&changes)?;
        }
        Ok(())
    }
}
