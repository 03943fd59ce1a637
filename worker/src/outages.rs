//! When the store was away. Nobody can renew a lease then, so for a while after it leases that ran out say nothing
//! about their holders: those come back and renew.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use baton_session::store;
use tokio::time::Instant;

/// A reply that takes longer is as good as none.
const SLOW: Duration = Duration::from_secs(1);

/// Long enough for everybody to find the way back.
const LONGEST_HOLD_OFF: Duration = Duration::from_secs(5);

pub(crate) struct Outages {
    /// When the store was last seen away.
    last: Mutex<Instant>,
    hold_off: Duration,
}

impl Outages {
    /// Who has just come does not know, and holds off as well.
    pub fn new(lease: Duration) -> Self {
        Self {
            last: Mutex::new(Instant::now()),
            hold_off: (lease / 2).min(LONGEST_HOLD_OFF),
        }
    }

    pub fn note(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Too recent to take anything over.
    pub fn is_recent(&self) -> bool {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.elapsed() < self.hold_off
    }

    /// Notes if the step fails or takes long.
    pub async fn watch<T>(&self, step: impl Future<Output = store::Result<T>>) -> store::Result<T> {
        let began = Instant::now();
        let outcome = step.await;
        if outcome.is_err() || began.elapsed() > SLOW {
            self.note();
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
        let outages = Outages::new(Duration::from_secs(10));
        assert!(outages.is_recent());
        advance(Duration::from_secs(5)).await;
        assert!(!outages.is_recent());
        let away = async { Err::<(), _>(store::Error::Unavailable("away".into())) };
        assert!(outages.watch(away).await.is_err());
        assert!(outages.is_recent());
        advance(Duration::from_secs(5)).await;
        outages.watch(async { Ok(()) }).await.unwrap();
        assert!(!outages.is_recent());
        let slow = async {
            sleep(Duration::from_secs(2)).await;
            Ok(())
        };
        outages.watch(slow).await.unwrap();
        assert!(outages.is_recent());
    }
}
