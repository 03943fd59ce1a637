//! Whether the server is reachable, shared by all tasks that talk to it.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

pub struct ServerReachability {
    state: Mutex<ReachabilityState>,
    made: Notify,
}

struct ReachabilityState {
    /// Streams that are open. A stream may be silent for as long as it likes.
    open: usize,
    last: Instant,
}

/// A stream that is open.
pub struct OpenStreamGuard(Arc<ServerReachability>);

impl ServerReachability {
    pub fn new() -> Self {
        Self {
            state: Mutex::new(ReachabilityState {
                open: 0,
                last: Instant::now(),
            }),
            made: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, ReachabilityState> {
        self.state.lock().expect("nobody panics with it")
    }

    /// The server has answered.
    pub fn mark_answered(&self) {
        self.state().last = Instant::now();
        self.made.notify_waiters();
    }

    /// Waits until the server has answered any request.
    pub async fn answered(&self) {
        self.made.notified().await;
    }

    pub fn open(self: &Arc<Self>) -> OpenStreamGuard {
        self.state().open += 1;
        self.mark_answered();
        OpenStreamGuard(self.clone())
    }

    /// For how long nothing has been heard of the server.
    pub fn away(&self) -> Duration {
        let state = self.state();
        match state.open {
            0 => state.last.elapsed(),
            _ => Duration::ZERO,
        }
    }
}

impl Drop for OpenStreamGuard {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.open -= 1;
        state.last = Instant::now();
    }
}
