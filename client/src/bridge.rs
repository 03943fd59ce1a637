//! A connection on stdin and stdout: an agent as editors start them, a message on each line.

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::connection::{Connection, Receiver, Sender};

/// More than anybody takes. A message that is only too large is answered.
const MAX_LINE: usize = 64 << 20;
/// For what is still to be written when the end has come.
const FAREWELL: Duration = Duration::from_secs(10);

/// Until the input ends, nobody reads the output any more, or `stop`. What was read by then is handed over.
pub async fn run(
    connection: Connection,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin,
    stop: &CancellationToken,
) -> io::Result<()> {
    let (sender, receiver) = connection.split();
    let write = write(receiver, output);
    tokio::pin!(write);
    let read = async {
        tokio::select! {
            outcome = read(sender, input) => outcome,
            _ = stop.cancelled() => Ok(()),
        }
    };
    tokio::select! {
        outcome = read => outcome?,
        outcome = &mut write => return outcome,
    }
    // The sender is gone; the connection sends what it has and ends.
    timeout(FAREWELL, write).await.unwrap_or(Ok(()))
}

async fn read(sender: Sender, input: impl AsyncRead + Unpin) -> io::Result<()> {
    let mut input = BufReader::new(input);
    while let Some(line) = next_line(&mut input).await? {
        if !line.is_empty() && sender.send(line).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// Without its end and the spaces around it. `None` at the end of the input; what is no line is no message.
async fn next_line(input: &mut BufReader<impl AsyncRead + Unpin>) -> io::Result<Option<Bytes>> {
    let mut line = BytesMut::new();
    loop {
        let piece = input.fill_buf().await?;
        if piece.is_empty() {
            return Ok(None);
        }
        let end = memchr::memchr(b'\n', piece);
        let taken = end.map_or(piece.len(), |end| end + 1);
        line.extend_from_slice(&piece[..taken]);
        input.consume(taken);
        if line.len() > MAX_LINE {
            let text = "a line of more than 64 MiB";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        if end.is_some() {
            let line = line.freeze();
            return Ok(Some(line.slice_ref(line.trim_ascii())));
        }
    }
}

async fn write(mut receiver: Receiver, mut output: impl AsyncWrite + Unpin) -> io::Result<()> {
    let mut lines = Vec::new();
    while let Some(message) = receiver.receive().await {
        lines.clear();
        put(&mut lines, &message);
        // As much as is there at once, but no more.
        while let Some(message) = receiver.try_receive() {
            put(&mut lines, &message);
        }
        output.write_all(&lines).await?;
        output.flush().await?;
    }
    Ok(())
}

fn put(lines: &mut Vec<u8>, message: &[u8]) {
    lines.extend_from_slice(message);
    lines.push(b'\n');
}
