//! Steps on sessions as wholes: they are forked, listed, deleted and moved.

use super::EmbeddedStore;
use super::backend::{ExpiryKind, StorageBackend, StoreChange};
use super::lineage;
use super::list::ListKey;
use super::session::{SessionStatus, StoredSession};
use super::state::StoreState;
use crate::clock::unix_millis;
use crate::command::Command;
use crate::id::{LogId, SessionId};
use crate::store::{
    AdoptRequest, ClaimToken, Claimant, ForkOutcome, ForkRequest, ListRequest, PrincipalUsage,
    Result, SessionRecord, SessionSummary, Signal,
};

impl<S: StorageBackend> EmbeddedStore<S> {
    pub(super) fn fork_session(
        &self,
        state: &mut StoreState,
        fork: &ForkRequest,
    ) -> Result<ForkOutcome> {
        let id = &fork.child;
        if let Some(child) = state.session(&self.backend, id)? {
            return Ok(child.forked_by(fork).unwrap_or(ForkOutcome::NotFound));
        }
        let Some(parent) = state.session(&self.backend, &fork.parent)? else {
            return Ok(ForkOutcome::NotFound);
        };
        let child = match parent.fork(fork) {
            Ok(child) => child,
            Err(refused) => return Ok(refused),
        };
        let shared = self.backend.lineage(&fork.parent)?;
        let lineage = lineage::continued(&shared, &fork.parent, child.head);
        let log = LogId::Session(id.clone());
        let mut changes = vec![
            StoreChange::Session(id, &child),
            StoreChange::Shares(id, &lineage),
            StoreChange::Used(ExpiryKind::Session, &log, None, Some(child.used)),
            StoreChange::Listed(&child, None, child.place(id)),
        ];
        changes.extend(child.stored(id));
        self.save(&changes)?;
        let done = child.forked_by(fork);
        state.insert(id.clone(), child);
        Ok(done.expect("it was made by this very fork"))
    }

    pub(super) fn list_sessions(
        &self,
        state: &mut StoreState,
        listing: &ListRequest,
    ) -> Result<Vec<SessionSummary>> {
        let heading = ListKey::new(&listing.principal, listing.cwd.as_deref());
        let after = listing.after.as_ref();
        let mut page = Vec::new();
        for place in self.backend.listed(&heading, after, listing.limit)? {
            page.extend(state.summary(&self.backend, place)?);
        }
        Ok(page)
    }

    pub(super) fn usage_of(
        &self,
        state: &mut StoreState,
        principal: &str,
        most: u64,
    ) -> Result<PrincipalUsage> {
        let heading = ListKey::new(principal, None);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Ok(PrincipalUsage {
            sessions: self.backend.listed(&heading, None, most)?.len() as u64,
            turns: state.turns_of(principal),
            stored: self.stored_by(state, principal)?,
        })
    }

    pub(super) fn delete_session(
        &self,
        state: &mut StoreState,
        id: &SessionId,
        principal: &str,
        end: &Command,
    ) -> Result<bool> {
        let session = state.session(&self.backend, id)?;
        if !session.is_some_and(|session| session.is_for(principal)) {
            return Ok(false);
        }
        self.deleted(state, id, end)?;
        Ok(true)
    }

    /// The session is not seen any more; if there is something to do about it, a worker learns of
    /// it.
    pub(super) fn deleted(
        &self,
        state: &mut StoreState,
        id: &SessionId,
        end: &Command,
    ) -> Result<()> {
        let Some(session) = state.session(&self.backend, id)? else {
            return Ok(());
        };
        let log = LogId::Session(id.clone());
        let now = unix_millis();
        let place = session.place(id);
        let has_work = session.delete(end, now);
        let mut changes = vec![
            StoreChange::Session(id, session),
            StoreChange::Used(ExpiryKind::Session, &log, Some(session.used), None),
            StoreChange::Used(ExpiryKind::Unseen, &log, None, Some(now)),
            StoreChange::Listed(session, place, None),
        ];
        if has_work {
            changes.extend(session.inbox.last().map(|end| StoreChange::Queued(id, end)));
        }
        self.save(&changes)?;
        // Streams look again.
        self.announce_log(log, Signal::Attached(id.clone(), end.connection.clone()));
        if has_work {
            self.wake(state, id)?;
        }
        Ok(())
    }

    pub(super) fn record_of(
        &self,
        state: &mut StoreState,
        id: &SessionId,
        principal: &str,
    ) -> Result<Option<SessionRecord>> {
        let session = state.session(&self.backend, id)?;
        let session = session.filter(|session| session.is_for(principal));
        Ok(session.map(|session| session.record()))
    }

    pub(super) fn adopt_session(
        &self,
        state: &mut StoreState,
        adoption: &AdoptRequest,
        claimant: &Claimant,
    ) -> Result<bool> {
        let id = &adoption.id;
        if let Some(known) = state.session(&self.backend, id)? {
            return Ok(known.is_adopted_by(&claimant.token));
        }
        let log = LogId::Session(id.clone());
        if !self.backend.read(&log, 1, 1)?.is_empty() {
            // Forks still share the log of a session that had this id.
            return Ok(false);
        }
        let mut session = StoredSession::adopt(adoption, claimant);
        let mut lineage = Vec::new();
        if let Some(shared) = &adoption.shares {
            let with = state.session(&self.backend, &shared.with)?;
            let Some(origin) = with.and_then(|it| it.shared(shared, &adoption.principal)) else {
                return Ok(false);
            };
            let inherited = self.backend.lineage(&shared.with)?;
            lineage = lineage::continued(&inherited, &shared.with, shared.upto);
            session.continues(origin);
        }
        let mut changes = vec![StoreChange::Session(id, &session)];
        if !lineage.is_empty() {
            changes.push(StoreChange::Shares(id, &lineage));
        }
        let unseen = StoreChange::Used(ExpiryKind::Unseen, &log, None, Some(session.used));
        changes.push(unseen);
        self.save(&changes)?;
        state.insert(id.clone(), session);
        Ok(true)
    }

    pub(super) fn publish_session(
        &self,
        state: &mut StoreState,
        id: &SessionId,
        token: &ClaimToken,
    ) -> Result<bool> {
        let Some(session) = state.session(&self.backend, id)? else {
            return Ok(false);
        };
        let (true, SessionStatus::Arriving(since)) =
            (session.is_adopted_by(token), session.standing)
        else {
            return Ok(session.was_published_by(token));
        };
        session.publish();
        let log = LogId::Session(id.clone());
        let mut changes = vec![
            StoreChange::Session(id, session),
            StoreChange::Used(ExpiryKind::Unseen, &log, Some(since), None),
            StoreChange::Used(ExpiryKind::Session, &log, None, Some(session.used)),
            StoreChange::Listed(session, None, session.place(id)),
        ];
        changes.extend(session.stored(id));
        self.save(&changes)?;
        Ok(true)
    }
}
