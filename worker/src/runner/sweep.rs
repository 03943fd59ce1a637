//! Looks for sessions that hints have missed, and makes room for what waits.

use std::collections::HashSet;
use std::future;
use std::sync::{Arc, Mutex};

use baton_session::id::Partition;
use baton_session::store;
use baton_session::sync::MutexExt as _;
use futures_util::stream::{self, StreamExt as _};

use super::Runner;
use crate::agent::AgentRoom;
use crate::leases;

/// How many partitions are looked at side by side: all that a Cluster has.
const SWEPT_AT_ONCE: usize = 64;
/// Sessions that one look finds at most, beside those that are held here.
const DUE_AT_ONCE: usize = 64;
/// And with them.
const MOST_DUE: usize = 4096;

impl Runner {
    pub(super) fn spawn_sweep(self: Arc<Self>) {
        let tasks = self.tasks.clone();
        tasks.spawn(async move {
            // One partition that cannot be read must neither hide the others nor hold them up.
            let partitions = stream::iter((0..self.store.partitions()).map(Partition));
            let look = async |partition: Partition| {
                let _alone = SweepGuard::begin(&self.swept, partition)?;
                let error = self.clone().sweep(partition).await.err()?;
                Some((partition, error))
            };
            let failed = partitions.map(look).buffer_unordered(SWEPT_AT_ONCE);
            let failed: Vec<_> = failed.filter_map(future::ready).collect().await;
            // One line for all: when the store is away, it is so for every partition.
            if let Some((partition, error)) = failed.first() {
                tracing::warn!(
                    %error,
                    partition = partition.0,
                    partitions = failed.len(),
                    "could not look for waiting sessions"
                );
            }
        });
    }

    /// Ends when nothing that is due could be claimed.
    async fn sweep(self: Arc<Self>, partition: Partition) -> store::Result<()> {
        loop {
            if self.stop.is_cancelled() {
                return Ok(());
            }
            // Some of those that are due may be held here, their leases being late.
            let limit = (DUE_AT_ONCE + self.leases.len()).min(MOST_DUE);
            self.offer_room();
            let due = self.store.due(partition, &self.agent_name, limit);
            let (due, takes_over) = self.outages.watch_due(partition, due).await?;
            let room = self.room();
            if room != AgentRoom::Free {
                // Other workers may have room, so a hint evicts nothing. A session that is still
                // due has found none, and gets the place of one that is idle, unless another one's
                // is about to be free.
                let waits = due.iter().any(|id| self.leases.get(id).is_none());
                if room == AgentRoom::Full && waits {
                    self.evict_longest_idle();
                }
                return Ok(());
            }
            let mut claimed = false;
            for session in &due {
                let Some(slot) = self.try_take_slot() else {
                    return Ok(());
                };
                claimed |= self.clone().claim(session, slot, takes_over).await?;
            }
            if !claimed {
                return Ok(());
            }
        }
    }

    /// Slots that are free, or that sessions give up which only stay.
    fn offer_room(&self) {
        let room = match self.room() {
            AgentRoom::Free => self.config.slots - self.slots_taken(),
            _ => 0,
        };
        let store = &self.store;
        store.offer_room(&self.agent_name, &self.config.id, room as u64);
    }

    /// Evicts the session that has been idle for the longest time.
    fn evict_longest_idle(&self) {
        if let Some(slot) = leases::longest_idle(&self.leases.granted()) {
            slot.evict.notify_one();
        }
    }
}

/// A partition is looked at once at a time: one that does not answer must not be asked by more and
/// more.
struct SweepGuard<'a> {
    swept: &'a Mutex<HashSet<Partition>>,
    partition: Partition,
}

impl<'a> SweepGuard<'a> {
    fn begin(swept: &'a Mutex<HashSet<Partition>>, partition: Partition) -> Option<Self> {
        let new = swept.locked().insert(partition);
        new.then_some(Self { swept, partition })
    }
}

impl Drop for SweepGuard<'_> {
    fn drop(&mut self) {
        let mut swept = self.swept.locked();
        swept.remove(&self.partition);
    }
}
