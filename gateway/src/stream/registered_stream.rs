//! A stream that its client may come back to: the store knows who holds it and how far it was
//! written.

use std::sync::Arc;
use std::time::Duration;

use baton_session::id::{LogId, SessionId};
use baton_session::store::{self, Attachment, LastWritten, StreamId};
use baton_session::token::{ConnectionToken, TokenScope};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::StreamServices;
use super::connection_feed::ConnectionFeed;
use super::log_tail::LogTail;
use super::stream_registry::StreamHolder;

/// How long an earlier holder may take to record how far it has written: it may be gone.
const LAST_RECORD: Duration = Duration::from_millis(500);
/// The first pause between two looks; each is twice as long as the one before.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// A stream that is held here, and of which nothing was read yet.
pub struct RegisteredStream {
    /// Of the session, or of the connection's outbox.
    pub tail: LogTail,
    pub holder: StreamHolder,
    /// Of a session's stream; `None` if there is no such session for this principal.
    pub attachment: Option<Attachment>,
    stream: StreamId,
    written: LastWritten,
}

impl RegisteredStream {
    /// Subscribes before the store is asked, so that nothing is missed in between. An earlier
    /// holder of the stream loses it.
    pub async fn open(
        services: &StreamServices,
        connection: &ConnectionToken,
        session: Option<&SessionId>,
    ) -> store::Result<Self> {
        let log = match session {
            Some(session) => LogId::Session(session.clone()),
            None => LogId::Outbox(connection.id.clone()),
        };
        let tail = LogTail::open(services, &log, Arc::new(Notify::new())).await?;
        let stream = StreamId {
            connection: connection.id.clone(),
            session: session.cloned(),
        };
        let holder = services.stream_registry.hold(stream.clone());
        let opened = services
            .store
            .open_stream(&stream, &connection.principal, &holder.name)
            .await?;
        let (written, attachment) = match opened {
            Some(opened) => (opened.written, opened.attachment),
            None => (LastWritten::default(), None),
        };
        Ok(Self {
            tail,
            holder,
            attachment,
            stream,
            written,
        })
    }

    /// The cursor to go on from: the client's own, or else the one that was written last. `None` is
    /// the beginning, for which a client may ask with "0".
    pub async fn cursor(
        &mut self,
        services: &StreamServices,
        asked: Option<&str>,
    ) -> store::Result<Option<String>> {
        let cursor = match asked {
            Some(asked) => Some(asked.to_owned()),
            None => self.last_written(services).await?,
        };
        Ok(cursor.filter(|cursor| cursor != "0"))
    }

    /// The holder that the stream is taken from records how far it has written when it ends, which
    /// it does at once.
    async fn last_written(&mut self, services: &StreamServices) -> store::Result<Option<String>> {
        let deadline = Instant::now() + LAST_RECORD;
        let (stream, holder) = (&self.stream, &self.holder.name);
        let mut pause = LOOK_AGAIN;
        while !self.written.is_final && Instant::now() < deadline {
            sleep(pause).await;
            pause *= 2;
            let Some(later) = services.store.last_written(stream, holder).await? else {
                break;
            };
            self.written = later;
        }
        let cursor = self.written.cursor.take();
        // That holder is gone. Once this one has a record of its own, nobody waits for it again.
        if !self.written.is_final
            && let Some(cursor) = &cursor
        {
            self.holder.record(cursor);
        }
        Ok(cursor)
    }
}

/// The stream of a connection, for a GET or a WebSocket.
pub async fn open_connection(
    services: &Arc<StreamServices>,
    connection: ConnectionToken,
    scope: TokenScope,
    cursor: Option<&str>,
) -> store::Result<(ConnectionFeed, StreamHolder)> {
    let mut stream = RegisteredStream::open(services, &connection, None).await?;
    let cursor = stream.cursor(services, cursor).await?;
    let RegisteredStream { tail, holder, .. } = stream;
    let feed = ConnectionFeed::open(
        services.clone(),
        connection,
        scope,
        holder.name.clone(),
        tail,
        cursor.as_deref(),
    );
    Ok((feed.await?, holder))
}
