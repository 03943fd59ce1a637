//! How bytes get here, and what is believed about where they come from.

use std::time::Duration;

use crate::net::connection_limits::ConnectionLimits;
use crate::net::proxies::TrustedProxies;
use crate::net::tls::TlsCertificate;

#[derive(Clone, Debug)]
pub struct TransportConfig {
    /// Shown to clients; without it nothing is encrypted here.
    pub tls: Option<TlsCertificate>,
    /// Proxies that are trusted about client addresses.
    pub proxies: TrustedProxies,
    /// Callers bring credentials, which must not have come in clear text.
    pub private_only: bool,
    /// How long a client may take for a handshake, for the head of a request, and for each next
    /// piece of its body.
    pub request_timeout: Duration,
    /// How many connections there may be.
    pub connections: ConnectionLimits,
}

impl Default for TransportConfig {
    fn default() -> Self {
        Self {
            tls: None,
            proxies: TrustedProxies::default(),
            private_only: false,
            request_timeout: Duration::from_secs(30),
            connections: ConnectionLimits::default(),
        }
    }
}
