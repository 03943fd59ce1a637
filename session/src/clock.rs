//! Wall-clock time, for what outlives the process. Leases are judged by the monotonic clock.

use std::time::{SystemTime, UNIX_EPOCH};

pub fn unix_millis() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}

pub fn unix_seconds() -> u64 {
    unix_millis() / 1000
}
