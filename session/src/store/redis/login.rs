//! How to log in at a server, and at others by the same rules: their addresses become known later.

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, RedisError, TlsCertificates,
};

use super::servers::ServerAddress;

#[derive(Clone)]
pub(super) struct ServerLogin {
    info: ConnectionInfo,
    certificates: Option<TlsCertificates>,
}

impl ServerLogin {
    pub fn new(info: ConnectionInfo, certificates: Option<TlsCertificates>) -> Self {
        Self { info, certificates }
    }

    pub fn address(&self) -> ServerAddress {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                (host.clone(), *port)
            }
            other => (other.to_string(), 0),
        }
    }

    /// The same at another address.
    pub fn at(&self, (host, port): &ServerAddress) -> Self {
        let addr = match self.info.addr() {
            ConnectionAddr::TcpTls {
                insecure,
                tls_params,
                ..
            } => ConnectionAddr::TcpTls {
                host: host.clone(),
                port: *port,
                insecure: *insecure,
                tls_params: tls_params.clone(),
            },
            _ => ConnectionAddr::Tcp(host.clone(), *port),
        };
        Self::new(self.info.clone().set_addr(addr), self.certificates.clone())
    }

    pub async fn dial(
        &self,
        config: &AsyncConnectionConfig,
    ) -> Result<MultiplexedConnection, RedisError> {
        let client = self.client()?;
        client
            .get_multiplexed_async_connection_with_config(config)
            .await
    }

    /// Fails if the certificates cannot be read.
    pub fn check(&self) -> Result<(), RedisError> {
        self.client().map(drop)
    }

    fn client(&self) -> Result<Client, RedisError> {
        let info = self.info.clone();
        match (&self.certificates, info.addr()) {
            (Some(certificates), ConnectionAddr::TcpTls { .. }) => {
                Client::build_with_tls(info, certificates.clone())
            }
            _ => Client::open(info),
        }
    }

    #[cfg(test)]
    pub fn info(&self) -> &ConnectionInfo {
        &self.info
    }
}
