//! Wakes the readers of a log. One stream may read many logs, and wants to know which of them
//! called.

use std::collections::BTreeSet;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

use baton_session::sync::MutexExt as _;

/// Wakes a stream.
#[derive(Clone)]
pub struct StreamWake {
    notify: Arc<Notify>,
    caller: Option<(Arc<WakeCallers>, u64)>,
}

/// Those that have called since somebody looked, by number.
#[derive(Default)]
pub struct WakeCallers(Mutex<BTreeSet<u64>>);

impl StreamWake {
    /// One of many, known by its number.
    pub fn of(notify: Arc<Notify>, callers: Arc<WakeCallers>, number: u64) -> Self {
        let caller = Some((callers, number));
        Self { notify, caller }
    }

    pub fn wake_up(&self) {
        if let Some((callers, number)) = &self.caller {
            callers.set().insert(*number);
        }
        self.notify.notify_one();
    }

    pub fn notify(&self) -> &Arc<Notify> {
        &self.notify
    }
}

impl From<Arc<Notify>> for StreamWake {
    fn from(notify: Arc<Notify>) -> Self {
        let caller = None;
        Self { notify, caller }
    }
}

impl WakeCallers {
    fn set(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.0.locked()
    }

    pub fn take(&self) -> BTreeSet<u64> {
        mem::take(&mut *self.set())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_known_who_called() {
        let (notify, callers) = (Arc::new(Notify::new()), Arc::new(WakeCallers::default()));
        for number in [3, 7, 3] {
            StreamWake::of(notify.clone(), callers.clone(), number).wake_up();
        }
        StreamWake::from(notify.clone()).wake_up();
        notify.notified().await;
        assert_eq!(callers.take(), BTreeSet::from([3, 7]));
        assert_eq!(callers.take(), BTreeSet::new());
    }
}
