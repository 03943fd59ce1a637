//! An agent that fails at every start is not started all the time.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use super::failures;
use crate::rpc::Failure;
use baton_session::sync::MutexExt as _;

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

#[derive(Default)]
pub struct StartBackoff(Mutex<BackoffState>);

#[derive(Default)]
struct BackoffState {
    in_a_row: u32,
    last: String,
    pause_until: Option<Instant>,
}

impl StartBackoff {
    /// Fails while there is no use in trying.
    pub fn check(&self) -> Result<(), Failure> {
        let state = self.0.locked();
        let left = state
            .pause_until
            .map(|until| until.saturating_duration_since(Instant::now()))
            .filter(|left| !left.is_zero());
        match left {
            None => Ok(()),
            Some(left) => Err(failures::crash_loop(state.in_a_row, &state.last, left)),
        }
    }

    /// It did not even start.
    pub fn failed(&self, why: &str) {
        let mut state = self.0.locked();
        state.in_a_row += 1;
        state.last = why.to_owned();
        let doubled = 1u32 << (state.in_a_row - 1).min(10);
        // Once is no loop.
        if state.in_a_row > 1 {
            let pause = (FIRST_PAUSE * doubled).min(LONGEST_PAUSE);
            tracing::error!(
                in_a_row = state.in_a_row,
                pause_ms = pause.as_millis() as u64,
                why,
                "the agent does not start"
            );
            state.pause_until = Some(Instant::now() + pause);
        }
    }

    pub fn started(&self) {
        *self.0.locked() = BackoffState::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_until_a_start_succeeds() {
        let crashes = StartBackoff::default();
        crashes.failed("no such file");
        assert!(crashes.check().is_ok(), "once is no loop");
        let mut pauses = Vec::new();
        for _ in 0..9 {
            crashes.failed("no such file");
            let began = Instant::now();
            let failure = crashes.check().unwrap_err();
            assert!(failure.message.contains("no such file"), "{failure}");
            while crashes.check().is_err() {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            pauses.push(began.elapsed().as_millis());
        }
        assert_eq!(
            pauses,
            [1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000, 30000]
        );
        crashes.started();
        crashes.failed("again");
        assert!(crashes.check().is_ok());
    }
}
