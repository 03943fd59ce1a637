//! The job that a driver runs against the server. One at a time, so that messages are sent in the
//! order in which they came.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::HeaderValue;
use tokio::time::{Instant, sleep, timeout};

use crate::backoff::Backoff;
use crate::delivery::{DeliveryResult, deliver};
use crate::endpoint::{Endpoint, OpenedConnection};
use crate::error::RequestFailure;
use crate::reachability::ServerReachability;

/// A first connection that does not come about is told soon: the URL may be wrong.
const FIRST_CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
const DETACH_TIMEOUT: Duration = Duration::from_secs(2);

pub type DriverJob = BoxFuture<'static, JobOutcome>;

pub enum JobOutcome {
    Opened {
        message: Bytes,
        outcome: Result<OpenedConnection, RequestFailure>,
    },
    Reopened(Result<OpenedConnection, RequestFailure>),
    Posted(OutgoingMessage, DeliveryResult),
}

/// A message on its way to the server.
pub struct OutgoingMessage {
    pub message: Bytes,
    /// Its id, if it is a request.
    pub request: Option<String>,
    /// The driver's own message, not the user's.
    pub own: bool,
}

impl OutgoingMessage {
    /// To a question that was asked again.
    pub fn answer(message: Bytes) -> Self {
        Self {
            message,
            request: None,
            own: true,
        }
    }
}

/// The connection's first `initialize`.
pub fn open(endpoint: Arc<Endpoint>, message: Bytes, give_up: Duration) -> DriverJob {
    let began = Instant::now();
    let mut backoff = Backoff::default();
    async move {
        loop {
            let outcome = endpoint.initialize(message.clone()).await;
            let (why, pause) = match &outcome {
                Err(RequestFailure::Away { why, pause, .. })
                    if began.elapsed() < give_up.min(FIRST_CONNECT_TIMEOUT) =>
                {
                    (why, *pause)
                }
                _ => return JobOutcome::Opened { message, outcome },
            };
            tracing::warn!(why, "Baton cannot be reached; trying again");
            sleep(backoff.next(pause)).await;
        }
    }
    .boxed()
}

/// Another connection, opened with the same message. If the old one is still there, it is detached.
pub fn reopen(
    endpoint: Arc<Endpoint>,
    message: Bytes,
    old: Option<HeaderValue>,
    pause: Duration,
) -> DriverJob {
    async move {
        sleep(pause).await;
        let outcome = endpoint.initialize(message).await;
        if let (Ok(_), Some(old)) = (&outcome, old) {
            let _ = timeout(DETACH_TIMEOUT, endpoint.detach(&old)).await;
        }
        JobOutcome::Reopened(outcome)
    }
    .boxed()
}

pub fn post(
    endpoint: Arc<Endpoint>,
    connection: HeaderValue,
    outgoing: OutgoingMessage,
    reachability: Arc<ServerReachability>,
    give_up: Duration,
    pause: Duration,
) -> DriverJob {
    async move {
        sleep(pause).await;
        let message = outgoing.message.clone();
        let delivery = deliver(&endpoint, &connection, message, &reachability, give_up).await;
        JobOutcome::Posted(outgoing, delivery)
    }
    .boxed()
}

/// Detaches the connection, if the server is reachable.
pub async fn detach(endpoint: &Endpoint, connection: &HeaderValue) {
    let _ = timeout(DETACH_TIMEOUT, endpoint.detach(connection)).await;
}
