//! Limits for each caller, so that the others get their share.
//!
//! | file | contents |
//! |---|---|
//! | `rate` | so many in so long, and the bucket that measures it |
//! | `account` | what a principal has taken of this process |
//! | `stream_slots` | its open streams |
//! | `quota` | its sessions, turns and bytes, which the store counts for all gateways |
//! | `inflight` | bytes of messages that are being received |
//! | `refusal` | how a caller is told |

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Deserializer};
use tokio::time::Instant;

use self::account::CallerAccount;

pub use self::account::{CallerAllowance, StorageBudget};
pub use self::inflight::{
    DEFAULT_INFLIGHT, InflightBudget, InflightRefusal, InflightReservation, LEAST_INFLIGHT,
};
pub use self::quota::QuotaReservation;
pub use self::rate::RateLimit;
pub use self::refusal::{LimitKind, LimitRefusal};
pub use self::stream_slots::{StreamPermit, stream_name};
use baton_session::sync::MutexExt as _;

mod account;
mod inflight;
mod quota;
mod rate;
mod refusal;
mod stream_slots;

/// More principals than these in one shard, and those that are idle are forgotten.
const ROOM: usize = 64;
const SHARDS: usize = 16;

/// Each is off if it is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallerLimits {
    /// JSON-RPC requests.
    pub requests: Option<RateLimit>,
    /// Received bytes.
    pub bytes: Option<RateLimit>,
    /// Open streams, one-shot bodies and WebSockets.
    pub streams: Option<NonZeroU64>,
    /// Sessions that exist.
    pub sessions: Option<NonZeroU64>,
    /// Sessions that work or wait for a worker.
    pub turns: Option<NonZeroU64>,
    /// Bytes that are kept.
    pub storage: Option<NonZeroU64>,
}

/// Overrides of a caller: `null` removes a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitOverrides {
    #[serde(deserialize_with = "given")]
    requests: Option<Option<RateLimit>>,
    #[serde(deserialize_with = "given")]
    bytes: Option<Option<RateLimit>>,
    #[serde(deserialize_with = "given")]
    streams: Option<Option<NonZeroU64>>,
    #[serde(deserialize_with = "given")]
    sessions: Option<Option<NonZeroU64>>,
    #[serde(deserialize_with = "given")]
    turns: Option<Option<NonZeroU64>>,
    #[serde(deserialize_with = "given")]
    storage: Option<Option<NonZeroU64>>,
}

fn given<'a, T: Deserialize<'a>, D: Deserializer<'a>>(
    value: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(value).map(Some)
}

impl LimitOverrides {
    fn over(&self, others: &CallerLimits) -> CallerLimits {
        CallerLimits {
            requests: self.requests.unwrap_or(others.requests),
            bytes: self.bytes.unwrap_or(others.bytes),
            streams: self.streams.unwrap_or(others.streams),
            sessions: self.sessions.unwrap_or(others.sessions),
            turns: self.turns.unwrap_or(others.turns),
            storage: self.storage.unwrap_or(others.storage),
        }
    }
}

/// All callers that are under a limit and not idle.
pub struct CallerAccounts {
    for_all: CallerLimits,
    shards: [Mutex<AccountShard>; SHARDS],
    hasher: RandomState,
}

#[derive(Default)]
struct AccountShard {
    accounts: HashMap<Arc<str>, Arc<CallerAccount>>,
    /// How many there were when room was last made.
    left: usize,
}

impl CallerAccounts {
    pub fn new(for_all: CallerLimits) -> Self {
        Self {
            for_all,
            shards: Default::default(),
            hasher: RandomState::new(),
        }
    }

    /// `None` for whom there are no limits.
    pub fn of(
        &self,
        principal: &Arc<str>,
        own: Option<&LimitOverrides>,
    ) -> Option<CallerAllowance> {
        let limits = own.map_or(self.for_all, |own| own.over(&self.for_all));
        if limits == CallerLimits::default() {
            return None;
        }
        let at = self.hasher.hash_one(principal) as usize % SHARDS;
        let mut shard = self.shards[at].locked();
        let account = match shard.accounts.get(principal) {
            Some(account) => account.clone(),
            None => shard.open(principal),
        };
        Some(CallerAllowance { limits, account })
    }
}

impl AccountShard {
    fn open(&mut self, principal: &Arc<str>) -> Arc<CallerAccount> {
        if self.accounts.len() >= ROOM.max(self.left * 2) {
            let now = Instant::now();
            self.accounts
                .retain(|_, account| Arc::strong_count(account) > 1 || !account.is_idle(now));
            self.left = self.accounts.len();
        }
        let account = Arc::new(CallerAccount::new(principal.clone()));
        self.accounts.insert(principal.clone(), account.clone());
        account
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn limits(text: &str) -> LimitOverrides {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn ones_own_limits_replace_those_of_all_one_by_one() {
        let all = CallerLimits {
            requests: Some("5".parse().unwrap()),
            turns: NonZeroU64::new(2),
            ..Default::default()
        };
        let own = limits(r#"{"requests":"7/1h","streams":3}"#).over(&all);
        assert_eq!(own.requests, Some("7/1h".parse().unwrap()));
        assert_eq!((own.turns, own.streams), (all.turns, NonZeroU64::new(3)));
        assert_eq!(limits(r#"{"turns":null}"#).over(&all).turns, None);
        assert_eq!(limits("{}").over(&all), all);
        for wrong in [r#"{"turns":0}"#, r#"{"turn":1}"#, r#"{"requests":"x"}"#] {
            assert!(
                serde_json::from_str::<LimitOverrides>(wrong).is_err(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn who_has_no_limits_has_no_account() {
        let nobody = CallerAccounts::new(CallerLimits::default());
        assert!(nobody.of(&"a".into(), None).is_none());
        let own = limits(r#"{"turns":1}"#);
        assert!(nobody.of(&"a".into(), Some(&own)).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn the_idle_are_forgotten_and_nobody_else() {
        let for_all = CallerLimits {
            requests: Some("1/1m".parse().unwrap()),
            ..Default::default()
        };
        let accounts = CallerAccounts::new(for_all);
        let kept = accounts.of(&"kept".into(), None).unwrap();
        let crowd = |from: usize| {
            for number in from..from + 20_000 {
                let passer = accounts.of(&format!("{number}").into(), None);
                assert!(passer.unwrap().request().is_none());
            }
        };
        let count = || -> usize {
            let shards = accounts.shards.iter();
            shards.map(|s| s.lock().unwrap().accounts.len()).sum()
        };
        crowd(0);
        // All of them have just asked for something.
        assert_eq!(count(), 20_001);
        tokio::time::advance(Duration::from_secs(61)).await;
        crowd(20_000);
        assert!(count() < 30_000, "{}", count());
        assert!(kept.request().is_none());
        let again = accounts.of(&"kept".into(), None).unwrap();
        assert!(again.request().is_some(), "it is the same account");
    }
}
