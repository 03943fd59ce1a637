//! Just enough HTTP/1.1 for the load client, in as few instructions as possible:
//! the client shares its cores with the server it measures.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use bytes::{Buf, BufMut, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

const READ_SIZE: usize = 32 * 1024;

/// One keep-alive connection, one request at a time.
pub struct Conn {
    io: TcpStream,
    buf: BytesMut,
}

pub struct Head {
    pub status: u16,
    pub connection_id: Option<String>,
    pub session_token: Option<String>,
    length: Length,
}

#[derive(Clone, Copy)]
enum Length {
    Bytes(usize),
    Chunked,
}

impl Conn {
    pub async fn open(addr: SocketAddr) -> Result<Self> {
        Self::over(TcpStream::connect(addr).await?)
    }

    /// With a receive buffer of about `bytes`: what a slow reader leaves unread stays with the server.
    pub async fn open_narrow(addr: SocketAddr, bytes: u32) -> Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(bytes)?;
        Self::over(socket.connect(addr).await?)
    }

    fn over(io: TcpStream) -> Result<Self> {
        io.set_nodelay(true)?;
        let buf = BytesMut::new();
        Ok(Self { io, buf })
    }

    pub async fn send(&mut self, request: &[u8]) -> Result<()> {
        Ok(self.io.write_all(request).await?)
    }

    pub async fn head(&mut self) -> Result<Head> {
        loop {
            if let Some(head) = parse_head(&mut self.buf)? {
                return Ok(head);
            }
            self.fill().await?;
        }
    }

    pub async fn body(&mut self, head: &Head) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        match head.length {
            Length::Bytes(length) => {
                while self.buf.len() < length {
                    self.fill().await?;
                }
                body.extend_from_slice(&self.buf[..length]);
                self.buf.advance(length);
            }
            Length::Chunked => while self.chunks(&mut body).await? {},
        }
        Ok(body)
    }

    /// Appends what has arrived of a chunked body; false when it has ended.
    pub async fn chunks(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        let before = out.len();
        loop {
            if decode_chunks(&mut self.buf, out)? {
                return Ok(false);
            }
            if out.len() > before {
                return Ok(true);
            }
            self.fill().await?;
        }
    }

    /// Reads at most `bytes` of whatever comes and throws them away. Returns how many they were.
    pub async fn skip(&mut self, bytes: usize) -> Result<usize> {
        self.buf.clear();
        self.buf.reserve(bytes);
        let mut limited = (&mut self.buf).limit(bytes);
        let read = self.io.read_buf(&mut limited).await?;
        ensure!(read > 0, "the server closed the connection");
        Ok(read)
    }

    async fn fill(&mut self) -> Result<()> {
        self.buf.reserve(READ_SIZE);
        let read = self.io.read_buf(&mut self.buf).await?;
        ensure!(read > 0, "the server closed the connection");
        Ok(())
    }
}

fn parse_head(buf: &mut BytesMut) -> Result<Option<Head>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(end) = response.parse(buf)? else {
        return Ok(None);
    };
    let status = response.code.context("a response without a status")?;
    let (mut connection_id, mut session_token, mut length) = (None, None, None);
    for header in response.headers.iter() {
        let value = || std::str::from_utf8(header.value).map(str::trim);
        match header.name {
            name if name.eq_ignore_ascii_case("acp-connection-id") => {
                connection_id = Some(value()?.to_owned());
            }
            name if name.eq_ignore_ascii_case("acp-session-token") => {
                session_token = Some(value()?.to_owned());
            }
            name if name.eq_ignore_ascii_case("content-length") => {
                length = Some(Length::Bytes(value()?.parse()?));
            }
            name if name.eq_ignore_ascii_case("transfer-encoding") => {
                length = Some(Length::Chunked);
            }
            _ => {}
        }
    }
    let length = match length {
        Some(length) => length,
        None if status == 204 => Length::Bytes(0),
        None => bail!("a {status} response with neither length nor chunks"),
    };
    buf.advance(end);
    Ok(Some(Head {
        status,
        connection_id,
        session_token,
        length,
    }))
}

/// Moves every complete chunk from `buf` to `out`; true when the last one was seen.
fn decode_chunks(buf: &mut BytesMut, out: &mut Vec<u8>) -> Result<bool> {
    loop {
        let (start, size) = match httparse::parse_chunk_size(buf) {
            Ok(httparse::Status::Complete((start, size))) => (start, size as usize),
            Ok(httparse::Status::Partial) => return Ok(false),
            Err(_) => bail!("a malformed chunk size"),
        };
        if buf.len() < start + size + 2 {
            return Ok(false);
        }
        out.extend_from_slice(&buf[start..start + size]);
        buf.advance(start + size + 2);
        if size == 0 {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_arrive_whole_however_they_are_cut() {
        let wire = b"5\r\nhello\r\n7;x=y\r\n, world\r\n0\r\n\r\n";
        for cut in 0..wire.len() {
            let (mut buf, mut out) = (BytesMut::from(&wire[..cut]), Vec::new());
            assert!(!decode_chunks(&mut buf, &mut out).unwrap());
            buf.extend_from_slice(&wire[cut..]);
            assert!(decode_chunks(&mut buf, &mut out).unwrap());
            assert_eq!(out, b"hello, world");
        }
    }

    #[test]
    fn a_head_is_read_once_complete_and_leaves_the_body() {
        let mut buf = BytesMut::from("HTTP/1.1 200 OK\r\nAcp-Connection-Id: c1\r\n");
        assert!(parse_head(&mut buf).unwrap().is_none());
        buf.extend_from_slice(b"content-length: 2\r\n\r\n{}");
        let head = parse_head(&mut buf).unwrap().unwrap();
        assert_eq!(
            (head.status, head.connection_id.as_deref()),
            (200, Some("c1"))
        );
        assert_eq!(&buf[..], b"{}");
    }
}
