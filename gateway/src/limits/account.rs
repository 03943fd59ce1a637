//! The usage of a principal in this process.

use std::num::NonZeroU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_protocol::limits::MAX_MESSAGE;
use baton_session::store::{self, Store};
use baton_session::sync::MutexExt as _;
use tokio::time::{Instant, sleep};

use super::quota::{QuotaKind, QuotaReservation, QuotaUsage};
use super::rate::{RateLimit, TokenBucket};
use super::stream_slots::{StreamPermit, StreamSlots};
use super::{CallerLimits, LimitKind, LimitRefusal};

/// Requests above their rate are answered, which costs something, too. So many times the rate, and
/// they are not even read.
const FLOOD: u64 = 10;
/// When to try again if the end of the wait is unknown.
const LATER: Duration = Duration::from_secs(1);

pub struct CallerAccount {
    principal: Arc<str>,
    meters: Mutex<RateMeters>,
    pub(super) streams: StreamSlots,
    holdings: QuotaUsage,
}

/// With the rate they were last used with: it may change while the process runs.
#[derive(Default)]
struct RateMeters {
    requests: Option<(RateLimit, TokenBucket)>,
    /// All arriving requests, at [`FLOOD`] times the rate of requests.
    arrivals: Option<(RateLimit, TokenBucket)>,
    bytes: Option<(RateLimit, TokenBucket)>,
}

impl CallerAccount {
    pub(super) fn new(principal: Arc<str>) -> Self {
        Self {
            principal,
            meters: Mutex::default(),
            streams: StreamSlots::default(),
            holdings: QuotaUsage::default(),
        }
    }

    pub(super) fn is_idle(&self, now: Instant) -> bool {
        let mut meters = self.meters.locked();
        let RateMeters {
            requests,
            arrivals,
            bytes,
        } = &mut *meters;
        let mut all = [requests, arrivals, bytes].into_iter().flatten();
        all.all(|(rate, bucket)| bucket.is_full(*rate, now))
            && self.streams.is_empty()
            && self.holdings.is_idle()
    }
}

fn meter(
    slot: &mut Option<(RateLimit, TokenBucket)>,
    rate: RateLimit,
    now: Instant,
) -> &mut TokenBucket {
    let (last, bucket) = slot.get_or_insert_with(|| (rate, TokenBucket::full(rate, now)));
    *last = rate;
    bucket
}

/// The stored bytes of a caller, and their limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct StorageBudget {
    used: u64,
    most: Option<NonZeroU64>,
}

impl StorageBudget {
    /// So much more comes.
    pub fn take(&self, bytes: u64) -> Result<(), LimitRefusal> {
        let used = self.used.saturating_add(bytes);
        match self.most.map(NonZeroU64::get) {
            Some(most) if used >= most => Err(LimitRefusal {
                limit: LimitKind::Storage { used, most },
                wait: None,
            }),
            _ => Ok(()),
        }
    }
}

/// A caller's limits, and what has been taken of them.
#[derive(Clone)]
pub struct CallerAllowance {
    pub(super) limits: CallerLimits,
    pub(super) account: Arc<CallerAccount>,
}

impl std::fmt::Debug for CallerAllowance {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.limits.fmt(to)
    }
}

impl CallerAllowance {
    fn meters<T>(&self, read: impl FnOnce(&mut RateMeters, Instant) -> T) -> T {
        let mut meters = self.account.meters.locked();
        read(&mut meters, Instant::now())
    }

    /// Something arrives. Refused are only those who are far above their rates.
    pub fn arrive(&self) -> Result<(), LimitRefusal> {
        let refusal = |limit, wait| LimitRefusal {
            limit,
            wait: Some(wait),
        };
        self.meters(|meters, now| {
            if let Some(rate) = self.limits.bytes {
                // A single message never is a flood.
                let credit = rate.times(FLOOD).count() + MAX_MESSAGE as u64;
                let owed = meter(&mut meters.bytes, rate, now).owes(rate, credit, now);
                owed.map_or(Ok(()), |wait| Err(refusal(LimitKind::Bytes, wait)))?;
            }
            if let Some(rate) = self.limits.requests {
                let rate = rate.times(FLOOD);
                let taken = meter(&mut meters.arrivals, rate, now).take(rate, now);
                taken.map_err(|wait| refusal(LimitKind::Requests, wait))?;
            }
            Ok(())
        })
    }

