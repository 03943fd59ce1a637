//! How bytes get here, and what is believed about where they come from.

use std::time::Duration;

use crate::connections::ConnectionLimits;
use crate::edge::proxies::Proxies;
use crate::tls::Tls;

#[derive(Clone, Debug)]
pub struct Transport {
    /// Shown to clients; without it nothing is encrypted here.
    pub tls: Option<Tls>,
    /// Proxies that are trusted about client addresses.
    pub proxies: Proxies,
    /// Callers bring credentials, which must not have come in clear text.
    pub private_only: bool,
    /// How long a client may take for a handshake, for the head of a request, and for each next
    /// piece of its body.
    pub request_timeout: Duration,
    /// How many connections there may be.
    pub connections: ConnectionLimits,
}

impl Default for Transport {
    fn default() -> Self {
        Self {
            tls: None,
            proxies: Proxies::default(),
            private_only: false,
            request_timeout: Duration::from_secs(30),
            connections: ConnectionLimits::default(),
        }
    }
}
