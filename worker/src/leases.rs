//! The sessions that a worker holds, and the renewal of their leases.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_session::id::{Partition, SessionId};
use baton_session::store::{self, Claim, ClaimToken, Claimant, Store, WorkerStore};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::inbox_hints::InboxHints;
use crate::session_task::SessionSlot;

/// Between two tries to renew.
const RETRY: Duration = Duration::from_millis(200);

/// Every session that is held, or about to be claimed: there is never a second one of the same.
#[derive(Default)]
pub(crate) struct HeldLeases {
    held: Mutex<HashMap<SessionId, Arc<HeldSession>>>,
    /// Renew now, not only when it is time.
    pub renew_now: Notify,
}

pub(crate) struct HeldSession {
    pub token: ClaimToken,
    pub inbox: Arc<InboxHints>,
    pub lost: CancellationToken,
    pub slot: Arc<SessionSlot>,
    /// The store has granted the claim.
    granted: AtomicBool,
    /// The session was signalled as ready.
    wake_requested: AtomicBool,
}

impl HeldSession {
    pub fn is_bound(&self) -> bool {
        self.slot.has_unmovable_turn.load(Ordering::Relaxed)
    }

    pub fn grant(&self) {
        self.granted.store(true, Ordering::Relaxed);
    }

    fn is_granted(&self) -> bool {
        self.granted.load(Ordering::Relaxed)
    }
}

