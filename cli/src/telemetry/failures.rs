//! Says that a collector cannot be used, but not over and over.

use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub struct ExportFailures {
    told: Option<Instant>,
    /// Since then.
    lost: usize,
}

impl ExportFailures {
    /// How much was lost, if it is time to say so.
    pub fn add(&mut self, lost: usize, now: Instant) -> Option<usize> {
        self.lost += lost;
        if self.told.is_some_and(|told| now < told + PAUSE) {
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.lost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_once_a_minute() {
        let (start, mut failures) = (Instant::now(), ExportFailures::default());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(failures.add(3, at(0)), Some(3));
        assert_eq!(failures.add(4, at(1)), None);
        assert_eq!(failures.add(5, at(59)), None);
        assert_eq!(failures.add(6, at(60)), Some(15));
        assert_eq!(failures.add(7, at(61)), None);
    }
}
