//! Wakes the readers of a topic. One stream may read many topics, and wants to know which of them
//! called.

use std::collections::BTreeSet;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

use baton_session::sync::MutexExt as _;

/// Wakes a stream.
#[derive(Clone)]
pub struct Wake {
    notify: Arc<Notify>,
    caller: Option<(Arc<Callers>, u64)>,
}

/// Those that have called since somebody looked, by number.
#[derive(Default)]
pub struct Callers(Mutex<BTreeSet<u64>>);

impl Wake {
    /// One of many, known by its number.
    pub fn of(notify: Arc<Notify>, callers: Arc<Callers>, number: u64) -> Self {
        let caller = Some((callers, number));
        Self { notify, caller }
    }

    pub fn call(&self) {
        if let Some((callers, number)) = &self.caller {
            callers.set().insert(*number);
        }
        self.notify.notify_one();
    }

    pub fn notify(&self) -> &Arc<Notify> {
        &self.notify
    }
}

impl From<Arc<Notify>> for Wake {
    fn from(notify: Arc<Notify>) -> Self {
        let caller = None;
        Self { notify, caller }
    }
}

impl Callers {
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
        let (notify, callers) = (Arc::new(Notify::new()), Arc::new(Callers::default()));
        for number in [3, 7, 3] {
            Wake::of(notify.clone(), callers.clone(), number).call();
        }
        Wake::from(notify.clone()).call();
        notify.notified().await;
        assert_eq!(callers.take(), BTreeSet::from([3, 7]));
        assert_eq!(callers.take(), BTreeSet::new());
    }
}
