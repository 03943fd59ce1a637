//! Options for what one caller may take.

use std::num::NonZeroU64;

use baton_gateway::limits::{DEFAULT_INFLIGHT, LEAST_INFLIGHT, Limits, Rate};
use clap::Args;

/// Each is off unless it is given.
#[derive(Args)]
pub struct LimitOptions {
    /// Requests of one caller: by the second, or by another time as in 600/1m
    #[arg(long, env = "BATON_LIMIT_REQUESTS", value_name = "RATE")]
    limit_requests: Option<String>,
    /// Bytes received of one caller: by the second, or by another time
    #[arg(long, env = "BATON_LIMIT_BYTES", value_name = "RATE")]
    limit_bytes: Option<String>,
    /// Streams that one caller may have open here
    #[arg(long, env = "BATON_LIMIT_STREAMS", value_name = "N")]
    limit_streams: Option<u64>,
    /// Sessions that one caller may have
    #[arg(long, env = "BATON_LIMIT_SESSIONS", value_name = "N")]
    limit_sessions: Option<u64>,
    /// Sessions of one caller that may work or wait for a worker
    #[arg(long, env = "BATON_LIMIT_TURNS", value_name = "N")]
    limit_turns: Option<u64>,
    /// Bytes that may be kept of one caller's sessions
    #[arg(long, env = "BATON_LIMIT_STORAGE", value_name = "BYTES")]
    limit_storage: Option<u64>,
    /// Bytes of messages that may be received at once, of all callers; one caller may take a quarter
    #[arg(
        long,
        env = "BATON_MAX_INFLIGHT_BYTES",
        default_value_t = DEFAULT_INFLIGHT,
        value_name = "BYTES"
    )]
    pub max_inflight_bytes: u64,
}

impl LimitOptions {
    /// The limits, and every fault.
    pub fn limits(&self) -> (Limits, Vec<String>) {
        let mut faults = Vec::new();
        let limits = Limits {
            requests: rate(
                "--limit-requests",
                self.limit_requests.as_deref(),
                &mut faults,
            ),
            bytes: rate("--limit-bytes", self.limit_bytes.as_deref(), &mut faults),
            streams: count("--limit-streams", self.limit_streams, &mut faults),
            sessions: count("--limit-sessions", self.limit_sessions, &mut faults),
            turns: count("--limit-turns", self.limit_turns, &mut faults),
            storage: count("--limit-storage", self.limit_storage, &mut faults),
        };
        let inflight = self.max_inflight_bytes;
        if inflight < LEAST_INFLIGHT {
            faults.push(format!(
                "--max-inflight-bytes {inflight}: must be {LEAST_INFLIGHT} or more, so that large messages fit"
            ));
        }
        (limits, faults)
    }
}

fn rate(option: &str, given: Option<&str>, faults: &mut Vec<String>) -> Option<Rate> {
    let given = given?;
    let read = given
        .parse()
        .map_err(|fault| format!("{option} {given}: {fault}"));
    read.map_err(|fault| faults.push(fault)).ok()
}

fn count(option: &str, given: Option<u64>, faults: &mut Vec<String>) -> Option<NonZeroU64> {
    let read = NonZeroU64::new(given?);
    if read.is_none() {
        faults.push(format!(
            "{option} 0: must be 1 or more; leave it out for no limit"
        ));
    }
    read
}
