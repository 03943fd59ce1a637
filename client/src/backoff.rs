//! Pauses between attempts: longer each time, and never the same for two clients, so that those of
//! a lost gateway don't all come back at once.

use std::time::Duration;

use rand::RngExt as _;

const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(5);
/// A server that asks for more patience than this is asked all the same.
const LONGEST_ASKED: Duration = Duration::from_secs(60);

#[derive(Default)]
pub struct Backoff {
    failed: u32,
}

impl Backoff {
    pub fn reset(&mut self) {
        self.failed = 0;
    }

    /// After another failure. `asked` is what the server wants.
    pub fn next(&mut self, asked: Option<Duration>) -> Duration {
        let longest = FIRST.saturating_mul(1 << self.failed.min(10)).min(LONGEST);
        self.failed = self.failed.saturating_add(1);
        let pause = longest.mul_f64(rand::rng().random_range(0.1..1.0));
        pause.max(asked.unwrap_or_default().min(LONGEST_ASKED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_limit_and_differ() {
        let mut backoff = Backoff::default();
        assert!(backoff.next(None) <= FIRST);
        let later: Vec<Duration> = (0..64).map(|_| backoff.next(None)).collect();
        assert!(later.iter().all(|pause| *pause <= LONGEST));
        assert!(later[32..].iter().any(|pause| *pause > FIRST * 4));
        assert!(later[32..].windows(2).any(|pair| pair[0] != pair[1]));
        backoff.reset();
        assert!(backoff.next(None) <= FIRST);
        assert_eq!(backoff.next(Some(Duration::from_secs(20))).as_secs(), 20);
        assert!(backoff.next(Some(Duration::from_secs(3600))) <= LONGEST_ASKED);
    }
}
