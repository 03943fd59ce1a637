//! Bytes of messages that are being received, counted before they are read: what is announced when
//! it is announced, what is not as it comes. One caller has a share, so that it cannot keep the
//! others out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{LimitKind, LimitRefusal};
use baton_session::sync::MutexExt as _;

/// The smallest budget: a caller's share must hold the largest message, with room for others.
pub const LEAST_INFLIGHT: u64 = 32 << 20;
pub const DEFAULT_INFLIGHT: u64 = 256 << 20;
/// One caller may take this part of it.
const SHARES: u64 = 4;
/// The last eighth is kept for messages of ordinary size.
const KEPT: u64 = 8;
const ORDINARY: u64 = 64 << 10;
/// So many bodies that were refused are read to their end at once, so that their clients get the
/// answer.
const DISCARDS: usize = 4;
/// When to try again.
const LATER: Duration = Duration::from_secs(1);

pub struct InflightBudget {
    most: u64,
    share: u64,
    held: Mutex<InflightBytes>,
    /// Places for bodies that are read to be thrown away.
    discards: Arc<Semaphore>,
}

/// Why a message may not be received now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InflightRefusal {
    /// Its caller has taken its share.
    Share(LimitRefusal),
    /// All callers together have taken the budget.
    Budget,
}

#[derive(Default)]
struct InflightBytes {
    total: u64,
    /// Those that have something under way.
    callers: HashMap<Arc<str>, u64>,
}

impl InflightBudget {
    /// `single_caller`: all callers are one, as they are not asked who they are.
    pub fn new(most: u64, single_caller: bool) -> Arc<Self> {
        let share = if single_caller { most } else { most / SHARES };
        Arc::new(Self {
            most,
            share: share.max(LEAST_INFLIGHT).min(most),
            held: Mutex::default(),
            discards: Arc::new(Semaphore::new(DISCARDS)),
        })
    }

    /// For one message of this caller; it holds nothing yet.
    pub fn of(self: &Arc<Self>, caller: &Arc<str>) -> InflightReservation {
        InflightReservation {
            inflight: self.clone(),
            caller: caller.clone(),
            bytes: 0,
        }
    }

    fn take(&self, caller: &Arc<str>, before: u64, after: u64) -> Result<(), InflightRefusal> {
        let more = after - before;
        let fits = |held: u64, most: u64| {
            let kept = if after > ORDINARY { most / KEPT } else { 0 };
            held + more <= most - kept
        };
        let mut held = self.held.locked();
        let own = held.callers.get(caller).copied().unwrap_or(0);
        if !fits(own, self.share) {
            return Err(InflightRefusal::Share(LimitRefusal {
                limit: LimitKind::InflightBytes,
                wait: Some(LATER),
            }));
        }
        if !fits(held.total, self.most) {
            return Err(InflightRefusal::Budget);
        }
        held.total += more;
        *held.callers.entry(caller.clone()).or_default() += more;
        Ok(())
    }

    fn give_back(&self, caller: &Arc<str>, bytes: u64) {
        let mut held = self.held.locked();
        held.total -= bytes;
        if let Some(own) = held.callers.get_mut(caller) {
            *own -= bytes;
            if *own == 0 {
                held.callers.remove(caller);
            }
        }
    }
}

/// A message's share of the budget, until it is dropped.
pub struct InflightReservation {
    inflight: Arc<InflightBudget>,
    caller: Arc<str>,
    bytes: u64,
}

impl InflightReservation {
    /// This much is needed now. The held share stays held if there is no more.
    pub fn resize(&mut self, bytes: usize) -> Result<(), InflightRefusal> {
        let bytes = bytes as u64;
        if bytes > self.bytes {
            self.inflight.take(&self.caller, self.bytes, bytes)?;
            self.bytes = bytes;
        }
        self.shrink(bytes as usize);
        Ok(())
    }

    /// For a body that was refused, if few are being thrown away.
    pub fn discard_permit(&self) -> Option<OwnedSemaphorePermit> {
        self.inflight.discards.clone().try_acquire_owned().ok()
    }

    /// No more than this is needed any more.
    pub fn shrink(&mut self, bytes: usize) {
        let unused = self.bytes.saturating_sub(bytes as u64);
        if unused > 0 {
            self.inflight.give_back(&self.caller, unused);
            self.bytes -= unused;
        }
    }
}

impl Drop for InflightReservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.inflight.give_back(&self.caller, self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn name(text: &str) -> Arc<str> {
        text.into()
    }

    #[test]
    fn a_caller_has_a_share_and_all_have_the_budget() {
        let inflight = InflightBudget::new(128 << 20, false);
        let mut own: Vec<_> = (0..2).map(|_| inflight.of(&name("a"))).collect();
        own[0].resize(16 * MIB).unwrap();
        let refused = own[1].resize(16 * MIB).unwrap_err();
        assert!(
            matches!(refused, InflightRefusal::Share(it) if it.limit == LimitKind::InflightBytes)
        );
        // Ordinary messages have what is kept for them.
        own[1].resize(12 * MIB).unwrap();
        let mut small: Vec<_> = (0..64).map(|_| inflight.of(&name("a"))).collect();
        assert!(small.iter_mut().all(|it| it.resize(64 << 10).is_ok()));
        assert!(inflight.of(&name("a")).resize(64 << 10).is_err());
        // Others do not notice, until all of it is taken.
        let others: Vec<_> = ["b", "c", "d"].map(name).into();
        let mut held: Vec<_> = others.iter().map(|name| inflight.of(name)).collect();
        assert!(held.iter_mut().all(|it| it.resize(26 * MIB).is_ok()));
        let refused = inflight.of(&name("e")).resize(3 * MIB).unwrap_err();
        assert!(matches!(refused, InflightRefusal::Budget));
        assert!(inflight.of(&name("e")).resize(64 << 10).is_ok());
        drop((own, small, held));
        let held = inflight.held.lock().unwrap();
        assert!(held.total == 0 && held.callers.is_empty());
    }

    #[test]
    fn what_shrinks_is_given_back_and_what_cannot_grow_stays() {
        let inflight = InflightBudget::new(LEAST_INFLIGHT, true);
        let (mut one, mut other) = (inflight.of(&name("a")), inflight.of(&name("a")));
        one.resize(20 * MIB).unwrap();
        other.resize(4 * MIB).unwrap();
        assert!(other.resize(16 * MIB).is_err());
        one.resize(MIB).unwrap();
        other.resize(16 * MIB).unwrap();
    }
}
