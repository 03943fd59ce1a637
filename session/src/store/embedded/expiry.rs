//! Housekeeping: what nobody uses is forgotten.

use super::EmbeddedStore;
use super::backend::{ExpiryKind, StorageBackend, StoreChange};
use super::session::SessionStatus;
use super::state::StoreState;
use crate::clock::unix_millis;
use crate::id::{ConnectionId, LogId, SessionId};
use crate::store::{DELETED_FOR, OUTBOX_TTL, Result, TidyOutcome, TidyPolicy};

/// Entries that one round of housekeeping handles.
const EXPIRE_AT_ONCE: usize = 256;

/// Forgets sessions that nobody has used for long, those that were deleted, the outboxes of dead
/// connections, and agents that nobody runs.
pub fn tidy<S: StorageBackend>(store: &EmbeddedStore<S>, when: &TidyPolicy) -> Result<TidyOutcome> {
    let (mut tidied, ttl) = (TidyOutcome::default(), when.unused);
    store.state()?.agents.retire(ttl);
    for (kind, ttl) in [
        (ExpiryKind::Session, ttl),
        (ExpiryKind::Unseen, DELETED_FOR.min(ttl)),
        (ExpiryKind::Outbox, OUTBOX_TTL),
    ] {
        let limit = unix_millis().saturating_sub(ttl.as_millis() as u64);
        let unused = store.backend.unused_since(kind, limit, EXPIRE_AT_ONCE)?;
        for (noted, log) in unused {
            // One at a time, so that nobody waits long.
            let mut state = store.state()?;
            let gone = match &log {
                LogId::Session(id) if kind == ExpiryKind::Unseen => {
                    unseen(store, &mut state, id, noted)?
                }
                LogId::Session(id) => session(store, &mut state, id, noted)?,
                LogId::Outbox(id) => outbox(store, &mut state, id, noted)?,
            };
            tidied.expired += usize::from(gone && kind != ExpiryKind::Outbox);
        }
    }
    Ok(tidied)
}

/// True if it is gone.
fn session<S: StorageBackend>(
    store: &EmbeddedStore<S>,
    state: &mut StoreState,
    id: &SessionId,
    noted: u64,
) -> Result<bool> {
    let log = LogId::Session(id.clone());
    let Some(session) = state.session(&store.backend, id)? else {
        return forget(store, state, id, ExpiryKind::Session, noted);
    };
    if session.is_busy() {
        session.used = unix_millis();
        let used = StoreChange::Used(ExpiryKind::Session, &log, Some(noted), Some(session.used));
        store.save(&[StoreChange::Session(id, session), used])?;
        return Ok(false);
    }
    if session.is_bound() {
        let end = session.last_command(id);
        store.deleted(state, id, &end)?;
        return Ok(false);
    }
    forget(store, state, id, ExpiryKind::Session, noted)
}

fn unseen<S: StorageBackend>(
    store: &EmbeddedStore<S>,
    state: &mut StoreState,
    id: &SessionId,
    noted: u64,
) -> Result<bool> {
    let log = LogId::Session(id.clone());
    if let Some(session) = state.session(&store.backend, id)?
        && session.is_held_up()
    {
        let now = unix_millis();
        match &mut session.standing {
            SessionStatus::Arriving(at) | SessionStatus::Deleted(at) => *at = now,
            SessionStatus::Open | SessionStatus::Closed => {}
        }
        let used = StoreChange::Used(ExpiryKind::Unseen, &log, Some(noted), Some(now));
        store.save(&[StoreChange::Session(id, session), used])?;
        return Ok(false);
    }
    forget(store, state, id, ExpiryKind::Unseen, noted)
}

fn forget<S: StorageBackend>(
    store: &EmbeddedStore<S>,
    state: &mut StoreState,
    id: &SessionId,
    kind: ExpiryKind,
    noted: u64,
) -> Result<bool> {
    let log = LogId::Session(id.clone());
    let lineage = store.backend.lineage(id)?;
    // Ancestors that are gone themselves, but for what this one has shared.
    let mut gone = vec![id];
    for segment in lineage.iter() {
        if state.session(&store.backend, &segment.session)?.is_none() {
            gone.push(&segment.session);
        }
    }
    let left = gone.iter().map(|ancestor| store.left_of(ancestor, id));
    let left = left.collect::<Result<Vec<_>>>()?;
    let mut changes = Vec::with_capacity(4);
    if let Some(session) = state.session(&store.backend, id)? {
        changes.push(StoreChange::Listed(session, session.place(id), None));
        for (gone, left) in gone.into_iter().zip(left) {
            changes.push(StoreChange::Stored(&session.principal, gone, left));
        }
    }
    changes.push(StoreChange::Used(kind, &log, Some(noted), None));
    changes.push(StoreChange::Forget(&log));
    store.save(&changes)?;
    state.remove(id);
    Ok(true)
}

fn outbox<S: StorageBackend>(
    store: &EmbeddedStore<S>,
    state: &mut StoreState,
    id: &ConnectionId,
    noted: u64,
) -> Result<bool> {
    let log = LogId::Outbox(id.clone());
    let outbox = state.outbox(&store.backend, id)?;
    if outbox.holder.is_some() {
        outbox.used = unix_millis();
        let used = StoreChange::Used(ExpiryKind::Outbox, &log, Some(noted), Some(outbox.used));
        store.save(&[StoreChange::Outbox(id, outbox), used])?;
        return Ok(false);
    }
    let unused = StoreChange::Used(ExpiryKind::Outbox, &log, Some(noted), None);
    store.save(&[unused, StoreChange::Forget(&log)])?;
    state.remove_outbox(id);
    Ok(true)
}
