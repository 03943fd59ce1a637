//! How many descriptors this process may have. Each connection takes one, and so do files,
//! connections to Redis and agents.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Where the system has no limit.
const MOST: u64 = 1 << 20;
/// More than these are not kept back for what is no connection.
const RESERVE: u64 = 4096;

/// As many as the process may allow itself: shells and service managers often start it with 1,024.
pub fn raise() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "could not raise the limit of descriptors");
    }
}

pub fn limit() -> u64 {
    let limit = getrlimit(Resource::Nofile).current;
    limit.unwrap_or(MOST).min(MOST)
}

/// Descriptors for client connections: the rest is for files, Redis and agents, so that keys are
/// read again and sessions go on, however many connect.
pub fn for_connections() -> u64 {
    let limit = limit();
    limit - (limit / 4).min(RESERVE)
}
