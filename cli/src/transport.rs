//! Options about how bytes get to a gateway.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use baton_gateway::ConnectionLimits;
use baton_gateway::net::proxies::TrustedProxies;
use baton_gateway::net::tls::TlsCertificate;
use baton_gateway::net::transport::TransportConfig;
use clap::Args;

use crate::descriptors;
use crate::headings::{LIMITS, NETWORK};

#[derive(Args)]
pub struct TransportOptions {
    /// TLS certificate with its chain, in PEM
    ///
    /// Changes of the file take effect without a restart.
    #[arg(long, env = "BATON_TLS_CERT", value_name = "FILE", help_heading = NETWORK)]
    tls_cert: Option<PathBuf>,
    /// Private key of the TLS certificate, in PEM
    #[arg(long, env = "BATON_TLS_KEY", value_name = "FILE", help_heading = NETWORK)]
    tls_key: Option<PathBuf>,
    /// Proxies whose forwarding headers are trusted, such as 10.0.0.0/8
    ///
    /// Networks or single addresses. The client address and scheme that such a proxy reports are
    /// taken as true.
    #[arg(
        long,
        env = "BATON_TRUST_PROXY",
        value_delimiter = ',',
        value_name = "NETWORKS",
        help_heading = NETWORK
    )]
    trust_proxy: Vec<String>,
    /// Milliseconds for a request head, and for each next part of a body
    #[arg(
        long,
        env = "BATON_REQUEST_TIMEOUT_MS",
        default_value_t = 30_000,
        value_name = "MS",
        help_heading = LIMITS
    )]
    request_timeout_ms: u64,
    /// Maximum number of client connections
    ///
    /// A further connection closes the one that has been idle longest. The default follows from the
    /// limit of open files.
    #[arg(long, env = "BATON_MAX_CONNECTIONS", value_name = "N", help_heading = LIMITS)]
    max_connections: Option<u64>,
    /// Maximum number of connections per address, or per IPv6 /64
    ///
    /// Does not apply to trusted proxies. The default is half of --max-connections, or all of them
    /// on a loopback address.
    #[arg(long, env = "BATON_MAX_CONNECTIONS_PER_ADDRESS", value_name = "N", help_heading = LIMITS)]
    max_connections_per_address: Option<u64>,
}

/// The parts of the command line that transport options depend on.
pub struct TransportContext {
    pub listen: SocketAddr,
    /// Callers bring credentials.
    pub asks: bool,
    pub insecure: bool,
}

impl TransportOptions {
    pub fn kept(&self) -> Option<PathBuf> {
        self.tls_key.clone()
    }

    /// How requests come in, and every fault.
    pub fn transport(&self, setting: &TransportContext) -> (TransportConfig, Vec<String>) {
        let mut faults = Vec::new();
        let tls = self.tls().unwrap_or_else(|fault| {
            faults.push(fault);
            None
        });
        let proxies = TrustedProxies::parse(&self.trust_proxy).unwrap_or_else(|wrong| {
            faults.extend(wrong.iter().map(|fault| format!("--trust-proxy {fault}")));
            TrustedProxies::default()
        });
        if proxies.are_everybody() && !setting.insecure {
            faults.push(
                "--trust-proxy: anybody could pretend to be anybody. Name the networks that your \
                 proxies are in, or say --insecure"
                    .into(),
            );
        }
        let given = self.request_timeout_ms;
        if !(1_000..=600_000).contains(&given) {
            faults.push(format!(
                "--request-timeout-ms {given}: must be between 1000 and 600000"
            ));
        }
        // Invalid options have been reported already.
        let in_clear = self.tls_cert.is_none() && self.tls_key.is_none();
        let listen = setting.listen;
        if setting.asks
            && in_clear
            && self.trust_proxy.is_empty()
            && !listen.ip().is_loopback()
            && !setting.insecure
        {
            faults.push(format!(
                "--listen {listen} without TLS: credentials could be read on their way. Give \
                 --tls-cert and --tls-key, name the proxies that end TLS with --trust-proxy, \
                 listen on 127.0.0.1, or say --insecure"
            ));
        }
        let transport = TransportConfig {
            private_only: setting.asks && !proxies.is_empty() && !setting.insecure,
            tls,
            proxies,
            request_timeout: Duration::from_millis(given),
            connections: self.connections(setting, &mut faults),
        };
        (transport, faults)
    }

    fn connections(
        &self,
        setting: &TransportContext,
        faults: &mut Vec<String>,
    ) -> ConnectionLimits {
        let most = descriptors::for_connections();
        let total = self.max_connections.unwrap_or(most);
        if !(1..=most).contains(&total) {
            let limit = descriptors::limit();
            faults.push(format!(
                "--max-connections {total}: must be between 1 and {most}, as the process may have \
                 {limit} descriptors (ulimit -n) and needs some for files and Redis"
            ));
        }
        // From this machine alone everybody has the same address.
        let share = if setting.listen.ip().is_loopback() {
            total
        } else {
            total.div_ceil(2)
        };
        let per_address = self.max_connections_per_address.unwrap_or(share);
        if !(1..=total.max(1)).contains(&per_address) {
            faults.push(format!(
                "--max-connections-per-address {per_address}: must be between 1 and {total}, the \
                 connections in all"
            ));
        }
        ConnectionLimits {
            total: total as usize,
            per_address: per_address as usize,
        }
    }

    /// Others may be let in by whoever listens before us.
    pub fn is_behind_proxies(&self) -> bool {
        !self.trust_proxy.is_empty()
    }

    fn tls(&self) -> Result<Option<TlsCertificate>, String> {
        match (&self.tls_cert, &self.tls_key) {
            (None, None) => Ok(None),
            (Some(certificate), Some(key)) => TlsCertificate::open(certificate, key)
                .map(Some)
                .map_err(|fault| format!("--tls-cert and --tls-key: {fault}")),
            (Some(_), None) => Err("--tls-cert needs --tls-key FILE, the certificate's key".into()),
            (None, Some(_)) => Err("--tls-key needs --tls-cert FILE, the key's certificate".into()),
        }
    }
}
