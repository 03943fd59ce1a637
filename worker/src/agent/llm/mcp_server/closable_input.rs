//! The input of an MCP server that can be closed while something is being written to it: a server
//! that does not read must not keep its own input open.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

pub struct ClosableInput<W> {
    /// `None` once it is closed.
    input: Option<W>,
    closed: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl<W> ClosableInput<W> {
    pub fn new(input: W, closed: CancellationToken) -> Self {
        Self {
            input: Some(input),
            closed: Box::pin(closed.cancelled_owned()),
        }
    }

    /// The input, if it is open; otherwise it is gone from here on.
    fn open(&mut self, context: &mut Context<'_>) -> io::Result<Pin<&mut W>>
    where
        W: Unpin,
    {
        if self.closed.as_mut().poll(context).is_ready() {
            self.input = None;
        }
        let input = self.input.as_mut().map(Pin::new);
        input.ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for ClosableInput<W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.open(context) {
            Ok(input) => input.poll_write(context, bytes),
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.open(context) {
            Ok(input) => input.poll_flush(context),
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.open(context) {
            Ok(input) => input.poll_shutdown(context),
            // It is closed.
            Err(_) => Poll::Ready(Ok(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn a_write_that_nobody_reads_ends_when_the_input_is_closed() {
        let (writer, mut reader) = tokio::io::duplex(8);
        let closed = CancellationToken::new();
        let mut input = ClosableInput::new(writer, closed.clone());
        input.write_all(b"12345678").await.expect("there is room");
        let blocked = tokio::spawn(async move {
            let outcome = input.write_all(b"more").await;
            (input, outcome)
        });
        tokio::task::yield_now().await;
        assert!(!blocked.is_finished());
        closed.cancel();
        let (mut input, outcome) = blocked.await.expect("it ends");
        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        // The reader sees the end, although the writer's owner is still there.
        let mut read = Vec::new();
        reader.read_to_end(&mut read).await.expect("an end");
        assert_eq!(read, b"12345678");
        input.shutdown().await.expect("it is closed");
    }
}
