//! The usage of a principal in this process.

use std::num::NonZeroU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_protocol::limits::MAX_MESSAGE;
use baton_session::store::{self, Store};
use baton_session::sync::MutexExt as _;
use tokio::time::{Instant, sleep};

use super::holdings::{Admitted, Holding, Holdings};
use super::rate::{Bucket, Rate};
use super::streams::{Permit, Streams};
use super::{Limit, Limits, Refusal};

/// Requests above their rate are answered, which costs something, too. So many times the rate, and they
/// are not even read.
const FLOOD: u64 = 10;
/// When to try again what ends nobody knows when.
const LATER: Duration = Duration::from_secs(1);

pub struct Account {
    principal: Arc<str>,
    meters: Mutex<Meters>,
    pub(super) streams: Streams,
    holdings: Holdings,
}

/// With the rate they were last used with: it may change while the process runs.
#[derive(Default)]
struct Meters {
    requests: Option<(Rate, Bucket)>,
    /// All arriving requests, at [`FLOOD`] times the rate of requests.
    arrivals: Option<(Rate, Bucket)>,
    bytes: Option<(Rate, Bucket)>,
}

impl Account {
    pub(super) fn new(principal: Arc<str>) -> Self {
        Self {
            principal,
            meters: Mutex::default(),
            streams: Streams::default(),
            holdings: Holdings::default(),
        }
    }

    pub(super) fn is_idle(&self, now: Instant) -> bool {
        let mut meters = self.meters.locked();
        let Meters {
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

fn meter(slot: &mut Option<(Rate, Bucket)>, rate: Rate, now: Instant) -> &mut Bucket {
    let (last, bucket) = slot.get_or_insert_with(|| (rate, Bucket::full(rate, now)));
    *last = rate;
    bucket
}

/// The stored bytes of a caller, and their limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Budget {
    used: u64,
    most: Option<NonZeroU64>,
}

impl Budget {
    /// So much more comes.
    pub fn take(&self, bytes: u64) -> Result<(), Refusal> {
        let used = self.used.saturating_add(bytes);
        match self.most.map(NonZeroU64::get) {
            Some(most) if used >= most => Err(Refusal {
                limit: Limit::Storage { used, most },
                wait: None,
            }),
            _ => Ok(()),
        }
    }
}

/// A caller's limits, and what has been taken of them.
#[derive(Clone)]
pub struct Allowance {
    pub(super) limits: Limits,
    pub(super) account: Arc<Account>,
}

impl std::fmt::Debug for Allowance {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.limits.fmt(to)
    }
}

impl Allowance {
    fn meters<T>(&self, read: impl FnOnce(&mut Meters, Instant) -> T) -> T {
        let mut meters = self.account.meters.locked();
        read(&mut meters, Instant::now())
    }

    /// Something arrives. Refused are only those who are far above their rates.
    pub fn arrive(&self) -> Result<(), Refusal> {
        let refusal = |limit, wait| Refusal {
            limit,
            wait: Some(wait),
        };
        self.meters(|meters, now| {
            if let Some(rate) = self.limits.bytes {
                // A single message never is a flood.
                let credit = rate.times(FLOOD).count() + MAX_MESSAGE as u64;
                let owed = meter(&mut meters.bytes, rate, now).owes(rate, credit, now);
                owed.map_or(Ok(()), |wait| Err(refusal(Limit::Bytes, wait)))?;
            }
            if let Some(rate) = self.limits.requests {
                let rate = rate.times(FLOOD);
                let taken = meter(&mut meters.arrivals, rate, now).take(rate, now);
                taken.map_err(|wait| refusal(Limit::Requests, wait))?;
            }
            Ok(())
        })
    }

    /// The same, where it can be waited for: who sends too fast is read slowly. Says why, if it was.
    pub async fn pace(&self) -> Option<Limit> {
        let mut slowed = None;
        while let Err(refusal) = self.arrive() {
            slowed = Some(refusal.limit);
            sleep(refusal.wait.unwrap_or(LATER)).await;
        }
        slowed
    }

    /// So much was received; says so if there was too much before it.
    pub fn receive(&self, bytes: usize) -> Option<Refusal> {
        let rate = self.limits.bytes?;
        let owed = self.meters(|meters, now| {
            meter(&mut meters.bytes, rate, now).charge(rate, bytes as u64, now)
        });
        owed.map(|wait| Refusal {
            limit: Limit::Bytes,
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
    pub fn request(&self) -> Option<Refusal> {
        let rate = self.limits.requests?;
        let taken =
            self.meters(|meters, now| meter(&mut meters.requests, rate, now).take(rate, now));
        taken.err().map(|wait| Refusal {
            limit: Limit::Requests,
            wait: Some(wait),
        })
    }

    /// A place for an open stream, if they are counted. One of the same name is replaced.
    pub fn stream(&self, name: impl FnOnce() -> Option<String>) -> Result<Option<Permit>, Refusal> {
        let Some(most) = self.limits.streams else {
            return Ok(None);
        };
        let permit = self.account.permit(name(), most);
        permit.map(Some).ok_or(Refusal {
            limit: Limit::Streams,
            wait: Some(LATER),
        })
    }

    /// To be held until the store has the new session.
    pub async fn session(
        &self,
        store: &dyn Store,
    ) -> store::Result<Result<Option<Admitted>, Refusal>> {
        let refusal = Refusal {
            limit: Limit::Sessions,
            wait: None,
        };
        self.admit(Holding::Session, refusal, store).await
    }

    /// To be held until the store has the prompt.
    pub async fn turn(
        &self,
        store: &dyn Store,
    ) -> store::Result<Result<Option<Admitted>, Refusal>> {
        let refusal = Refusal {
            limit: Limit::Turns,
            wait: Some(LATER),
        };
        self.admit(Holding::Turn, refusal, store).await
    }

    /// Whether more may be stored. Later writes are not checked: a turn goes on to its end.
    pub async fn storage(&self, store: &dyn Store) -> store::Result<Result<Budget, Refusal>> {
        let Some(most) = self.limits.storage else {
            return Ok(Ok(Budget::default()));
        };
        let principal = &self.account.principal;
        let ask = || store.usage(principal, self.counted());
        let used = self.account.holdings.stored(most, ask).await?;
        let budget = Budget {
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
        holding: Holding,
        refusal: Refusal,
        store: &dyn Store,
    ) -> store::Result<Result<Option<Admitted>, Refusal>> {
        let most = match holding {
            Holding::Session => self.limits.sessions,
            Holding::Turn => self.limits.turns,
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
