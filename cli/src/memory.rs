//! The allocator, and what it gives back to the system.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Many small messages of different ages: the system's allocator takes a fifth more CPU for them
/// (measured with loadtests/bench). Not in huge pages (`no_thp`): of the buffers of an idle
/// connection most is never touched, and would be resident all the same.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A thread gives back no more often than this.
const PAUSE: Duration = Duration::from_millis(200);

thread_local! {
    static LAST: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Gives back what this thread has freed. The allocator does so only while a thread allocates:
/// without this a process that comes to rest after large messages keeps their memory. For a thread
/// that is about to wait.
pub fn give_back() {
    let now = Instant::now();
    let is_due = |last: Instant| now.duration_since(last) >= PAUSE;
    if LAST.get().is_none_or(is_due) {
        LAST.set(Some(now));
        collect();
    }
}

#[allow(unsafe_code)]
fn collect() {
    // SAFETY: it has no preconditions, and works on the calling thread's own heap.
    unsafe { libmimalloc_sys::mi_collect(false) }
}
