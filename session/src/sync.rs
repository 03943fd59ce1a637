//! Mutexes that are held for short, synchronous sections only.

use std::sync::{Mutex, MutexGuard};

pub trait MutexExt<T> {
    /// Locks a mutex whose critical sections neither block nor panic.
    fn locked(&self) -> MutexGuard<'_, T>;
}

impl<T> MutexExt<T> for Mutex<T> {
    fn locked(&self) -> MutexGuard<'_, T> {
        self.lock()
            .expect("no thread panics while it holds this lock")
    }
}
