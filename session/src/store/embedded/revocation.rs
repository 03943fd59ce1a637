//! What was taken back.

use super::Embedded;
use super::shelf::{Change, Shelf};
use super::state::State;
use crate::clock::unix_millis;
use crate::revocation::Revocation;
use crate::store::{Result, Signal, Topic};

impl<S: Shelf> Embedded<S> {
    pub(super) fn revoke_subject(&self, state: &mut State, revocation: &Revocation) -> Result<()> {
        let known = state.revoked.get(&revocation.subject);
        if known.is_some_and(|known| !known.gives_way_to(revocation)) {
            return Ok(());
        }
        self.save(&[Change::Revoked(revocation)])?;
        let subject = revocation.subject.clone();
        state.revoked.insert(subject, revocation.clone());
        self.announce(Topic::Revocations, Signal::Revoked(revocation.clone()));
        Ok(())
    }

    pub(super) fn all_revocations(&self, state: &mut State) -> Result<Vec<Revocation>> {
        let now = unix_millis() / 1000;
        let ended = |revocation: &Revocation| revocation.until <= now;
        let over: Vec<_> = state.revoked.extract_if(|_, known| ended(known)).collect();
        if !over.is_empty() {
            let changes: Vec<_> = over
                .iter()
                .map(|(subject, _)| Change::Unrevoked(subject))
                .collect();
            self.save(&changes)?;
        }
        Ok(state.revoked.values().cloned().collect())
    }
}