impl HeldLeases {
    fn held(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<HeldSession>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves a session that is about to be claimed, so that no signal about it is missed from
    /// then on; `None` if it is held here already. Then its holder reads its inbox, and it is
    /// claimed once more when it is released.
    pub fn reserve(self: &Arc<Self>, session: &SessionId) -> Option<LeaseReservation> {
        let mut all = self.held();
        if let Some(held) = all.get(session) {
            held.wake_requested.store(true, Ordering::Relaxed);
            held.inbox.doubt();
            return None;
        }
        let held = Arc::new(HeldSession {
            token: ClaimToken::random(),
            inbox: Arc::default(),
            lost: CancellationToken::new(),
            slot: Arc::default(),
            granted: AtomicBool::new(false),
            wake_requested: AtomicBool::new(false),
        });
        all.insert(session.clone(), held.clone());
        Some(LeaseReservation {
            leases: self.clone(),
            session: session.clone(),
            held,
        })
    }

    pub fn get(&self, session: &SessionId) -> Option<Arc<HeldSession>> {
        self.held().get(session).cloned()
    }

    /// Those that the store has granted.
    pub fn granted(&self) -> Vec<(SessionId, Arc<HeldSession>)> {
        let all = self.held();
        let granted = all.iter().filter(|(_, held)| held.is_granted());
        granted
            .map(|(id, held)| (id.clone(), held.clone()))
            .collect()
    }

    /// Signals were missed: every inbox has to be read.
    pub fn doubt_inboxes(&self) {
        for held in self.held().values() {
            held.inbox.doubt();
            held.inbox.note_new_setup();
        }
    }

    pub fn len(&self) -> usize {
        self.held().len()
    }

    pub fn is_empty(&self) -> bool {
        self.held().is_empty()
    }

    /// The partitions that there are leases in.
    pub fn partitions(&self) -> HashSet<Partition> {
        let granted = self.granted().into_iter();
        granted.map(|(session, _)| session.partition()).collect()
    }

    /// Renews all leases of a partition in one go; sessions that are lost stop at once. A store
    /// that is away is asked again until it answers: each partition by itself, since others may be
    /// kept by servers that do.
    pub async fn renew(&self, store: &dyn Store, partition: Partition, lease: Duration) {
        let mut told = false;
        loop {
            let mut granted = self.granted();
            granted.retain(|(session, held)| {
                session.partition() == partition && !held.lost.is_cancelled()
            });
            let claims: Vec<_> = granted
                .iter()
                .map(|(id, held)| (id.clone(), held.token.clone()))
                .collect();
            if claims.is_empty() {
                return;
            }
            let renewed = store.renew(&claims, lease).await;
            // A lost hint costs no more than this long.
            granted.iter().for_each(|(_, held)| held.inbox.doubt());
            match renewed {
                Ok(lost) if lost.is_empty() => return,
                // With others lost, some of these may not have been heard of.
                Ok(lost) => {
                    let is_lost = |(session, _): &&(SessionId, _)| lost.contains(session);
                    granted
                        .iter()
                        .filter(is_lost)
                        .for_each(|(_, held)| held.lost.cancel());
                    sleep(RETRY).await;
                }
                Err(error) => {
                    if !told {
                        let (partition, sessions) = (partition.0, claims.len());
                        tracing::warn!(
                            %error,
                            partition,
                            sessions,
                            "could not renew leases; trying again"
                        );
                        told = true;
                    }
                    sleep(RETRY).await;
                }
            }
        }
    }
}

/// Reserves a session among those held. Released when dropped, also if an agent panics: a lease
/// that nobody works under must not be renewed.
pub(crate) struct LeaseReservation {
    leases: Arc<HeldLeases>,
    session: SessionId,
    pub held: Arc<HeldSession>,
}

impl LeaseReservation {
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// True if the session was signalled as ready meanwhile: it may have been released before its
    /// reservation ended.
    pub fn release(self) -> bool {
        let held = self.held.clone();
        drop(self);
        held.wake_requested.load(Ordering::Relaxed)
    }
}

impl Drop for LeaseReservation {
    fn drop(&mut self) {
        self.leases.held().remove(&self.session);
    }
}

/// Claims a session. A lease that has nearly run out when its claim is known is renewed at once:
/// replicas may have taken long to confirm it.
pub(crate) async fn claim(
    store: &dyn WorkerStore,
    session: &SessionId,
    claimant: &Claimant,
) -> store::Result<Option<Claim>> {
    let began = Instant::now();
    let claimed = store.claim(session, claimant).await?;
    if claimed.is_none() || began.elapsed() <= claimant.lease / 3 {
        return Ok(claimed);
    }
    let ours = [(session.clone(), claimant.token.clone())];
    let lost = store.renew(&ours, claimant.lease).await?;
    Ok(claimed.filter(|_| lost.is_empty()))
}

/// The slot of the session that has been idle for the longest time, one that no agent waits in if
/// there is one.
pub(crate) fn longest_idle(held: &[(SessionId, Arc<HeldSession>)]) -> Option<&Arc<SessionSlot>> {
    let resting = held.iter().filter_map(|(_, held)| {
        let idle = held.slot.idle()?;
        Some(((idle.has_agent, idle.since), &held.slot))
    });
    resting.min_by_key(|(rank, _)| *rank).map(|(_, slot)| slot)
}

#[cfg(test)]
mod slow_claims;

#[cfg(test)]
mod tests {
    use baton_session::id::Partition;

    use super::*;

    #[test]
    fn a_session_is_reserved_once_and_whoever_comes_meanwhile_is_not_forgotten() {
        let leases = Arc::new(HeldLeases::default());
        let session = SessionId::mint(Partition(0));
        let first = leases.reserve(&session).expect("nobody has it");
        assert!(leases.reserve(&session).is_none());
        // The hint that found it reserved counts when the place is free.
        assert!(first.release());
        let second = leases.reserve(&session).expect("it is free again");
        assert!(!second.release());
        assert!(leases.is_empty());
    }

    #[test]
    fn only_what_the_store_has_granted_is_renewed() {
        let leases = Arc::new(HeldLeases::default());
        let reserved = leases.reserve(&SessionId::mint(Partition(0)));
        let reserved = reserved.expect("nobody has it");
        assert_eq!((leases.len(), leases.granted().len()), (1, 0));
        reserved.held.grant();
        assert_eq!(leases.granted().len(), 1);
        // Also if an agent panics.
        drop(reserved);
        assert!(leases.granted().is_empty());
    }
}
