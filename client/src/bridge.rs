//! A connection on stdin and stdout: an agent as editors start them, a message on each line.

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::connection::{Connection, MessageReceiver, MessageSender};

/// Larger than any accepted message. A message that is only too large is answered.
const MAX_LINE: usize = 64 << 20;
/// When the end has come, an editor that does not read is waited for this long.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs until the input ends, the output is closed, or `stop`. Messages read by then are delivered.
pub async fn run(
    connection: Connection,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin,
    stop: &CancellationToken,
) -> io::Result<()> {
    let (sender, mut receiver) = connection.split();
    let ended = CancellationToken::new();
    let outcome = {
        let write = write(&mut receiver, output, &ended);
        tokio::pin!(write);
        let read = async {
            tokio::select! {
                outcome = read(sender, input) => outcome,
                _ = stop.cancelled() => Ok(()),
            }
        };
        tokio::select! {
            read = read => {
                // The sender is gone: the connection sends what it has and ends.
                ended.cancel();
                read.and(write.await)
            }
            written = &mut write => written,
        }
    };
    // The output is closed; the connection gets time to detach.
    while receiver.receive().await.is_some() {}
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}

async fn read(sender: MessageSender, input: impl AsyncRead + Unpin) -> io::Result<()> {
    let mut input = BufReader::new(input);
    while let Some(line) = next_line(&mut input).await? {
        if !line.is_empty() && sender.send(line).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// Without its end and the spaces around it. `None` at the end of the input; the last line need not
/// have an end.
async fn next_line(input: &mut BufReader<impl AsyncRead + Unpin>) -> io::Result<Option<Bytes>> {
    let mut line = BytesMut::new();
    loop {
        let piece = input.fill_buf().await?;
        let over = piece.is_empty();
        if over && line.is_empty() {
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
        if over || end.is_some() {
            let line = line.freeze();
            return Ok(Some(line.slice_ref(line.trim_ascii())));
        }
    }
}

async fn write(
    receiver: &mut MessageReceiver,
    mut output: impl AsyncWrite + Unpin,
    ended: &CancellationToken,
) -> io::Result<()> {
    let mut lines = Vec::new();
    while let Some(message) = receiver.receive().await {
        lines.clear();
        put(&mut lines, &message);
        // As much as is there at once, but no more.
        while let Some(message) = receiver.try_receive() {
            put(&mut lines, &message);
        }
        let written = async {
            output.write_all(&lines).await?;
            output.flush().await
        };
        let too_late = async {
            ended.cancelled().await;
            sleep(FLUSH_TIMEOUT).await;
        };
        tokio::select! {
            written = written => written?,
            _ = too_late => return Ok(()),
        }
    }
    Ok(())
}

fn put(lines: &mut Vec<u8>, message: &[u8]) {
    lines.extend_from_slice(message);
    lines.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_come_in_any_pieces() {
        let text = b"{\"a\":1}\r\n\n  {\"b\":\n{}".as_slice();
        let mut input = BufReader::with_capacity(3, text);
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut input).await.unwrap() {
            lines.push(line);
        }
        assert_eq!(lines, ["{\"a\":1}", "", "{\"b\":", "{}"]);
    }

    #[tokio::test]
    async fn a_line_without_end_is_not_kept() {
        let mut input = BufReader::new(tokio::io::repeat(b'x'));
        assert!(next_line(&mut input).await.is_err());
    }
}
