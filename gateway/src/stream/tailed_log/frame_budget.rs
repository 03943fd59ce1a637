//! What all tailed logs of a process keep together. Each may keep much as long as that is little.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Of one log.
const MAX_BYTES: usize = 1 << 20;
/// Of all logs. Once they keep more, each that something comes to keeps less.
const MAX_OF_ALL: usize = 8 << 20;
/// Of one log then: what one write brings to a reader that keeps up.
const LITTLE: usize = 64 << 10;

#[derive(Clone, Default)]
pub struct FrameBudget(Arc<AtomicUsize>);

/// The bytes that one log keeps. Given back when dropped.
#[derive(Default)]
pub struct KeptBytes {
    bytes: usize,
    budget: FrameBudget,
}

impl KeptBytes {
    pub fn of(budget: FrameBudget) -> Self {
        Self { bytes: 0, budget }
    }

    pub fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.budget.0.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn remove(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.budget.0.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub fn clear(&mut self) {
        self.remove(self.bytes);
    }

    pub fn is_too_much(&self) -> bool {
        let of_all = self.budget.0.load(Ordering::Relaxed);
        self.bytes
            > if of_all > MAX_OF_ALL {
                LITTLE
            } else {
                MAX_BYTES
            }
    }
}

impl Drop for KeptBytes {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_log_keeps_little_while_all_keep_much() {
        let budget = FrameBudget::default();
        let mut log = KeptBytes::of(budget.clone());
        log.add(MAX_BYTES);
        assert!(!log.is_too_much());
        let mut others = KeptBytes::of(budget);
        others.add(MAX_OF_ALL);
        assert!(log.is_too_much());
        log.remove(MAX_BYTES - LITTLE);
        assert!(!log.is_too_much());
        log.add(1);
        assert!(log.is_too_much());
        drop(others);
        assert!(!log.is_too_much());
    }
}
