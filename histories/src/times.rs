use std::time::{Duration, UNIX_EPOCH};

/// In milliseconds since 1970; 0 if it is no time.
pub fn millis(timestamp: &str) -> u64 {
    let time = humantime::parse_rfc3339(timestamp).ok();
    let time = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    time.map_or(0, |time| time.as_millis() as u64)
}

/// Seconds since 1970 as a time; empty if they are none.
pub fn text(seconds: u64) -> String {
    // Years have four digits.
    const LAST: u64 = 253_402_300_799;
    if seconds > LAST {
        return String::new();
    }
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds)).to_string()
}
