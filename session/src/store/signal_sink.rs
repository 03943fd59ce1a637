//! Where the signals for one listener go: nobody waits for it, and it admits what didn't fit.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::Signal;
use crate::sync::MutexExt as _;

#[derive(Clone)]
pub(super) struct SignalSink {
    to: mpsc::Sender<Signal>,
    gap: Arc<Mutex<MissedSignals>>,
}

/// After a signal was missed, no other passes before the [`Signal::Lost`] that says so: what a
/// later one means may depend on the one that was missed.
#[derive(Default)]
struct MissedSignals {
    /// A [`Signal::Lost`] waits for room.
    owed: bool,
}

impl SignalSink {
    pub fn new(to: mpsc::Sender<Signal>) -> Self {
        Self {
            to,
            gap: Arc::default(),
        }
    }

    fn gap(&self) -> MutexGuard<'_, MissedSignals> {
        self.gap.locked()
    }

    pub fn send(&self, signal: Signal) {
        let mut gap = self.gap();
        if !gap.owed
            && let Err(TrySendError::Full(_)) = self.to.try_send(signal)
        {
            self.schedule_lost(&mut gap);
        }
    }

    /// Says that signals were missed, as soon as there is room: what was missed may have been the
    /// last for a long time, so this must not wait for the next.
    pub fn tell_lost(&self) {
        self.schedule_lost(&mut self.gap());
    }

    fn schedule_lost(&self, gap: &mut MissedSignals) {
        if std::mem::replace(&mut gap.owed, true) {
            return;
        }
        let sink = self.clone();
        tokio::spawn(async move {
            if let Ok(room) = sink.to.reserve().await {
                let mut gap = sink.gap();
                room.send(Signal::Lost);
                gap.owed = false;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Partition, SessionId};

    #[tokio::test]
    async fn nothing_passes_between_what_was_missed_and_the_word_of_it() {
        let (to, mut from) = mpsc::channel(2);
        let sink = SignalSink::new(to);
        let signal = || Signal::Ready(SessionId::mint(Partition(0)));
        (0..3).for_each(|_| sink.send(signal()));
        // Room again, but the third was missed: the fourth has to wait for the word.
        from.recv().await;
        sink.send(signal());
        assert!(matches!(from.recv().await, Some(Signal::Ready(_))));
        assert!(matches!(from.recv().await, Some(Signal::Lost)));
        sink.tell_lost();
        sink.send(signal());
        assert!(matches!(from.recv().await, Some(Signal::Lost)));
        sink.send(signal());
        assert!(matches!(from.recv().await, Some(Signal::Ready(_))));
        assert!(from.try_recv().is_err());
    }
}
