//! Writes a WebSocket: the connection's stream. A client that asked to resume gets a cursor with
//! every message and may come back with it after a cut. `handlers/websocket.rs` reads the socket.

use std::sync::Arc;

use axum::extract::ws::{CloseFrame, Message as Frame, Utf8Bytes, WebSocket};
use baton_protocol::CloseCode;
use baton_session::id::ConnectionId;
use baton_session::token::{ConnectionToken, TokenScope};
use bytes::Bytes;
use futures_util::SinkExt as _;
use futures_util::stream::SplitSink;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::drain_stream::StreamDrain;
use super::registered_stream;
use super::{FeedOutput, MessageFeed as _, OutgoingMessage, StartPosition};
use crate::access::stream_authority::StreamAuthority;
use crate::stream::StreamServices;

const STOPPING: CloseReason = (CloseCode::GoingAway, "the gateway stops: come back");
const LOST: CloseReason = (
    CloseCode::ServiceRestart,
    "the store lost the end of a log: come back",
);
const LAPSED: CloseReason = (
    CloseCode::CredentialLapsed,
    "the credential has expired or was revoked: come back with a new one",
);
const TAKEN: CloseReason = (
    CloseCode::Normal,
    "detached, or taken over by another socket",
);

/// How a socket is closed.
pub type CloseReason = (CloseCode, &'static str);

/// The beginning of a socket: its connection, and where it goes on.
pub struct OpenedSocket {
    pub connection: ConnectionToken,
    pub cursor: Option<String>,
    /// The answer to `initialize`.
    pub answer: Option<Bytes>,
}

pub fn lapsed(services: &StreamServices, connection: &ConnectionId) -> CloseReason {
    if services.issuer.revocations.was_closed_by_client(connection) {
        TAKEN
    } else {
        LAPSED
    }
}

pub fn close_frame((code, reason): CloseReason) -> Frame {
    let (code, reason) = (code.value(), Utf8Bytes::from_static(reason));
    Frame::Close(Some(CloseFrame { code, reason }))
}

/// Writes the feed until it or the client ends. Returns how to say goodbye, if there is a need to.
pub async fn write(
    services: &Arc<StreamServices>,
    sink: &mut SplitSink<WebSocket, Frame>,
    authority: StreamAuthority,
    scope: TokenScope,
    opened: OpenedSocket,
    resumable: bool,
    ended: CancellationToken,
) -> Option<CloseReason> {
    let unavailable = Some((
        CloseCode::TryAgainLater,
        "the session store cannot be reached",
    ));
    let (connection, cursor) = (opened.connection, opened.cursor.as_deref());
    let stream = registered_stream::open_connection(services, connection, scope, cursor).await;
    let Ok((mut feed, holder)) = stream else {
        return unavailable;
    };
    let start = feed.start();
    if let Some(reset) = reset(services, &start) {
        sent(services, sink.send(reset).await)?;
    }
    if let Some(answer) = opened.answer {
        let answer = OutgoingMessage {
            cursor: start.cursor,
            message: answer,
        };
        sent(services, sink.send(frame(answer, resumable)).await)?;
    }
    let mut drain = StreamDrain::new(services.clone(), Some(holder.connection().clone()));
    let mut keep_alive = Instant::now() + services.keep_alive;
    loop {
        let deadline = drain.deadline(keep_alive);
        let next = tokio::select! {
            biased;
            _ = ended.cancelled() => return None,
            _ = holder.lost.cancelled() => return Some(TAKEN),
            _ = services.stop.cancelled() => return Some(STOPPING),
            _ = authority.lapses(&services.issuer.revocations) => {
                return Some(lapsed(services, holder.connection()));
            }
            next = super::next(&mut feed, deadline, drain.changed()) => next,
        };
        match next {
            FeedOutput::Idle if drain.is_due(&mut feed).await => return Some(STOPPING),
            FeedOutput::Idle if Instant::now() < keep_alive => continue,
            FeedOutput::Idle => sent(services, sink.send(Frame::Ping(Bytes::new())).await)?,
            FeedOutput::End => return Some(TAKEN),
            // One that cannot go on from a cursor has to begin anew.
            FeedOutput::Reset if !resumable => {
                services.metrics.resets.inc();
                return Some(LOST);
            }
            // Not when it is back: there it would be waited again for what is lost.
            FeedOutput::Reset => {
                drain.record_write();
                let start = feed.start();
                holder.record(&start.cursor);
                if let Some(reset) = reset(services, &start) {
                    sent(services, sink.send(reset).await)?;
                }
            }
            FeedOutput::Batch(batch) => {
                drain.record_write();
                services.metrics.events.inc_by(batch.len() as u64);
                if let Some(last) = batch.last() {
                    holder.record(&last.cursor);
                }
                for outgoing in batch {
                    sent(services, sink.feed(frame(outgoing, resumable)).await)?;
                }
                sent(services, sink.flush().await)?;
            }
        }
        keep_alive = Instant::now() + services.keep_alive;
    }
}

/// The reset message for a client that cannot resume where it was.
fn reset(services: &StreamServices, start: &StartPosition) -> Option<Frame> {
    let reason = start.reset?;
    services.metrics.resets.inc();
    let text = format!("{{\"cursor\":\"{}\",\"reset\":\"{reason}\"}}", start.cursor);
    Some(Frame::Text(text.into()))
}

/// `None` if the client is gone, or given up because it does not read.
fn sent(services: &StreamServices, outcome: Result<(), axum::Error>) -> Option<()> {
    let error = match outcome {
        Ok(()) => return Some(()),
        Err(error) => error,
    };
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<std::io::Error>();
        if io.is_some_and(|io| io.kind() == std::io::ErrorKind::TimedOut) {
            services.metrics.stalled("websocket");
            return None;
        }
        cause = error.source();
    }
    None
}

fn frame(outgoing: OutgoingMessage, resumable: bool) -> Frame {
    let OutgoingMessage { cursor, message } = outgoing;
    // Messages were text when they came in, or were written by us.
    let text = Utf8Bytes::try_from(message).unwrap_or_else(|_| Utf8Bytes::from_static("null"));
    if resumable {
        Frame::Text(format!("{{\"cursor\":\"{cursor}\",\"message\":{text}}}").into())
    } else {
        Frame::Text(text)
    }
}
