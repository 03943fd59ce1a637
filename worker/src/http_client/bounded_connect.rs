//! A connection that is made in time, its TLS handshake included. The HTTP stack itself bounds
//! only the socket's part.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use thiserror::Error as DeriveError;
use tokio::time::timeout;
use tower_service::Service;

#[derive(Clone)]
pub struct BoundedConnect<C> {
    connector: C,
    limit: Duration,
}

#[derive(Debug, DeriveError)]
#[error("no connection in time")]
struct ConnectTooSlow;

type BoxedError = Box<dyn Error + Send + Sync>;

impl<C> BoundedConnect<C> {
    pub fn new(connector: C, limit: Duration) -> Self {
        Self { connector, limit }
    }
}

impl<C> Service<Uri> for BoundedConnect<C>
where
    C: Service<Uri>,
    C::Future: Send + 'static,
    C::Error: Into<BoxedError>,
{
    type Response = C::Response;
    type Error = BoxedError;
    type Future = Pin<Box<dyn Future<Output = Result<C::Response, BoxedError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxedError>> {
        self.connector.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, url: Uri) -> Self::Future {
        let connecting = self.connector.call(url);
        let limit = self.limit;
        Box::pin(async move {
            match timeout(limit, connecting).await {
                Ok(connected) => connected.map_err(Into::into),
                Err(_) => Err(ConnectTooSlow.into()),
            }
        })
    }
}

/// Whether an error came from a limit of connecting: this one, or the socket's own.
pub fn is_timeout(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<std::io::Error>();
        if error.is::<ConnectTooSlow>()
            || io.is_some_and(|io| io.kind() == std::io::ErrorKind::TimedOut)
        {
            return true;
        }
        cause = error.source();
    }
    false
}
