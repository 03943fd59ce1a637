//! A principal's sessions and turns, and the bytes that are kept of it. The store counts them for
//! all gateways. It is asked once a second at most, and in between what was let in here is added:
//! so what other gateways let in meanwhile comes on top. Nobody is refused without a look at the
//! store, since turns end all the time.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use baton_session::store::{self, PrincipalUsage};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

/// How long an answer is good.
const GOOD_FOR: Duration = Duration::from_secs(1);
/// At a limit, the store is asked again no sooner than this.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaKind {
    Session,
    Turn,
}

#[derive(Default)]
pub(super) struct QuotaUsage {
    known: Mutex<UsageSnapshot>,
    /// Let in, and perhaps not in the store yet.
    sessions: Arc<AtomicU64>,
    turns: Arc<AtomicU64>,
}

#[derive(Default)]
struct UsageSnapshot {
    asked: Option<Instant>,
    /// When the store was asked and did not answer, and why.
    failed: Option<(Instant, String)>,
    /// As the store said, and what was let in since.
    usage: PrincipalUsage,
}

/// Counts until the store does.
pub struct QuotaReservation(Arc<AtomicU64>);

impl QuotaUsage {
    /// `None` if there are as many as there may be. `ask` asks the store.
    pub async fn admit<A: Future<Output = store::Result<PrincipalUsage>>>(
        &self,
        holding: QuotaKind,
        most: NonZeroU64,
        ask: impl Fn() -> A,
    ) -> store::Result<Option<QuotaReservation>> {
        let arrived = Instant::now();
        let mut known = self.known.lock().await;
        loop {
            let is_fresh = known.asked.is_some_and(|asked| asked >= arrived);
            let is_good = known.asked.is_some_and(|asked| asked.elapsed() < GOOD_FOR);
            let held = match holding {
                QuotaKind::Session => &mut known.usage.sessions,
                QuotaKind::Turn => &mut known.usage.turns,
            };
            if (is_good || is_fresh) && *held < most.get() {
                *held += 1;
                return Ok(Some(self.count(holding)));
            }
            if is_fresh {
                return Ok(None);
            }
            self.refresh(&mut known, arrived, &ask).await?;
        }
    }

    /// The bytes that are kept: as the store said lately, if that is below `most`, else as it says
    /// now.
    pub async fn stored<A: Future<Output = store::Result<PrincipalUsage>>>(
        &self,
        most: NonZeroU64,
        ask: impl Fn() -> A,
    ) -> store::Result<u64> {
        let arrived = Instant::now();
        let mut known = self.known.lock().await;
        loop {
            let is_fresh = known.asked.is_some_and(|asked| asked >= arrived);
            let is_good = known.asked.is_some_and(|asked| asked.elapsed() < GOOD_FOR);
            if is_fresh || is_good && known.usage.stored < most.get() {
                return Ok(known.usage.stored);
            }
            self.refresh(&mut known, arrived, &ask).await?;
        }
    }

    /// Asks the store, not too often.
    async fn refresh<A: Future<Output = store::Result<PrincipalUsage>>>(
        &self,
        known: &mut UsageSnapshot,
        arrived: Instant,
        ask: &impl Fn() -> A,
    ) -> store::Result<()> {
        // A caller that waited here meanwhile does not wait as long once more.
        if let Some((_, why)) = known.failed.as_ref().filter(|(at, _)| *at >= arrived) {
            return Err(store::Error::Unavailable(why.clone()));
        }
        if let Some(asked) = known.asked {
            sleep_until(asked + PAUSE).await;
        }
        let now = Instant::now();
        let (sessions, turns) = (load(&self.sessions), load(&self.turns));
        let usage = match ask().await {
            Ok(usage) => usage,
            Err(error) => {
                known.failed = Some((Instant::now(), error.to_string()));
                return Err(error);
            }
        };
        *known = UsageSnapshot {
            asked: Some(now),
            failed: None,
            usage: PrincipalUsage {
                sessions: usage.sessions + sessions,
                turns: usage.turns + turns,
                stored: usage.stored,
            },
        };
        Ok(())
    }

    fn count(&self, holding: QuotaKind) -> QuotaReservation {
        let counter = match holding {
            QuotaKind::Session => &self.sessions,
            QuotaKind::Turn => &self.turns,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        QuotaReservation(counter.clone())
    }

    /// Nothing is known that would be missed.
    pub fn is_idle(&self) -> bool {
        let known = self.known.try_lock();
        known.is_ok_and(|known| known.asked.is_none_or(|asked| asked.elapsed() >= GOOD_FOR))
    }
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Drop for QuotaReservation {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Later callers came after the last answer.
    const MOMENT: Duration = Duration::from_millis(1);

    /// A store that says what it is told to say, and counts how often.
    #[derive(Default)]
    struct UsageScript {
        turns: AtomicU64,
        asked: AtomicU64,
    }

    impl UsageScript {
        async fn admit(&self, holdings: &QuotaUsage, most: u64) -> Option<QuotaReservation> {
            let most = NonZeroU64::new(most).unwrap();
            let ask = || async {
                self.asked.fetch_add(1, Ordering::Relaxed);
                Ok(PrincipalUsage {
                    turns: load(&self.turns),
                    ..PrincipalUsage::default()
                })
            };
            let admitted = holdings.admit(QuotaKind::Turn, most, ask).await;
            admitted.unwrap()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_store_is_asked_once_a_second_and_what_was_let_in_is_added() {
        let (holdings, store) = (QuotaUsage::default(), UsageScript::default());
        for _ in 0..5 {
            assert!(store.admit(&holdings, 10).await.is_some());
        }
        assert_eq!(load(&store.asked), 1);
        assert!(!holdings.is_idle());
        tokio::time::advance(GOOD_FOR).await;
        assert!(holdings.is_idle());
        assert!(store.admit(&holdings, 10).await.is_some());
        assert_eq!(load(&store.asked), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_refused_by_what_was_known_before() {
        let (holdings, store) = (QuotaUsage::default(), UsageScript::default());
        assert!(store.admit(&holdings, 1).await.is_some());
        // That one has ended already, for all that the store knows.
        tokio::time::advance(MOMENT).await;
        assert!(store.admit(&holdings, 1).await.is_some());
        assert_eq!(load(&store.asked), 2);
        store.turns.store(1, Ordering::Relaxed);
        tokio::time::advance(MOMENT).await;
        assert!(store.admit(&holdings, 1).await.is_none());
        assert_eq!(load(&store.asked), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn many_that_come_at_once_share_an_answer_and_stay_within_the_limit() {
        let (holdings, store) = (QuotaUsage::default(), UsageScript::default());
        let all = (0..50).map(|_| store.admit(&holdings, 7));
        let admitted = futures_util::future::join_all(all).await;
        assert_eq!(admitted.iter().flatten().count(), 7);
        assert_eq!(load(&store.asked), 1);
        // As long as they are on their way they count, though the store does not know them.
        tokio::time::advance(MOMENT).await;
        assert!(store.admit(&holdings, 7).await.is_none());
        assert_eq!(load(&store.asked), 2);
        drop(admitted);
        tokio::time::advance(MOMENT).await;
        assert!(store.admit(&holdings, 7).await.is_some());
    }
}
