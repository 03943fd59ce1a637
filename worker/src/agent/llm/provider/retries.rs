//! When a call that failed is tried again: so often, so long, and never sooner than the endpoint
//! wants it.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use rand::RngExt as _;
use tokio::time::Instant;

use super::config::RetryPolicy;
use crate::agent::llm::model_error::ModelError;

pub struct CallRetries<'a> {
    policy: &'a RetryPolicy,
    begun: Instant,
    pub made: u32,
}

impl<'a> CallRetries<'a> {
    pub fn new(policy: &'a RetryPolicy) -> Self {
        Self {
            policy,
            begun: Instant::now(),
            made: 0,
        }
    }

    /// The pause before the next attempt, if there is to be one.
    pub fn pause_after(&mut self, error: &ModelError) -> Option<Duration> {
        if !error.is_retryable() || self.made == self.policy.retries {
            return None;
        }
        let pause = match error.retry_after() {
            Some(asked) if asked > self.policy.longest_pause => return None,
            // Those that were refused together do not come back together.
            Some(asked) => asked.saturating_add(self.jittered() / 4),
            None => self.jittered(),
        };
        self.made += 1;
        let late = self.begun.elapsed().saturating_add(pause) > self.policy.within;
        (!late).then_some(pause)
    }

    fn jittered(&self) -> Duration {
        let longest = self
            .policy
            .first_pause
            .saturating_mul(1 << self.made.min(16));
        let longest = longest.min(self.policy.longest_pause);
        longest.mul_f64(rand::rng().random_range(0.5..1.0))
    }
}

/// `Retry-After` as seconds or a date; OpenAI has one in milliseconds as well.
pub fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(millis) = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(millis / 1000.0).ok();
    }
    let text = text("retry-after")?;
    match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        Err(_) => {
            let date = httpdate::parse_http_date(text).ok()?;
            Some(date.duration_since(now).unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overloaded(seconds: Option<u64>) -> ModelError {
        ModelError::Overloaded {
            retry_after: seconds.map(Duration::from_secs),
            detail: String::new(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn retries_are_bounded_in_number_and_time() {
        let policy = RetryPolicy::default();
        let mut retries = CallRetries::new(&policy);
        let pauses = std::iter::from_fn(|| retries.pause_after(&overloaded(None)));
        let pauses: Vec<Duration> = pauses.collect();
        assert_eq!(pauses.len(), 4);
        assert!(pauses[3] > pauses[0], "{pauses:?}");
        let mut retries = CallRetries::new(&policy);
        let asked = retries.pause_after(&overloaded(Some(20))).expect("retried");
        assert!(asked >= Duration::from_secs(20) && asked < Duration::from_secs(21));
        assert_eq!(retries.pause_after(&overloaded(Some(3600))), None);
        tokio::time::advance(Duration::from_secs(170)).await;
        assert_eq!(retries.pause_after(&overloaded(Some(20))), None, "too late");
        let refused = ModelError::BadRequest {
            detail: String::new(),
        };
        assert_eq!(CallRetries::new(&policy).pause_after(&refused), None);
    }

    #[test]
    fn all_forms_of_retry_after_are_read() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").expect("a date");
        let read = |name: &'static str, value: &'static str| {
            let value = http::HeaderValue::from_static(value);
            let headers = HeaderMap::from_iter([(http::HeaderName::from_static(name), value)]);
            retry_after(&headers, now)
        };
        let date = "Sun, 06 Nov 1994 08:50:37 GMT";
        assert_eq!(read("retry-after", date), Some(Duration::from_secs(60)));
        let past = "Sun, 06 Nov 1994 08:40:37 GMT";
        assert_eq!(read("retry-after", past), Some(Duration::ZERO));
        assert_eq!(read("retry-after", " 7"), Some(Duration::from_secs(7)));
        assert_eq!(
            read("retry-after-ms", "1500"),
            Some(Duration::from_millis(1500))
        );
        for bad in ["-1", "soon", "NaN", "1e999", ""] {
            assert_eq!(read("retry-after", bad), None, "{bad}");
        }
    }
}