    /// The same, where it can be waited for: a caller that sends too fast is read slowly. Says why,
    /// if it was.
    pub async fn wait_for_rate(&self) -> Option<LimitKind> {
        let mut slowed = None;
        while let Err(refusal) = self.arrive() {
            slowed = Some(refusal.limit);
            sleep(refusal.wait.unwrap_or(LATER)).await;
        }
        slowed
    }

    /// So much was received; says so if there was too much before it.
    pub fn receive(&self, bytes: usize) -> Option<LimitRefusal> {
        let rate = self.limits.bytes?;
        let owed = self.meters(|meters, now| {
            meter(&mut meters.bytes, rate, now).charge(rate, bytes as u64, now)
        });
        owed.map(|wait| LimitRefusal {
            limit: LimitKind::Bytes,
            wait: Some(wait),
        })
    }

    /// The same for what is read bit by bit: waits until there is not too much before it.
    pub async fn receive_slowly(&self, bytes: usize) {
        if let Some(wait) = self.receive(bytes).and_then(|refusal| refusal.wait) {
            sleep(wait).await;
        }
    }

    /// A request is about to be carried out; says so if there were too many.
    pub fn request(&self) -> Option<LimitRefusal> {
        let rate = self.limits.requests?;
        let taken =
            self.meters(|meters, now| meter(&mut meters.requests, rate, now).take(rate, now));
        taken.err().map(|wait| LimitRefusal {
            limit: LimitKind::Requests,
            wait: Some(wait),
        })
    }

    /// A place for an open stream, if they are counted. One of the same name is replaced.
    pub fn stream(
        &self,
        name: impl FnOnce() -> Option<String>,
    ) -> Result<Option<StreamPermit>, LimitRefusal> {
        let Some(most) = self.limits.streams else {
            return Ok(None);
        };
        let permit = self.account.permit(name(), most);
        permit.map(Some).ok_or(LimitRefusal {
            limit: LimitKind::Streams,
            wait: Some(LATER),
        })
    }

    /// To be held until the store has the new session.
    pub async fn session(
        &self,
        store: &dyn Store,
    ) -> store::Result<Result<Option<QuotaReservation>, LimitRefusal>> {
        let refusal = LimitRefusal {
            limit: LimitKind::Sessions,
            wait: None,
        };
        self.admit(QuotaKind::Session, refusal, store).await
    }

    /// To be held until the store has the prompt.
    pub async fn turn(
        &self,
        store: &dyn Store,
    ) -> store::Result<Result<Option<QuotaReservation>, LimitRefusal>> {
        let refusal = LimitRefusal {
            limit: LimitKind::Turns,
            wait: Some(LATER),
        };
        self.admit(QuotaKind::Turn, refusal, store).await
    }

    /// Whether more may be stored. Later writes are not checked: a turn goes on to its end.
    pub async fn storage(
        &self,
        store: &dyn Store,
    ) -> store::Result<Result<StorageBudget, LimitRefusal>> {
        let Some(most) = self.limits.storage else {
            return Ok(Ok(StorageBudget::default()));
        };
        let principal = &self.account.principal;
        let ask = || store.usage(principal, self.counted());
        let used = self.account.holdings.stored(most, ask).await?;
        let budget = StorageBudget {
            used,
            most: Some(most),
        };
        Ok(budget.take(0).map(|()| budget))
    }

    /// More sessions than may be need not be counted.
    fn counted(&self) -> u64 {
        self.limits.sessions.map_or(0, |sessions| sessions.get())
    }

    async fn admit(
        &self,
        holding: QuotaKind,
        refusal: LimitRefusal,
        store: &dyn Store,
    ) -> store::Result<Result<Option<QuotaReservation>, LimitRefusal>> {
        let most = match holding {
            QuotaKind::Session => self.limits.sessions,
            QuotaKind::Turn => self.limits.turns,
        };
        let Some(most) = most else {
            return Ok(Ok(None));
        };
        let principal = &self.account.principal;
        let holdings = &self.account.holdings;
        let ask = || store.usage(principal, self.counted());
        let admitted = holdings.admit(holding, most, ask).await?;
        Ok(admitted.map(Some).ok_or(refusal))
    }
}
