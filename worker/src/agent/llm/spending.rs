//! What a session has used: tokens, money and time; and how much it may use.

use std::ops::AddAssign;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::model::TokenUsage;

/// Used by a step, a turn or a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UsedSoFar {
    /// Read and written.
    pub tokens: u64,
    /// In millionths of the currency.
    pub cost: u64,
    /// Time in turns, in milliseconds.
    pub millis: u64,
}

impl AddAssign for UsedSoFar {
    fn add_assign(&mut self, more: Self) {
        self.tokens = self.tokens.saturating_add(more.tokens);
        self.cost = self.cost.saturating_add(more.cost);
        self.millis = self.millis.saturating_add(more.millis);
    }
}

/// The price of a million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TokenPrices {
    pub input: f64,
    /// Of input that comes from the provider's cache.
    pub cached_input: f64,
    /// Of input that is written into it.
    pub cache_written: f64,
    pub output: f64,
}

impl TokenPrices {
    /// In millionths of the currency.
    pub fn cost(&self, usage: TokenUsage) -> u64 {
        let from_cache = usage.cached_input.min(usage.input);
        let into_cache = usage.cache_written.min(usage.input - from_cache);
        let plain = usage.input - from_cache - into_cache;
        let cost = plain as f64 * self.input
            + from_cache as f64 * self.cached_input
            + into_cache as f64 * self.cache_written
            + usage.output as f64 * self.output;
        cost.round() as u64
    }
}

/// Limits for a turn, or for a session.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UsageLimit {
    pub tokens: Option<u64>,
    /// In millionths of the currency.
    pub cost: Option<u64>,
    pub time: Option<Duration>,
}

#[derive(Clone, Debug, Default)]
pub struct UsageLimits {
    pub turn: UsageLimit,
    pub session: UsageLimit,
    /// Of prices and limits.
    pub currency: String,
}

impl UsageLimit {
    /// What is used up, if anything is.
    pub fn reached(&self, used: UsedSoFar, currency: &str) -> Option<String> {
        let time = self.time.map(|it| it.as_millis() as u64);
        if self.tokens.is_some_and(|most| used.tokens >= most) {
            return Some(format!("{} tokens", used.tokens));
        }
        if self.cost.is_some_and(|most| used.cost >= most) {
            return Some(format!("{:.2} {currency}", amount(used.cost)));
        }
        let reached = time.is_some_and(|most| used.millis >= most);
        reached.then(|| format!("{} seconds", used.millis / 1000))
    }

    /// The time that is left.
    pub fn time_left(&self, used: UsedSoFar) -> Option<Duration> {
        let used = Duration::from_millis(used.millis);
        self.time.map(|most| most.saturating_sub(used))
    }
}

/// Of the currency, from its millionths.
pub fn amount(cost: u64) -> f64 {
    cost as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_token_has_one_price() {
        let prices = TokenPrices {
            input: 3.0,
            cached_input: 0.3,
            cache_written: 3.75,
            output: 15.0,
        };
        let usage = TokenUsage {
            input: 1_000_000,
            cached_input: 600_000,
            cache_written: 100_000,
            output: 10_000,
            reasoning: 5_000,
        };
        // 0.9 + 0.18 + 0.375 + 0.15
        assert_eq!(prices.cost(usage), 1_605_000);
        let odd = TokenUsage {
            input: 10,
            cached_input: 20,
            cache_written: 30,
            ..TokenUsage::default()
        };
        assert_eq!(prices.cost(odd), 3);
    }

    #[test]
    fn a_limit_says_what_is_used_up() {
        let used = UsedSoFar {
            tokens: 100,
            cost: 2_500_000,
            millis: 61_000,
        };
        let limit = |tokens, cost, time| UsageLimit {
            tokens,
            cost,
            time: Duration::from_secs(time).into(),
        };
        let reached = |limit: UsageLimit| limit.reached(used, "EUR");
        assert_eq!(reached(UsageLimit::default()), None);
        assert_eq!(reached(limit(Some(101), Some(2_500_001), 62)), None);
        assert_eq!(reached(limit(Some(100), None, 62)).unwrap(), "100 tokens");
        assert_eq!(
            reached(limit(None, Some(2_500_000), 62)).unwrap(),
            "2.50 EUR"
        );
        assert_eq!(reached(limit(None, None, 61)).unwrap(), "61 seconds");
        let left = limit(None, None, 62).time_left(used);
        assert_eq!(left, Some(Duration::from_secs(1)));
    }
}
