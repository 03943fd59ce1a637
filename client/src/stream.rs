//! The connection's stream, read until the connection is over. When it breaks it is reopened after
//! the last message that was passed on.

use std::sync::Arc;

use baton_protocol::ErrorCode;
use bytes::Bytes;
use http::HeaderValue;
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use self::sse::Sse;
use self::websocket::Socket;
use crate::backoff::Backoff;
use crate::contact::Contact;
use crate::endpoint::Endpoint;
use crate::error::Failure;
use crate::options::Transport;

mod events;
mod sse;
mod websocket;

/// The beginning of a connection's stream.
const BEGINNING: &str = "0";
/// Messages that were read and not yet passed on; the rest waits at the server.
const QUEUE: usize = 16;
/// A stream has to say something so soon after it was opened, or something in between swallows it.
const OPENING: Duration = Duration::from_secs(10);
/// One that lasted this long is no sign of trouble when it ends.
const SOUND: Duration = Duration::from_secs(1);
/// Between attempts without a good credential.
const BOTHER: Duration = Duration::from_secs(60);
const MAX_MESSAGE: usize = 64 << 20;

#[derive(Debug)]
pub enum News {
    Message(Bytes),
    /// Messages before this point are lost, and why.
    Reset(String),
    /// The connection is over; nothing more will come.
    Lost,
}

/// A stream event, and the cursor after it.
struct Item {
    cursor: String,
    news: Option<News>,
}

/// The stream of one connection. Ends with its owner.
pub struct Reading {
    news: mpsc::Receiver<News>,
    _reader: AbortOnDropHandle<()>,
}

impl Reading {
    pub fn start(
        endpoint: Arc<Endpoint>,
        transport: Transport,
        connection: HeaderValue,
        contact: Arc<Contact>,
    ) -> Self {
        let (sender, news) = mpsc::channel(QUEUE);
        let reader = Reader {
            endpoint,
            transport,
            connection,
            contact,
            cursor: BEGINNING.into(),
            news: sender,
        };
        Self {
            news,
            _reader: AbortOnDropHandle::new(tokio::spawn(reader.run())),
        }
    }

    /// May be dropped and asked again without losing anything.
    pub async fn next(&mut self) -> News {
        self.news.recv().await.unwrap_or(News::Lost)
    }
}

enum Open {
    Sse(Box<Sse>),
    Socket(Box<Socket>),
}

impl Open {
    async fn next(&mut self) -> Result<Item, Failure> {
        match self {
            Self::Sse(stream) => stream.next().await,
            Self::Socket(socket) => socket.next().await,
        }
    }
}

struct Reader {
    endpoint: Arc<Endpoint>,
    transport: Transport,
    connection: HeaderValue,
    contact: Arc<Contact>,
    cursor: String,
    news: mpsc::Sender<News>,
}

impl Reader {
    async fn run(mut self) {
        let mut backoff = Backoff::default();
        let mut socket = self.transport != Transport::Sse;
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
                        Failure::Away {
                            unconnected: true,
                            ..
                        }
                    );
                    // Something in between may let only the other one through.
                    socket ^= self.transport == Transport::Auto && !unconnected;
                    failure
                }
            };
            let pause = match &failure {
                Failure::Lost => {
                    let _ = self.news.send(News::Lost).await;
                    return;
                }
                Failure::Away { pause, .. } => *pause,
                // Asking for a credential may be a bother to somebody.
                Failure::Refused { code, .. } => {
                    (*code == ErrorCode::Unauthenticated.value()).then_some(BOTHER)
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
                _ = self.contact.wait() => {}
            }
        }
    }

    async fn open(&self, socket: bool) -> Result<Open, Failure> {
        let (endpoint, connection, cursor) = (&self.endpoint, &self.connection, &self.cursor);
        Ok(if socket {
            let opened = Socket::open(endpoint, connection, cursor).await?;
            Open::Socket(Box::new(opened))
        } else {
            let opened = Sse::open(endpoint, connection, cursor).await?;
            Open::Sse(Box::new(opened))
        })
    }

    /// Passes events on until the stream breaks. A slow reader slows the network down and loses
    /// nothing.
    async fn follow(&mut self, mut stream: Open, backoff: &mut Backoff) -> Failure {
        let opened = Instant::now();
        let _open = self.contact.open();
        loop {
            let next = stream.next().await;
            if opened.elapsed() > SOUND {
                backoff.reset();
            }
            let Item { cursor, news } = match next {
                Ok(item) => item,
                Err(failure) => return failure,
            };
            if let Some(news) = news {
                backoff.reset();
                if self.news.send(news).await.is_err() {
                    return Failure::away("nobody reads it any more");
                }
            }
            self.cursor = cursor;
        }
    }
}
