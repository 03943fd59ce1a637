//! A server that cannot be used is not tried at every step.

use std::time::Duration;

use tokio::time::Instant;

use super::shortened;

const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

#[derive(Debug, Default)]
pub struct TryPause(Option<FailedTry>);

#[derive(Debug)]
struct FailedTry {
    why: String,
    until: Instant,
    pause: Duration,
}

impl TryPause {
    /// Why it failed, as long as it is not to be tried again.
    pub fn check(&self) -> Result<(), String> {
        match &self.0 {
            Some(failed) if Instant::now() < failed.until => Err(failed.why.clone()),
            _ => Ok(()),
        }
    }

    /// Notes the outcome of a try.
    pub fn note<T>(&mut self, server: &str, outcome: Result<T, String>) -> Result<T, String> {
        let why = match outcome {
            Ok(found) => {
                self.0 = None;
                return Ok(found);
            }
            Err(why) => shortened(&why),
        };
        tracing::warn!(server, why, "an MCP server cannot be used");
        let before = self.0.take();
        let pause = before.map_or(FIRST_PAUSE, |it| (it.pause * 2).min(LONGEST_PAUSE));
        self.0 = Some(FailedTry {
            why: why.clone(),
            until: Instant::now() + pause,
            pause,
        });
        Err(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_double_up_to_five_minutes_and_end_with_a_success() {
        let mut pause = TryPause::default();
        let mut waited = Vec::new();
        for _ in 0..8 {
            let failed: Result<(), _> = pause.note("s", Err("no".into()));
            assert_eq!(failed, pause.check());
            let begun = Instant::now();
            while pause.check().is_err() {
                tokio::time::advance(Duration::from_secs(5)).await;
            }
            waited.push(begun.elapsed().as_secs());
        }
        assert_eq!(waited, [5, 10, 20, 40, 80, 160, 300, 300]);
        pause.note("s", Ok(())).expect("it is one");
        let _: Result<(), _> = pause.note("s", Err("no".into()));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(pause.check(), Ok(()));
    }
}
