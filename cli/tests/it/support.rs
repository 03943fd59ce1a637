//! What the tests are made of: processes that end with the test, and a client that sees every byte.

pub mod auth;
pub mod balancer;
pub mod clock;
pub mod cluster;
pub mod collector;
pub mod http;
pub mod mcp;
pub mod metrics;
pub mod model_server;
pub mod nodes;
pub mod process;
pub mod proxy;
pub mod schema;
pub mod sse;
pub mod tls;
pub mod websocket;

pub use cluster::{Cluster, Redis, Served};
pub use collector::Collector;
pub use http::Client;
pub use sse::{Event, Stream};

use std::future::Future;
use std::time::Duration;

/// Everything is bounded: a hang is a failure with a name. Not a measurement.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("gave up waiting: {what}"),
    }
}

/// Repeats until there is something.
pub async fn until<T, F: Future<Output = Option<T>>>(what: &str, attempt: impl Fn() -> F) -> T {
    within(what, async {
        loop {
            if let Some(value) = attempt().await {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
}
