//! Housekeeping: what nobody uses is forgotten.

use super::Embedded;
use super::session::Standing;
use super::shelf::{Change, Kind, Shelf};
use super::state::State;
use crate::clock::unix_millis;
use crate::id::{ConnectionId, LogId, SessionId};
use crate::store::{DELETED_FOR, OUTBOX_TTL, Result, Tidied, Tidying};

/// Entries that one round of housekeeping handles.
const EXPIRE_AT_ONCE: usize = 256;

/// Forgets sessions that nobody has used for long, those that were deleted, the outboxes of dead connections,
/// and agents that nobody runs.
pub fn tidy<S: Shelf>(store: &Embedded<S>, when: &Tidying) -> Result<Tidied> {
    let (mut tidied, ttl) = (Tidied::default(), when.unused);
    store.state()?.agents.retire(ttl);
    for (kind, ttl) in [
        (Kind::Session, ttl),
        (Kind::Unseen, DELETED_FOR.min(ttl)),
        (Kind::Outbox, OUTBOX_TTL),
    ] {
        let limit = unix_millis().saturating_sub(ttl.as_millis() as u64);
        let unused = store.shelf.unused_since(kind, limit, EXPIRE_AT_ONCE)?;
        for (noted, log) in unused {
            // One at a time, so that nobody waits long.
            let mut state = store.state()?;
            let gone = match &log {
                LogId::Session(id) if kind == Kind::Unseen => unseen(store, &mut state, id, noted)?,
                LogId::Session(id) => session(store, &mut state, id, noted)?,
                LogId::Outbox(id) => outbox(store, &mut state, id, noted)?,
            };
            tidied.expired += usize::from(gone && kind != Kind::Outbox);
        }
    }
    Ok(tidied)
}

/// True if it is gone.
fn session<S: Shelf>(
    store: &Embedded<S>,
    state: &mut State,
    id: &SessionId,
    noted: u64,
) -> Result<bool> {
    let log = LogId::Session(id.clone());
    let Some(session) = state.session(&store.shelf, id)? else {
        return forget(store, state, id, Kind::Session, noted);
    };
    if session.is_busy() {
        session.used = unix_millis();
        let used = Change::Used(Kind::Session, &log, Some(noted), Some(session.used));
        store.save(&[Change::Session(id, session), used])?;
        return Ok(false);
    }
    if session.is_bound() {
        let end = session.last_command(id);
        store.deleted(state, id, &end)?;
        return Ok(false);
    }
    forget(store, state, id, Kind::Session, noted)
}

fn unseen<S: Shelf>(
    store: &Embedded<S>,
    state: &mut State,
    id: &SessionId,
    noted: u64,
) -> Result<bool> {
    let log = LogId::Session(id.clone());
    if let Some(session) = state.session(&store.shelf, id)?
        && session.is_held_up()
    {
        let now = unix_millis();
        match &mut session.standing {
            Standing::Arriving(at) | Standing::Deleted(at) => *at = now,
            Standing::Open | Standing::Closed => {}
        }
        let used = Change::Used(Kind::Unseen, &log, Some(noted), Some(now));
        store.save(&[Change::Session(id, session), used])?;
        return Ok(false);
    }
    forget(store, state, id, Kind::Unseen, noted)
}

fn forget<S: Shelf>(
    store: &Embedded<S>,
    state: &mut State,
    id: &SessionId,
    kind: Kind,
    noted: u64,
) -> Result<bool> {
    let log = LogId::Session(id.clone());
    let lineage = store.shelf.lineage(id)?;
    // Ancestors that are gone themselves, but for what this one has shared.
    let mut gone = vec![id];
    for segment in lineage.iter() {
        if state.session(&store.shelf, &segment.session)?.is_none() {
            gone.push(&segment.session);
        }
    }
    let left = gone.iter().map(|ancestor| store.left_of(ancestor, id));
    let left = left.collect::<Result<Vec<_>>>()?;
    let mut changes = Vec::with_capacity(4);
    if let Some(session) = state.session(&store.shelf, id)? {
        changes.push(Change::Listed(session, session.place(id), None));
        for (gone, left) in gone.into_iter().zip(left) {
            changes.push(Change::Stored(&session.principal, gone, left));
        }
    }
    changes.push(Change::Used(kind, &log, Some(noted), None));
    changes.push(Change::Forget(&log));
    store.save(&changes)?;
    state.remove(id);
    Ok(true)
}

fn outbox<S: Shelf>(
    store: &Embedded<S>,
    state: &mut State,
    id: &ConnectionId,
    noted: u64,
) -> Result<bool> {
    let log = LogId::Outbox(id.clone());
    let outbox = state.outbox(&store.shelf, id)?;
    if outbox.holder.is_some() {
        outbox.used = unix_millis();
        let used = Change::Used(Kind::Outbox, &log, Some(noted), Some(outbox.used));
        store.save(&[Change::Outbox(id, outbox), used])?;
        return Ok(false);
    }
    let unused = Change::Used(Kind::Outbox, &log, Some(noted), None);
    store.save(&[unused, Change::Forget(&log)])?;
    state.remove_outbox(id);
    Ok(true)
}
