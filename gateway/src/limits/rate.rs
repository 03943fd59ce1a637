//! So many in so long, and the bucket that measures it.

use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, Visitor};
use tokio::time::Instant;

const MOST: u64 = 1 << 40;
const LONGEST: Duration = Duration::from_secs(30 * 86_400);

/// So many may come at once, and as many again in each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    count: u64,
    period: Duration,
}

impl RateLimit {
    pub fn times(self, factor: u64) -> Self {
        Self {
            count: self.count * factor,
            ..self
        }
    }

    pub fn count(self) -> u64 {
        self.count
    }

    fn takes_for(self, amount: f64) -> Duration {
        self.period.mul_f64(amount / self.count as f64)
    }
}

/// `20`, which is `20/1s`; `600/1m`, `2/1h`.
impl FromStr for RateLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = || {
            "must be a number of 1 or more, by the second, or by another time as in 600/1m"
                .to_owned()
        };
        let (count, period) = text.split_once('/').unwrap_or((text, "1s"));
        let count: u64 = count.parse().map_err(|_| fault())?;
        let unit = match period.chars().next_back() {
            Some('s') => 1,
            Some('m') => 60,
            Some('h') => 3600,
            Some('d') => 86_400,
            _ => return Err(fault()),
        };
        let number = match &period[..period.len() - 1] {
            "" => 1,
            number => number.parse::<u32>().map_err(|_| fault())?,
        };
        let period = Duration::from_secs(u64::from(number) * unit);
        if !(1..=MOST).contains(&count) || period.is_zero() || period > LONGEST {
            return Err(fault());
        }
        Ok(Self { count, period })
    }
}

/// A number, or text as on the command line.
impl<'a> Deserialize<'a> for RateLimit {
    fn deserialize<D: Deserializer<'a>>(from: D) -> Result<Self, D::Error> {
        struct RateVisitor;
        impl Visitor<'_> for RateVisitor {
            type Value = RateLimit;

            fn expecting(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                to.write_str("a rate, such as 20 or \"600/1m\"")
            }

            fn visit_u64<E: serde::de::Error>(self, count: u64) -> Result<RateLimit, E> {
                self.visit_str(&count.to_string())
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<RateLimit, E> {
                text.parse()
                    .map_err(|fault| E::custom(format!("{text:?} {fault}")))
            }
        }
        from.deserialize_any(RateVisitor).map_err(D::Error::custom)
    }
}

/// Holds a period's worth when full. Below zero it owes something.
pub struct TokenBucket {
    level: f64,
    at: Instant,
}

/// Times are rounded: a caller that waited as long as it was told to has waited long enough.
const CLOSE: f64 = 1e-6;

impl TokenBucket {
    pub fn full(rate: RateLimit, now: Instant) -> Self {
        Self {
            level: rate.count as f64,
            at: now,
        }
    }

    fn refill(&mut self, rate: RateLimit, now: Instant) {
        let passed = now.saturating_duration_since(self.at);
        let gained = passed.as_secs_f64() * rate.count as f64 / rate.period.as_secs_f64();
        self.level = (self.level + gained).min(rate.count as f64);
        self.at = self.at.max(now);
    }

    /// Takes one out, or says when there will be one.
    pub fn take(&mut self, rate: RateLimit, now: Instant) -> Result<(), Duration> {
        self.refill(rate, now);
        if self.level + CLOSE < 1.0 {
            return Err(rate.takes_for(1.0 - self.level));
        }
        self.level -= 1.0;
        Ok(())
    }

    /// Takes it out in any case, and says how long it owed something before: what is larger than
    /// the bucket is let in, and those after it pay for it.
    pub fn charge(&mut self, rate: RateLimit, amount: u64, now: Instant) -> Option<Duration> {
        let owed = self.owes(rate, 0, now);
        self.level -= amount as f64;
        owed
    }

    /// How long it owes more than `credit`.
    pub fn owes(&mut self, rate: RateLimit, credit: u64, now: Instant) -> Option<Duration> {
        self.refill(rate, now);
        let below = -(credit as f64) - self.level;
        (below > CLOSE).then(|| rate.takes_for(below))
    }

    pub fn is_full(&mut self, rate: RateLimit, now: Instant) -> bool {
        self.refill(rate, now);
        self.level + CLOSE >= rate.count as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn rate(text: &str) -> RateLimit {
        text.parse().unwrap()
    }

    #[test]
    fn rates_are_read_as_they_are_meant() {
        let of = |count, seconds| RateLimit {
            count,
            period: Duration::from_secs(seconds),
        };
        assert_eq!(rate("20"), of(20, 1));
        assert_eq!(rate("20/s"), of(20, 1));
        assert_eq!(rate("600/10m"), of(600, 600));
        assert_eq!(rate("2/1h"), of(2, 3600));
        let json = |text: &str| serde_json::from_str::<RateLimit>(text).ok();
        assert_eq!(json("3"), Some(of(3, 1)));
        assert_eq!(json("\"3/1d\""), Some(of(3, 86_400)));
        for wrong in [
            "",
            "0",
            "-1",
            "1.5",
            "a",
            "1/",
            "1/0s",
            "1/1y",
            "1/31d",
            "/1s",
            "1/é",
            "9999999999999999",
        ] {
            assert!(wrong.parse::<RateLimit>().is_err(), "{wrong}");
            assert_eq!(json(&format!("\"{wrong}\"")), None, "{wrong}");
        }
        assert_eq!((json("0"), json("-1"), json("1.5")), (None, None, None));
    }

    #[test]
    fn a_bucket_gives_a_periods_worth_at_once_and_then_as_it_fills() {
        let (rate, start) = (rate("4/2s"), Instant::now());
        let mut bucket = TokenBucket::full(rate, start);
        for _ in 0..4 {
            assert_eq!(bucket.take(rate, start), Ok(()));
        }
        assert_eq!(bucket.take(rate, start), Err(SECOND / 2));
        let soon = start + SECOND / 4;
        assert_eq!(bucket.take(rate, soon), Err(SECOND / 4));
        // Asking in between costs nothing.
        assert_eq!(bucket.take(rate, start + SECOND / 2), Ok(()));
        assert!(bucket.take(rate, start + SECOND / 2).is_err());
        // However long it stands, it holds no more.
        let late = start + SECOND * 1000;
        assert!(bucket.is_full(rate, late));
        assert_eq!(
            (0..9).filter(|_| bucket.take(rate, late).is_ok()).count(),
            4
        );
        // A clock that goes back does no harm.
        assert!(bucket.take(rate, start).is_err());
    }

    #[test]
    fn what_is_larger_than_the_bucket_is_paid_for_by_what_follows() {
        let (rate, start) = (rate("100"), Instant::now());
        let mut bucket = TokenBucket::full(rate, start);
        assert_eq!(bucket.charge(rate, 400, start), None);
        assert_eq!(bucket.owes(rate, 0, start), Some(SECOND * 3));
        assert_eq!(bucket.owes(rate, 200, start), Some(SECOND));
        assert_eq!(bucket.owes(rate, 300, start), None);
        assert_eq!(bucket.charge(rate, 100, start + SECOND), Some(SECOND * 2));
        assert_eq!(bucket.charge(rate, 1, start + SECOND * 4), None);
    }
}
