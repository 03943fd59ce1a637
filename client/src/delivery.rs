//! A message is handed over, as often as it takes. The server knows a request that it has seen
//! before by its connection and id; a cancel or an answer that comes twice changes nothing.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use tokio::time::{Instant, sleep};

use crate::backoff::Backoff;
use crate::endpoint::Endpoint;
use crate::error::RequestFailure;
use crate::reachability::ServerReachability;

/// How handing over ended.
pub struct DeliveryResult {
    pub outcome: Result<(), RequestFailure>,
    /// It may have arrived, whatever the outcome says.
    pub doubtful: bool,
}

/// Tries until the message is stored or turned down, or the server has been away for `give_up`.
pub async fn deliver(
    endpoint: &Endpoint,
    connection: &HeaderValue,
    message: Bytes,
    reachability: &ServerReachability,
    give_up: Duration,
) -> DeliveryResult {
    let began = Instant::now();
    let mut backoff = Backoff::default();
    let mut doubtful = false;
    loop {
        let outcome = endpoint.post(connection, message.clone()).await;
        if outcome.is_ok() {
            reachability.mark_answered();
        }
        let Err(RequestFailure::Away {
            why,
            pause,
            unconnected,
        }) = &outcome
        else {
            return DeliveryResult { outcome, doubtful };
        };
        doubtful |= !unconnected;
        // Streams may still hear of a server that takes nothing any more.
        if began.elapsed().max(reachability.away()) >= give_up {
            return DeliveryResult { outcome, doubtful };
        }
        tracing::debug!(%why, "message not delivered; trying again");
        sleep(backoff.next(*pause)).await;
    }
}
