//! Whether the server is there, as everybody knows it who talks to it.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

pub struct Contact {
    state: Mutex<State>,
    made: Notify,
}

struct State {
    /// Streams that are open. A stream may be silent for as long as it likes.
    open: usize,
    last: Instant,
}

/// A stream that is open.
pub struct Open(Arc<Contact>);

impl Contact {
    pub fn new() -> Self {
        Self {
            state: Mutex::new(State {
                open: 0,
                last: Instant::now(),
            }),
            made: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }

    /// The server has answered.
    pub fn made(&self) {
        self.state().last = Instant::now();
        self.made.notify_waiters();
    }

    /// Waits until the server has answered any request.
    pub async fn wait(&self) {
        self.made.notified().await;
    }

    pub fn open(self: &Arc<Self>) -> Open {
        self.state().open += 1;
        self.made();
        Open(self.clone())
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

impl Drop for Open {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.open -= 1;
        state.last = Instant::now();
    }
}
