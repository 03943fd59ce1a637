//! A connection whose bytes are counted as they are read: for the clock of [`HeaderTimeout`], and
//! once it is a WebSocket for the budget of what is being received, since a message is gathered
//! below us.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::limits::InflightReservation;
use crate::net::header_timeout::HeaderTimeout;
use baton_session::sync::MutexExt as _;

/// Messages up to this size are not worth counting.
const SMALL: usize = 16 << 10;
/// Bytes that are reserved at once.
const STEP: usize = 64 << 10;
/// The head of a client's control frame: kind, length and mask.
const CONTROL_HEAD: usize = 6;

pub struct MeteredStream<S> {
    pub stream: S,
    pub header_timeout: HeaderTimeout,
    pub gauge: MessageGauge,
}

/// The received part of an incomplete WebSocket message.
#[derive(Clone, Default)]
pub struct MessageGauge(Arc<GaugeState>);

#[derive(Default)]
struct GaugeState {
    on: AtomicBool,
    refused: AtomicBool,
    message: Mutex<Option<PartialMessage>>,
}

struct PartialMessage {
    reservation: InflightReservation,
    read: usize,
}

impl MessageGauge {
    /// From here on it is a WebSocket.
    pub fn start(&self, reservation: InflightReservation) {
        let message = PartialMessage {
            reservation,
            read: 0,
        };
        *self.0.message.locked() = Some(message);
        self.0.on.store(true, Ordering::Release);
    }

    /// A message is complete and dealt with.
    pub fn done(&self) {
        if let Some(message) = &mut *self.0.message.locked() {
            message.read = 0;
            message.reservation.shrink(0);
        }
    }

    /// A ping or pong with so much in it was read. It is part of no message: a client that only
    /// reads answers pings for days, and must not be charged for them.
    pub fn skip_control_frame(&self, payload: usize) {
        if let Some(message) = &mut *self.0.message.locked() {
            message.read = message.read.saturating_sub(payload + CONTROL_HEAD);
            message.reservation.shrink(needed(message.read));
        }
    }

    /// There was no room for a message, and the connection is cut.
    pub fn has_refused(&self) -> bool {
        self.0.refused.load(Ordering::Relaxed)
    }

    fn count(&self, bytes: usize) -> io::Result<()> {
        if !self.0.on.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut message = self.0.message.locked();
        let Some(message) = &mut *message else {
            return Ok(());
        };
        message.read += bytes;
        if message.read <= SMALL {
            return Ok(());
        }
        message
            .reservation
            .resize(needed(message.read))
            .map_err(|_| {
                self.0.refused.store(true, Ordering::Relaxed);
                io::Error::other("too much is being received at once")
            })
    }
}

/// Room for a message of which so much was read.
fn needed(read: usize) -> usize {
    if read <= SMALL {
        0
    } else {
        read.next_multiple_of(STEP)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MeteredStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let bytes = buffer.filled().len() - before;
        if bytes > 0 {
            self.header_timeout.count(bytes);
            self.gauge.count(bytes)?;
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MeteredStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{InflightBudget, LEAST_INFLIGHT};

    #[test]
    fn f6_pongs_take_nothing_of_the_budget_and_hide_nothing() {
        let budget = InflightBudget::new(LEAST_INFLIGHT, true);
        let gauge = MessageGauge::default();
        gauge.start(budget.of(&"a".into()));
        for _ in 0..LEAST_INFLIGHT {
            gauge.count(CONTROL_HEAD + 4).expect("a pong");
            gauge.skip_control_frame(4);
        }
        // All of it is there for another message.
        let most = (LEAST_INFLIGHT - LEAST_INFLIGHT / 8) as usize;
        assert!(budget.of(&"a".into()).resize(most).is_ok());
        // A message in pieces is counted, whatever comes between them.
        let refused = (0..64).any(|_| {
            let counted = gauge.count((1 << 20) + CONTROL_HEAD);
            gauge.skip_control_frame(0);
            counted.is_err()
        });
        assert!(refused && gauge.has_refused());
    }
}
