//! How many agents to keep ready: as many as sessions began within the time of one start.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// What is older is forgotten.
const REMEMBERED: Duration = Duration::from_secs(60);
const MOST_REMEMBERED: usize = 1024;

/// When sessions took a process, and how long a start takes.
#[derive(Default)]
pub struct StartDemand {
    taken: VecDeque<Instant>,
    start_time: Duration,
}

impl StartDemand {
    pub fn taken(&mut self, at: Instant) {
        if self.taken.len() == MOST_REMEMBERED {
            self.taken.pop_front();
        }
        self.taken.push_back(at);
    }

    pub fn started(&mut self, took: Duration) {
        // A single slow start must not decide.
        self.start_time = if self.start_time.is_zero() {
            took
        } else {
            (self.start_time * 3 + took) / 4
        };
    }

    /// At least one, and at most `most`: a burst finds its processes ready if the last one was as
    /// large.
    pub fn wanted(&mut self, now: Instant, most: usize) -> usize {
        while let Some(first) = self.taken.front() {
            if now.duration_since(*first) < REMEMBERED {
                break;
            }
            self.taken.pop_front();
        }
        let largest = (0..self.taken.len()).map(|first| {
            let until = self.taken[first] + self.start_time;
            self.taken.partition_point(|at| *at <= until) - first
        });
        largest.max().unwrap_or(0).max(1).min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_largest_burst_within_a_start_decides() {
        let (mut demand, start) = (StartDemand::default(), Instant::now());
        assert_eq!(demand.wanted(start, 8), 1, "nothing has come yet");
        assert_eq!(demand.wanted(start, 0), 0);
        demand.started(2 * SECOND);
        for after in [0, 10, 11, 12, 20] {
            demand.taken(start + after * SECOND);
        }
        assert_eq!(demand.wanted(start + 21 * SECOND, 8), 3);
        assert_eq!(demand.wanted(start + 21 * SECOND, 2), 2);
        // The burst is more than a minute ago, the last one is not.
        assert_eq!(demand.wanted(start + 73 * SECOND, 8), 1);
        assert_eq!(demand.taken.len(), 1);
    }

    #[test]
    fn a_flood_is_remembered_in_part() {
        let (mut demand, start) = (StartDemand::default(), Instant::now());
        demand.started(SECOND);
        (0..5_000).for_each(|_| demand.taken(start));
        assert_eq!(demand.taken.len(), MOST_REMEMBERED);
        assert_eq!(demand.wanted(start, 10_000), MOST_REMEMBERED);
    }
}
