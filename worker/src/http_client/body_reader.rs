//! The body of a response, piece by piece; silence ends it.

use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use http_body_util::BodyExt as _;
use tokio::time::timeout;

use super::{HttpFailure, causes};

pub struct BodyReader<B> {
    body: B,
    silence_timeout: Duration,
}

impl<B> BodyReader<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::error::Error,
{
    pub fn new(body: B, silence_timeout: Duration) -> Self {
        Self {
            body,
            silence_timeout,
        }
    }

    /// `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, HttpFailure> {
        self.next_within(self.silence_timeout).await
    }

    /// The same with another limit, for the first piece.
    pub async fn next_within(&mut self, limit: Duration) -> Result<Option<Bytes>, HttpFailure> {
        let piece = async {
            loop {
                match self.body.frame().await {
                    None => return Ok(None),
                    Some(Err(error)) => return Err(HttpFailure::Broken(causes(&error))),
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(data) if !data.is_empty() => return Ok(Some(data)),
                        // Trailers.
                        _ => {}
                    },
                }
            }
        };
        let piece = timeout(limit, piece).await;
        piece.map_err(|_| HttpFailure::Silence(limit))?
    }

    /// The beginning of a body that is read only to be shown: as much as there is in time,
    /// whatever becomes of the rest.
    pub async fn beginning(mut self, max: usize, within: Duration) -> Vec<u8> {
        let mut read = Vec::new();
        let reading = async {
            while read.len() < max
                && let Ok(Some(piece)) = self.next().await
            {
                let fits = piece.len().min(max - read.len());
                read.extend_from_slice(&piece[..fits]);
            }
        };
        let _ = timeout(within, reading).await;
        read
    }
}
