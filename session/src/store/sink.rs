//! Where the signals for one listener go: nobody waits for it, and it admits what didn't fit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::Signal;

#[derive(Clone)]
pub(super) struct Sink {
    to: mpsc::Sender<Signal>,
    /// A [`Signal::Lost`] is on its way, and waits for room.
    owed: Arc<AtomicBool>,
}

impl Sink {
    pub fn new(to: mpsc::Sender<Signal>) -> Self {
        Self {
            to,
            owed: Arc::default(),
        }
    }

    pub fn send(&self, signal: Signal) {
        if let Err(TrySendError::Full(_)) = self.to.try_send(signal) {
            self.tell_lost();
        }
    }

    /// Says that signals were missed, as soon as there is room: what was missed may have been the
    /// last for a long time, so this must not wait for the next.
    pub fn tell_lost(&self) {
        if self.owed.swap(true, Ordering::SeqCst) {
            return;
        }
        let Self { to, owed } = self.clone();
        tokio::spawn(async move {
            if let Ok(room) = to.reserve().await {
                // Before the signal: whatever is missed from here on needs another one.
                owed.store(false, Ordering::SeqCst);
                room.send(Signal::Lost);
            }
        });
    }
}
