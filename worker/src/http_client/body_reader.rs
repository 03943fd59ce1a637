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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::{StreamExt as _, stream};
    use http_body::Frame;
    use http_body_util::StreamBody;
    use tokio::time::sleep;

    use super::*;

    /// Pieces, each after a pause of so many seconds.
    fn body(
        pieces: &'static [(u64, &'static str)],
    ) -> impl Body<Data = Bytes, Error = Infallible> + Unpin {
        let pieces = stream::iter(pieces).then(|(pause, piece)| async move {
            sleep(Duration::from_secs(*pause)).await;
            Ok(Frame::data(Bytes::from_static(piece.as_bytes())))
        });
        StreamBody::new(Box::pin(pieces))
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_measured_between_bytes() {
        let pieces = &[(9, "a"), (0, ""), (9, "b"), (0, ""), (11, "c")];
        let mut reader = BodyReader::new(body(pieces), Duration::from_secs(10));
        assert_eq!(reader.next().await, Ok(Some(Bytes::from_static(b"a"))));
        assert_eq!(reader.next().await, Ok(Some(Bytes::from_static(b"b"))));
        let silence = HttpFailure::Silence(Duration::from_secs(10));
        assert_eq!(reader.next().await, Err(silence));
    }

    #[tokio::test(start_paused = true)]
    async fn a_beginning_is_bounded_in_bytes_and_time() {
        let second = Duration::from_secs(1);
        let pieces = &[(0, "abc"), (0, "def"), (5, "ghi")];
        let reader = || BodyReader::new(body(pieces), Duration::from_secs(60));
        assert_eq!(reader().beginning(5, second).await, b"abcde");
        assert_eq!(reader().beginning(50, second).await, b"abcdef");
        assert_eq!(reader().beginning(50, second * 9).await, b"abcdefghi");
    }
}
