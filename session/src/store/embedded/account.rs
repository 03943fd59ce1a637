//! Bytes stored for a principal.

use std::collections::HashMap;

use super::EmbeddedStore;
use super::backend::StorageBackend;
use super::state::StoreState;
use crate::id::{LogId, SessionId};
use crate::store::Result;

impl<S: StorageBackend> EmbeddedStore<S> {
    /// The bytes on its account, with its inboxes and the events of running turns.
    pub(super) fn stored_by(&self, state: &StoreState, principal: &str) -> Result<u64> {
        let account: HashMap<SessionId, u64> =
            self.backend.stored(principal)?.into_iter().collect();
        let news = state.at_work(principal).map(|(id, session)| {
            let counted = account.get(id).copied().unwrap_or(0);
            session.inbox_bytes() + session.weight().saturating_sub(counted)
        });
        Ok(account.values().sum::<u64>() + news.sum::<u64>())
    }

    /// The bytes that remain of a session once it and its fork are removed: the log that other
    /// forks share.
    pub(super) fn left_of(&self, id: &SessionId, but_not: &SessionId) -> Result<Option<u64>> {
        let upto = self.backend.shared_upto(id, but_not)?;
        if upto == 0 {
            return Ok(None);
        }
        let mut left = 0;
        self.backend
            .each_page(&LogId::Session(id.clone()), 1, |page| {
                let shared = page.iter().filter(|frame| frame.first <= upto);
                left += shared.map(|frame| frame.weight()).sum::<u64>();
            })?;
        Ok(Some(left))
    }
}
