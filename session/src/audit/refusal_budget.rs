//! Refusals cost whoever asks nothing, so lines about them are rationed: nobody fills the disk with
//! them, or takes the room of what others do.

use std::sync::Mutex;
use std::time::Instant;

use crate::sync::MutexExt as _;

/// So many at once, and then so many a second.
const BURST: f64 = 100.0;
const RATE: f64 = 10.0;

pub(super) struct RefusalBudget(Mutex<BudgetState>);

struct BudgetState {
    left: f64,
    at: Instant,
    skipped: u64,
}

impl Default for RefusalBudget {
    fn default() -> Self {
        Self(Mutex::new(BudgetState {
            left: BURST,
            at: Instant::now(),
            skipped: 0,
        }))
    }
}

impl RefusalBudget {
    /// Whether there may be a line now; then also how many had none since the last.
    pub fn admit(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.locked();
        let since = now.saturating_duration_since(state.at).as_secs_f64();
        state.left = (state.left + since * RATE).min(BURST);
        state.at = now;
        if state.left < 1.0 {
            state.skipped += 1;
            return None;
        }
        state.left -= 1.0;
        Some(std::mem::take(&mut state.skipped))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_flood_has_few_lines_and_the_rest_is_counted() {
        let refusals = RefusalBudget::default();
        let now = Instant::now();
        let written = (0..1000).filter(|_| refusals.admit(now).is_some()).count();
        assert_eq!(written, 100);
        assert_eq!(refusals.admit(now + Duration::from_secs(1)), Some(900));
        assert_eq!(refusals.admit(now + Duration::from_secs(1)), Some(0));
    }
}
