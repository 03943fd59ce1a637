//! A stream that its client may come back to: the store knows who holds it and how far it was
//! written.

use std::sync::Arc;

use baton_session::id::{LogId, SessionId};
use baton_session::store::{self, Attachment, StreamId};
use baton_session::token::{ConnectionToken, TokenScope};
use tokio::sync::Notify;

use super::StreamServices;
use super::connection_feed::ConnectionFeed;
use super::log_tail::LogTail;
use super::stream_registry::StreamHolder;

/// A stream that is held here, and of which nothing was read yet.
pub struct RegisteredStream {
    /// Of the session, or of the connection's outbox.
    pub tail: LogTail,
    pub holder: StreamHolder,
    /// Of a session's stream; `None` if there is no such session for this principal.
    pub attachment: Option<Attachment>,
    /// The last cursor that was written, here or elsewhere.
    written: Option<String>,
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
            None => (None, None),
        };
        Ok(Self {
            tail,
            holder,
            attachment,
            written,
        })
    }

    /// The cursor to go on from: the client's own, or else the one that was written last. `None` is
    /// the beginning, for which a client may ask with "0".
    pub fn cursor(&mut self, asked: Option<&str>) -> Option<String> {
        let cursor = asked.map(str::to_owned).or_else(|| self.written.take());
        cursor.filter(|cursor| cursor != "0")
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
    let cursor = stream.cursor(cursor);
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
