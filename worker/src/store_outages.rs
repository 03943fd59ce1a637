//! When a partition of the store was unavailable. Leases cannot be renewed then, so for a while
//! after it expired leases prove nothing about their holders, which come back and renew.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_session::id::{Partition, SessionId};
use baton_session::store::{self, DueSessions, StoreTime};
use tokio::time::Instant;

/// A slower reply counts as an outage.
const SLOW: Duration = Duration::from_secs(1);

/// Workers find a new primary within this time of each other: they ask the sentinels every two
/// seconds. The first to find it must not take sessions from the last, however short the lease is.
const SHORTEST_HOLD_OFF: Duration = Duration::from_millis(2500);
/// Long enough for all workers to reconnect.
const LONGEST_HOLD_OFF: Duration = Duration::from_secs(5);

pub(crate) struct StoreOutages {
    seen: Mutex<OutageState>,
    hold_off: Duration,
}

struct OutageState {
    everywhere: Instant,
    /// Since when each is available again; `None` while it is unavailable. The time of the last
    /// failed reply says little about that, since requests are rare.
    partitions: HashMap<Partition, Option<Instant>>,
}

impl StoreOutages {
    /// A new process does not know of earlier outages, so it holds off as well.
    pub fn new(lease: Duration) -> Self {
        Self {
            seen: Mutex::new(OutageState {
                everywhere: Instant::now(),
                partitions: HashMap::new(),
            }),
            hold_off: (lease / 2).clamp(SHORTEST_HOLD_OFF, LONGEST_HOLD_OFF),
        }
    }

    fn seen(&self) -> MutexGuard<'_, OutageState> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn note_everywhere(&self) {
        self.seen().everywhere = Instant::now();
    }

    fn note(&self, partition: Partition) {
        let back = Some(Instant::now());
        self.seen().partitions.insert(partition, back);
    }

    /// Whether the last outage is too recent to take sessions over.
    fn is_recent(&self, partition: Partition) -> bool {
        let seen = self.seen();
        match seen.partitions.get(&partition) {
            Some(None) => true,
            Some(Some(back)) => seen.everywhere.max(*back).elapsed() < self.hold_off,
            None => seen.everywhere.elapsed() < self.hold_off,
        }
    }

    /// As [`Self::watch`], for a look at what is due. Returns the sessions, and the time of the
    /// look if those whose lease ran out may be taken over.
    ///
    /// A connection that is new may be the first sign of an outage: answers can be faster than the
    /// signal that others were lost.
    pub async fn watch_due(
        &self,
        partition: Partition,
        look: impl Future<Output = store::Result<DueSessions>>,
    ) -> store::Result<(Vec<SessionId>, Option<StoreTime>)> {
        let due = self.watch(partition, look).await?;
        if due.reconnected {
            self.note(partition);
        }
        let takes_over = (!self.is_recent(partition)).then_some(due.at);
        Ok((due.sessions, takes_over))
    }

    /// Runs a step and records whether the store was unavailable or slow.
    pub async fn watch<T>(
        &self,
        partition: Partition,
        step: impl Future<Output = store::Result<T>>,
    ) -> store::Result<T> {
        let began = Instant::now();
        let outcome = step.await;
        let mut seen = self.seen();
        let was_away = seen.partitions.get(&partition) == Some(&None);
        if matches!(outcome, Err(store::Error::Unavailable(_))) {
            seen.partitions.insert(partition, None);
        } else if was_away || began.elapsed() > SLOW {
            seen.partitions.insert(partition, Some(Instant::now()));
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_remembered_for_half_a_lease() {
        let outages = StoreOutages::new(Duration::from_secs(10));
        let (here, there) = (Partition(1), Partition(2));
        assert!(outages.is_recent(here));
        advance(Duration::from_secs(5)).await;
        assert!(!outages.is_recent(here));
        let away = async { Err::<(), _>(store::Error::Unavailable("away".into())) };
        assert!(outages.watch(here, away).await.is_err());
        // A node that is away says nothing about the others.
        assert!(outages.is_recent(here) && !outages.is_recent(there));
        // The time of the last request does not matter: the partition is available only now.
        advance(Duration::from_secs(60)).await;
        outages.watch(here, async { Ok(()) }).await.unwrap();
        assert!(outages.is_recent(here));
        advance(Duration::from_secs(4)).await;
        outages.watch(here, async { Ok(()) }).await.unwrap();
        assert!(outages.is_recent(here));
        advance(Duration::from_secs(1)).await;
        assert!(!outages.is_recent(here));
        let slow = async {
            sleep(Duration::from_secs(2)).await;
            Ok(())
        };
        outages.watch(here, slow).await.unwrap();
        assert!(outages.is_recent(here));
        outages.note_everywhere();
        assert!(outages.is_recent(there));
    }
    #[tokio::test(start_paused = true)]
    async fn a_store_that_answers_over_a_new_connection_may_have_been_away() {
        let outages = StoreOutages::new(Duration::from_secs(2));
        let (here, there) = (Partition(1), Partition(2));
        let look = async |partition: Partition, reconnected: bool| {
            let found = async {
                Ok(DueSessions {
                    at: 7,
                    reconnected,
                    ..Default::default()
                })
            };
            let looked = outages.watch_due(partition, found).await;
            looked.expect("the store answers").1
        };
        advance(SHORTEST_HOLD_OFF).await;
        assert_eq!(look(here, false).await, Some(7));
        // No answer was missed, and none was late.
        assert_eq!(look(here, true).await, None);
        assert_eq!(look(there, false).await, Some(7));
        advance(SHORTEST_HOLD_OFF / 2).await;
        assert_eq!(look(here, false).await, None);
        advance(SHORTEST_HOLD_OFF / 2).await;
        assert_eq!(look(here, false).await, Some(7));
    }
}
