//! Sockets that give up on a client which is gone or does not read. Feeds wait for their client, so
//! such a client costs little, but its place must not be held for ever.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{Sleep, sleep};

use crate::net::connection_limits::ConnectionSlot;

/// How many connections may wait to be accepted, as after a balancer's restart, when all come back
/// at once. A client that does not fit retries only after a second. The system may allow fewer
/// (`net.core.somaxconn`).
const BACKLOG: u32 = 4096;

/// A silent connection is probed after this long.
const PROBE: Duration = Duration::from_secs(15);

/// Opens a port for clients.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // Remaining connections of the previous process do not block the port.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

pub struct SocketListener {
    pub listener: TcpListener,
    /// How long nothing of what is to be written may be taken.
    pub stall_timeout: Duration,
}

impl SocketListener {
    /// Fails for want of descriptors or memory. Errors of a single connection are ignored.
    pub async fn accept(&mut self) -> io::Result<(ClientSocket, SocketAddr)> {
        let (stream, address) = loop {
            match self.listener.accept().await {
                Ok(accepted) => break accepted,
                Err(error) if is_its_own(&error) => {}
                Err(error) => return Err(error),
            }
        };
        if let Err(error) = prepare(&stream, self.stall_timeout) {
            tracing::debug!(%error, "could not set a socket option");
        }
        let socket = ClientSocket {
            stream,
            stall_timeout: self.stall_timeout,
            stalled: None,
            gave_up: StallFlag::default(),
            slot: None,
        };
        Ok((socket, address))
    }
}

/// A client that has left again.
fn is_its_own(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset
    )
}

fn prepare(stream: &TcpStream, stall_timeout: Duration) -> io::Result<()> {
    // Without this, small writes of HTTP/2 and WebSocket wait 40 ms for an acknowledgement.
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    // A peer that vanished without a word: noticed by probes while nothing is written, and by what
    // it does not acknowledge else.
    let probes = TcpKeepalive::new().with_time(PROBE).with_interval(PROBE);
    socket.set_tcp_keepalive(&probes)?;
    // Later than we would give up ourselves, since the kernel does not say why it did.
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(stall_timeout + PROBE))?;
    Ok(())
}

pub struct ClientSocket {
    stream: TcpStream,
    stall_timeout: Duration,
    /// Runs while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
    gave_up: StallFlag,
    /// Given back when the descriptor is.
    slot: Option<ConnectionSlot>,
}

/// Whether a connection ended because its client did not read. The requests on it can see this.
#[derive(Clone, Default)]
pub struct StallFlag(Arc<AtomicBool>);

impl StallFlag {
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl ClientSocket {
    pub fn hold_slot(&mut self, slot: ConnectionSlot) {
        self.slot = Some(slot);
    }

    pub fn gave_up(&self) -> StallFlag {
        self.gave_up.clone()
    }

    fn watch<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let timer = self
            .stalled
            .get_or_insert_with(|| Box::pin(sleep(self.stall_timeout)));
        timer.as_mut().poll(context).map(|()| {
            self.gave_up.0.store(true, Ordering::Relaxed);
            Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the client does not read",
            ))
        })
    }
}

impl AsyncRead for ClientSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for ClientSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.watch(written, context)
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
pub(crate) mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    pub async fn pair(stall_timeout: Duration) -> (ClientSocket, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let client = TcpStream::connect(listener.local_addr().expect("bound"));
        let mut sockets = SocketListener {
            listener,
            stall_timeout,
        };
        let (client, accepted) = tokio::join!(client, sockets.accept());
        let (socket, _) = accepted.expect("a descriptor");
        (socket, client.expect("connected"))
    }

    #[tokio::test]
    async fn a_peer_that_vanished_is_found_out() {
        let (socket, _client) = pair(Duration::from_secs(60)).await;
        let options = SockRef::from(&socket.stream);
        assert!(options.keepalive().expect("an option"));
        #[cfg(target_os = "linux")]
        assert_eq!(
            options.tcp_user_timeout().expect("an option"),
            Some(Duration::from_secs(75))
        );
    }

    #[tokio::test]
    async fn only_a_write_that_waits_is_given_up() {
        let (mut socket, mut client) = pair(Duration::from_millis(300)).await;
        let text = vec![b'x'; 64 << 20];
        let given_up = socket.write_all(&text).await.expect_err("nobody reads");
        assert_eq!(given_up.kind(), io::ErrorKind::TimedOut);
        assert!(socket.gave_up.get());
        let (mut socket, mut reader) = pair(Duration::from_secs(30)).await;
        let reading = async {
            let mut bytes = vec![0; 8 << 20];
            reader.read_exact(&mut bytes).await
        };
        let (written, read) = tokio::join!(socket.write_all(&text[..8 << 20]), reading);
        assert!(written.is_ok() && read.is_ok() && !socket.gave_up.get());
        let _ = client.read(&mut [0]).await;
    }
}
