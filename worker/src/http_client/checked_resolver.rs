//! Names become addresses that a connection may go to: whoever named the host does not decide where
//! its name leads by the time of the connection.

use std::fmt::{self, Debug, Formatter};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tower_service::Service;

/// Where connections may go.
#[derive(Clone, Default)]
pub enum AddressRule {
    #[default]
    Anywhere,
    Where(Arc<dyn Fn(IpAddr) -> bool + Send + Sync>),
}

impl AddressRule {
    fn admits(&self, address: IpAddr) -> bool {
        match self {
            Self::Anywhere => true,
            Self::Where(admits) => admits(address),
        }
    }
}

impl Debug for AddressRule {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Anywhere => "Anywhere",
            Self::Where(_) => "Where",
        })
    }
}

#[derive(Clone)]
pub struct CheckedResolver {
    resolver: GaiResolver,
    rule: AddressRule,
}

impl CheckedResolver {
    pub fn new(rule: AddressRule) -> Self {
        Self {
            resolver: GaiResolver::new(),
            rule,
        }
    }
}

impl Service<Name> for CheckedResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.resolver.poll_ready(context)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let rule = self.rule.clone();
        let found = self.resolver.call(name);
        Box::pin(async move {
            let admitted: Vec<_> = found.await?.filter(|it| rule.admits(it.ip())).collect();
            if admitted.is_empty() {
                let why = "the name leads to no address that is allowed";
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
            }
            Ok(admitted.into_iter())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn resolved(rule: AddressRule) -> io::Result<Vec<SocketAddr>> {
        let name = "localhost".parse().expect("a name");
        let found = CheckedResolver::new(rule).call(name).await?;
        Ok(found.collect())
    }

    #[tokio::test]
    async fn only_addresses_that_are_admitted_are_found() {
        let all = resolved(AddressRule::Anywhere).await.expect("it is known");
        assert!(all.iter().all(|it| it.ip().is_loopback()));
        let public = AddressRule::Where(Arc::new(|it: IpAddr| !it.is_loopback()));
        let refused = resolved(public).await.expect_err("it is refused");
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    }
}
