//! Options for what one caller may take.

use std::num::NonZeroU64;

use baton_gateway::limits::{CallerLimits, DEFAULT_INFLIGHT, LEAST_INFLIGHT, RateLimit};
use clap::Args;

use crate::headings::LIMITS;

/// Each is off unless it is given.
#[derive(Args)]
pub struct LimitOptions {
    /// Requests per caller: per second, or per another time as in 600/1m
    ///
    /// No limit without this option.
    #[arg(long, env = "BATON_LIMIT_REQUESTS", value_name = "RATE", help_heading = LIMITS)]
    limit_requests: Option<String>,
    /// Bytes received per caller: per second, or per another time
    ///
    /// No limit without this option.
    #[arg(long, env = "BATON_LIMIT_BYTES", value_name = "RATE", help_heading = LIMITS)]
    limit_bytes: Option<String>,
    /// Open streams per caller, on this process
    ///
    /// No limit without this option.
    #[arg(long, env = "BATON_LIMIT_STREAMS", value_name = "N", help_heading = LIMITS)]
    limit_streams: Option<u64>,
    /// Sessions per caller
    ///
    /// No limit without this option.
    #[arg(long, env = "BATON_LIMIT_SESSIONS", value_name = "N", help_heading = LIMITS)]
    limit_sessions: Option<u64>,
    /// Sessions per caller that run a turn or wait for a worker
    ///
    /// No limit without this option.
    #[arg(long, env = "BATON_LIMIT_TURNS", value_name = "N", help_heading = LIMITS)]
    limit_turns: Option<u64>,
    /// Stored bytes per caller, of all its sessions
    ///
    /// No limit without this option.
    #[arg(long, env = "BATON_LIMIT_STORAGE", value_name = "BYTES", help_heading = LIMITS)]
    limit_storage: Option<u64>,
    /// Bytes of messages that are received at the same time
    ///
    /// Of all callers together. One caller may use a quarter of it.
    #[arg(
        long,
        env = "BATON_MAX_INFLIGHT_BYTES",
        default_value_t = DEFAULT_INFLIGHT,
        value_name = "BYTES",
        help_heading = LIMITS
    )]
    pub max_inflight_bytes: u64,
}

impl LimitOptions {
    /// The limits, and every fault.
    pub fn limits(&self) -> (CallerLimits, Vec<String>) {
        let mut faults = Vec::new();
        let limits = CallerLimits {
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
                "--max-inflight-bytes {inflight}: must be {LEAST_INFLIGHT} or more, so that large \
                 messages fit"
            ));
        }
        (limits, faults)
    }
}

fn rate(option: &str, given: Option<&str>, faults: &mut Vec<String>) -> Option<RateLimit> {
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
