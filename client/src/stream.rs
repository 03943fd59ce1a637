//! The connection's stream, read until the connection is over. When it breaks it is reopened after
//! the last message that was passed on.

use std::sync::Arc;

use baton_protocol::ErrorCode;
use bytes::Bytes;
use http::HeaderValue;
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

pub use self::sse::SseStream;
use self::websocket::SocketStream;
use crate::backoff::Backoff;
use crate::endpoint::Endpoint;
use crate::error::RequestFailure;
use crate::options::StreamTransport;
use crate::reachability::ServerReachability;

mod events;
mod sse;
mod websocket;

/// The beginning of a connection's stream.
const START_CURSOR: &str = "0";
/// Messages that were read and not yet passed on; the rest waits at the server.
const QUEUE: usize = 16;
/// A stream has to say something so soon after it was opened, or something in between swallows it.
const FIRST_EVENT_TIMEOUT: Duration = Duration::from_secs(10);
/// One that lasted this long is no sign of trouble when it ends.
const STABLE_AFTER: Duration = Duration::from_secs(1);
/// Between attempts without a good credential.
const CREDENTIAL_PAUSE: Duration = Duration::from_secs(60);
const MAX_MESSAGE: usize = 64 << 20;

#[derive(Debug)]
pub enum StreamEvent {
    Message(Bytes),
    /// Messages before this point are lost, and why.
    Reset(String),
    /// The connection is over; nothing more will come.
    Lost,
}

/// A stream event, and the cursor after it.
pub struct StreamItem {
    pub cursor: String,
    pub news: Option<StreamEvent>,
}

/// The stream of one connection. Ends with its owner.
pub struct StreamHandle {
    news: mpsc::Receiver<StreamEvent>,
    _reader: AbortOnDropHandle<()>,
}

impl StreamHandle {
    pub fn start(
        endpoint: Arc<Endpoint>,
        transport: StreamTransport,
        connection: HeaderValue,
        reachability: Arc<ServerReachability>,
    ) -> Self {
        let (sender, news) = mpsc::channel(QUEUE);
        let reader = StreamReader {
            endpoint,
            transport,
            connection,
            reachability,
            cursor: START_CURSOR.into(),
            news: sender,
        };
        Self {
            news,
            _reader: AbortOnDropHandle::new(tokio::spawn(reader.run())),
        }
    }

    /// May be dropped and asked again without losing anything.
    pub async fn next(&mut self) -> StreamEvent {
        self.news.recv().await.unwrap_or(StreamEvent::Lost)
    }
}

enum OpenStream {
    Sse(Box<SseStream>),
    Socket(Box<SocketStream>),
}

impl OpenStream {
    async fn next(&mut self) -> Result<StreamItem, RequestFailure> {
        match self {
            Self::Sse(stream) => stream.next().await,
            Self::Socket(socket) => socket.next().await,
        }
    }
}

struct StreamReader {
    endpoint: Arc<Endpoint>,
    transport: StreamTransport,
    connection: HeaderValue,
    reachability: Arc<ServerReachability>,
    cursor: String,
    news: mpsc::Sender<StreamEvent>,
}

impl StreamReader {
    async fn run(mut self) {
        let mut backoff = Backoff::default();
        let mut socket = self.transport != StreamTransport::Sse;
        let mut down = false;
        loop {
            let failure = match self.open(socket).await {
                Ok(stream) => {
                    if std::mem::take(&mut down) {
                        tracing::info!("stream resumed");
                    }
                    self.follow(stream, &mut backoff).await
                }
                Err(failure) => {
                    let unconnected = matches!(
                        failure,
                        RequestFailure::Away {
                            unconnected: true,
                            ..
                        }
                    );
                    // Something in between may let only the other one through.
                    socket ^= self.transport == StreamTransport::Auto && !unconnected;
                    failure
                }
            };
            let pause = match &failure {
                RequestFailure::Lost => {
                    let _ = self.news.send(StreamEvent::Lost).await;
                    return;
                }
                RequestFailure::Away { pause, .. } => *pause,
                // Fetching a credential may involve a person.
                RequestFailure::Refused { code, .. } => {
                    (*code == ErrorCode::Unauthenticated.value()).then_some(CREDENTIAL_PAUSE)
                }
            };
            if self.news.is_closed() {
                return;
            }
            if std::mem::replace(&mut down, true) {
                tracing::debug!(why = %failure, "the stream cannot be resumed yet")
            } else {
                tracing::warn!(why = %failure, "the stream broke; it will be resumed")
            }
            tokio::select! {
                _ = sleep(backoff.next(pause)) => {}
                _ = self.reachability.answered() => {}
            }
        }
    }

    async fn open(&self, socket: bool) -> Result<OpenStream, RequestFailure> {
        let (endpoint, connection, cursor) = (&self.endpoint, &self.connection, &self.cursor);
        Ok(if socket {
            let opened = SocketStream::open(endpoint, connection, cursor).await?;
            OpenStream::Socket(Box::new(opened))
        } else {
            let opened = SseStream::open(endpoint, connection, cursor).await?;
            OpenStream::Sse(Box::new(opened))
        })
    }

    /// Passes events on until the stream breaks. A slow reader slows the network down and loses
    /// nothing.
    async fn follow(&mut self, mut stream: OpenStream, backoff: &mut Backoff) -> RequestFailure {
        let opened = Instant::now();
        let _open = self.reachability.open();
        loop {
            let next = stream.next().await;
            if opened.elapsed() > STABLE_AFTER {
                backoff.reset();
            }
            let StreamItem { cursor, news } = match next {
                Ok(item) => item,
                Err(failure) => return failure,
            };
            if let Some(news) = news {
                backoff.reset();
                if self.news.send(news).await.is_err() {
                    return RequestFailure::away("nobody reads it any more");
                }
            }
            self.cursor = cursor;
        }
    }
}
