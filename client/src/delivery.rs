//! A message is handed over, as often as it takes. The server knows a request that it has seen before by its
//! connection and id; a cancel or an answer that comes twice changes nothing.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use tokio::time::{Instant, sleep};

use crate::backoff::Backoff;
use crate::contact::Contact;
use crate::endpoint::Endpoint;
use crate::error::Failure;

/// How handing over ended.
pub struct Delivery {
    pub outcome: Result<(), Failure>,
    /// It may have arrived, whatever the outcome says.
    pub doubtful: bool,
}

/// Tries until the message is stored or turned down, or the server has been away for `give_up`.
pub async fn deliver(
    endpoint: &Endpoint,
    connection: &HeaderValue,
    message: Bytes,
    contact: &Contact,
    give_up: Duration,
) -> Delivery {
    let began = Instant::now();
    let mut backoff = Backoff::default();
    let mut doubtful = false;
    loop {
        let outcome = endpoint.post(connection, message.clone()).await;
        if outcome.is_ok() {
            contact.made();
        }
        let Err(Failure::Away {
            why,
            pause,
            unconnected,
        }) = &outcome
        else {
            return Delivery { outcome, doubtful };
        };
        doubtful |= !unconnected;
        // Streams may still hear of a server that takes nothing any more.
        if began.elapsed().max(contact.away()) >= give_up {
            return Delivery { outcome, doubtful };
        }
        tracing::debug!(%why, "message not delivered; trying again");
        sleep(backoff.next(*pause)).await;
    }
}
