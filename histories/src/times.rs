use std::time::UNIX_EPOCH;

/// In milliseconds since 1970; 0 if it is no time.
pub fn millis(timestamp: &str) -> u64 {
    let time = humantime::parse_rfc3339(timestamp).ok();
    let time = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    time.map_or(0, |time| time.as_millis() as u64)
}
