//! Options of the store on Redis.

use super::servers::RedisServers;
use crate::metrics::StoreMetrics;

/// Where Redis is, and how it is used.
#[derive(Clone)]
pub struct RedisOptions {
    /// `redis://`, `redis+cluster://` or `redis+sentinel://`, or the same with `rediss` for TLS.
    pub url: String,
    /// First part of every key.
    pub namespace: String,
    /// Certificates to trust, in PEM, instead of the system's.
    pub ca: Option<Vec<u8>>,
    pub durability: Durability,
    /// Every step is tried with each of its commands failing, one try after the other, before it is
    /// taken: what a try has left behind must not matter.
    #[cfg(feature = "conformance")]
    pub fails_halfway: bool,
    /// Counts how it goes.
    pub metrics: StoreMetrics,
}

/// When a step that must not vanish counts as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Redis has it.
    #[default]
    Fast,
    /// A replica has it, too: a failover loses nothing that was answered.
    Replicated,
}

impl RedisOptions {
    pub fn new(url: &str, namespace: &str) -> Self {
        Self {
            url: url.to_owned(),
            namespace: namespace.to_owned(),
            ca: None,
            durability: Durability::default(),
            #[cfg(feature = "conformance")]
            fails_halfway: false,
            metrics: StoreMetrics::default(),
        }
    }

    /// Checks the URL and the certificates. The error names no password.
    pub fn check(&self) -> Result<(), String> {
        RedisServers::parse(&self.url, self.ca.as_deref()).map(drop)
    }
}
