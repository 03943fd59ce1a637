//! The lines of a body, one at a time.

use axum::body::{Body, BodyDataStream};
use baton_protocol::limits::MAX_MESSAGE;
use baton_session::archive::LineDigest;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;

use crate::error::GatewayError;
use crate::http::body;
use crate::http::headers;
use crate::limits::{CallerAllowance, InflightReservation};

/// Lines up to this size are not counted by the bytes that are being received.
const PORTION: usize = 64 << 10;

pub struct BodyLines {
    body: BodyDataStream,
    allowance: Option<CallerAllowance>,
    /// For the line that is being read.
    reservation: InflightReservation,
    buffer: BytesMut,
    searched: usize,
    ended: bool,
    /// Of all lines that were handed out.
    digest: LineDigest,
}

impl BodyLines {
    pub fn new(
        body: Body,
        allowance: Option<CallerAllowance>,
        reservation: InflightReservation,
    ) -> Self {
        Self {
            body: body.into_data_stream(),
            allowance,
            reservation,
            buffer: BytesMut::new(),
            searched: 0,
            ended: false,
            digest: LineDigest::default(),
        }
    }

    /// Of all lines so far.
    pub fn digest(&self) -> LineDigest {
        self.digest.clone()
    }

    /// The rest is not wanted. It is read all the same while the answer is sent: a client that is
    /// still sending would lose that.
    pub fn discard(&mut self) {
        if self.ended {
            return;
        }
        let nothing = Body::empty().into_data_stream();
        let body = std::mem::replace(&mut self.body, nothing);
        body::discard(self.reservation.discard_permit(), Body::from_stream(body));
    }

    pub async fn next(&mut self) -> Result<Option<Bytes>, GatewayError> {
        let line = self.read().await?;
        if let Some(line) = &line {
            self.digest.add(line);
        }
        Ok(line)
    }

    async fn read(&mut self) -> Result<Option<Bytes>, GatewayError> {
        self.reservation.shrink(self.buffer.len());
        loop {
            let unsearched = &self.buffer[self.searched..];
            if let Some(at) = unsearched.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(self.searched + at + 1);
                self.searched = 0;
                return Ok(Some(line.freeze()));
            }
            self.searched = self.buffer.len();
            if self.ended {
                let rest = self.buffer.split().freeze();
                self.searched = 0;
                return Ok((!rest.is_empty()).then_some(rest));
            }
            // A line holds a message and little more.
            if self.buffer.len() > MAX_MESSAGE * 2 {
                return Err(GatewayError::TooLarge);
            }
            match self.body.next().await {
                Some(Ok(data)) => {
                    if let Some(allowance) = &self.allowance {
                        allowance.receive_slowly(data.len()).await;
                    }
                    let needed = self.buffer.len() + data.len();
                    if needed > PORTION {
                        self.reservation.resize(needed)?;
                    }
                    self.buffer.extend_from_slice(&data);
                }
                Some(Err(error)) if headers::too_slow(&error) => return Err(GatewayError::Slow),
                Some(Err(_)) => return Err(GatewayError::Archive("the body ended early".into())),
                None => self.ended = true,
            }
        }
    }
}
