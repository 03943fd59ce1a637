//! The body of a request, read into memory within the budgets, or refused before it is read.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use baton_protocol::limits::MAX_MESSAGE;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{sleep, timeout};

use crate::error::GatewayError;
use crate::http::headers;
use crate::limits::InflightReservation;

/// Of a body that is refused so much is still read, and for so long: many clients read an answer
/// only when they have sent everything, and lose it if the connection is closed before.
const DISCARDED: usize = 64 << 20;
const DISCARDING: Duration = Duration::from_secs(10);
/// After so much there is a pause.
const PORTION: usize = 1 << 20;
const PAUSE: Duration = Duration::from_millis(50);

/// Reads all of it. A body that is too large is refused, and its rest discarded while the answer is
/// sent.
pub async fn read(
    headers: &HeaderMap,
    mut body: Body,
    reservation: &mut InflightReservation,
) -> Result<Bytes, GatewayError> {
    let read = collect(headers, &mut body, reservation).await;
    // A client that sent `Expect: 100-continue` sends nothing after a refusal, unless the body is
    // read.
    let asks = headers.contains_key(header::EXPECT);
    if let Err(GatewayError::TooLarge | GatewayError::Limited(_) | GatewayError::Crowded) = read
        && !asks
    {
        discard(reservation.discard_permit(), body);
    }
    read
}

async fn collect(
    headers: &HeaderMap,
    body: &mut Body,
    reservation: &mut InflightReservation,
) -> Result<Bytes, GatewayError> {
    let announced = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse().ok());
    if let Some(length) = announced {
        fits(length)?;
        reservation.resize(length)?;
    }
    let Some(first) = next(body).await? else {
        return Ok(Bytes::new());
    };
    // Nearly every message comes in one piece.
    if announced == Some(first.len()) {
        return Ok(first);
    }
    let mut bytes = Vec::with_capacity(announced.unwrap_or(first.len()));
    let mut piece = Some(first);
    while let Some(data) = piece {
        let length = bytes.len() + data.len();
        fits(length)?;
        if announced.is_none_or(|announced| length > announced) {
            reservation.resize(length)?;
        }
        bytes.extend_from_slice(&data);
        piece = next(body).await?;
    }
    Ok(bytes.into())
}

fn fits(length: usize) -> Result<(), GatewayError> {
    if length > MAX_MESSAGE {
        Err(GatewayError::TooLarge)
    } else {
        Ok(())
    }
}

/// The next piece, if there is one.
async fn next(body: &mut Body) -> Result<Option<Bytes>, GatewayError> {
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Ok(frame)) => {
                // Trailers mean nothing here.
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
            Some(Err(error)) if headers::too_slow(&error) => return Err(GatewayError::Slow),
            Some(Err(_)) => return Err(GatewayError::NotAMessage("the body ended early")),
        }
    }
}

/// Nothing is kept of it. Without a place it is dropped at once: many that are refused must not
/// cost more than they would have.
pub fn discard(permit: Option<OwnedSemaphorePermit>, mut body: Body) {
    let Some(permit) = permit else { return };
    tokio::spawn(async move {
        let _permit = permit;
        let slowly = async {
            let (mut read, mut paused) = (0, 0);
            while let Ok(Some(data)) = next(&mut body).await {
                read += data.len();
                if read > DISCARDED {
                    return;
                }
                if read - paused > PORTION {
                    paused = read;
                    sleep(PAUSE).await;
                }
            }
        };
        let _ = timeout(DISCARDING, slowly).await;
    });
}
