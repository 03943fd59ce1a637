//! Checks of the machine's limits.

use std::net::SocketAddr;

use super::Finding;
use crate::descriptors;

/// A process that has fewer serves a test, not many users.
const FEW_CONNECTIONS: u64 = 1_000;

/// As many as the process can allow itself.
pub fn open_files() -> Finding {
    const SUBJECT: &str = "open files";
    let (limit, connections) = (descriptors::limit(), descriptors::for_connections());
    let room = format!("{limit} allowed: room for {connections} connections");
    if connections < FEW_CONNECTIONS {
        Finding::warn(
            SUBJECT,
            format!(
                "{room}. Raise the hard limit: LimitNOFILE= in a systemd unit, --ulimit nofile= \
                 for a container, `ulimit -Hn` in a shell"
            ),
        )
    } else {
        Finding::ok(SUBJECT, room)
    }
}

/// Taken and given back at once.
pub fn port(option: &str, address: SocketAddr) -> Finding {
    const SUBJECT: &str = "port";
    match baton_gateway::listen(address) {
        Ok(_) => Finding::ok(SUBJECT, format!("{address} is free")),
        Err(error) => Finding::fail(
            SUBJECT,
            format!(
                "{address}: {error}. Stop the process that listens there (`ss -ltnp` names it), \
                 or choose another address with {option}"
            ),
        ),
    }
}
