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
use tokio_util::sync::CancellationToken;

use super::feed::{OutgoingMessage, StartPosition};
use super::registered_stream;
use super::writer::{StreamEnd, StreamWriter, WriterStep};
use crate::access::stream_authority::StreamAuthority;
use crate::stream::StreamServices;

const STOPPING: CloseReason = (CloseCode::GoingAway, "the gateway stops: come back");
const LOST: CloseReason = (
    CloseCode::ServiceRestart,
    "the store lost the end of a log: come back",
);
const UNREADABLE: CloseReason = (CloseCode::TryAgainLater, "a log cannot be read");
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
    let (id, cursor) = (opened.connection.id.clone(), opened.cursor.as_deref());
    let stream = registered_stream::open_connection(services, opened.connection, scope, cursor);
    let Ok((feed, holder)) = stream.await else {
        return unavailable;
    };
    let writer = StreamWriter::new(services.clone(), feed, Some(holder), authority);
    let mut writer = writer.resumable(resumable);
    let mut answer = opened.answer;
    loop {
        let step = tokio::select! {
            biased;
            _ = ended.cancelled() => return None,
            step = writer.next() => step,
        };
        let outcome = match step {
            WriterStep::Open(start) => {
                let answer = answer.take().map(|message| OutgoingMessage {
                    cursor: start.cursor.clone(),
                    message,
                });
                let answer = answer.map(|answer| frame(answer, resumable));
                send_all(sink, reset(&start).into_iter().chain(answer)).await
            }
            WriterStep::Reset(start) => send_all(sink, reset(&start)).await,
            WriterStep::Batch(batch) => {
                let frames = batch.into_iter();
                send_all(sink, frames.map(|outgoing| frame(outgoing, resumable))).await
            }
            WriterStep::KeepAlive => sink.send(Frame::Ping(Bytes::new())).await,
            WriterStep::End(end) => return Some(close_reason(services, &id, end)),
        };
        if let Err(error) = outcome {
            count_if_stalled(services, &error);
            return None;
        }
    }
}

fn close_reason(services: &StreamServices, id: &ConnectionId, end: StreamEnd) -> CloseReason {
    match end {
        StreamEnd::Finished | StreamEnd::Taken => TAKEN,
        StreamEnd::Drained | StreamEnd::Stopped => STOPPING,
        StreamEnd::Lapsed => lapsed(services, id),
        StreamEnd::LostTail => LOST,
        StreamEnd::Unreadable => UNREADABLE,
    }
}

/// Flushed once, after the last of them.
async fn send_all(
    sink: &mut SplitSink<WebSocket, Frame>,
    frames: impl IntoIterator<Item = Frame>,
) -> Result<(), axum::Error> {
    for frame in frames {
        sink.feed(frame).await?;
    }
    sink.flush().await
}

/// The reset message for a client that cannot resume where it was.
fn reset(start: &StartPosition) -> Option<Frame> {
    let reason = start.reset?;
    let text = format!("{{\"cursor\":\"{}\",\"reset\":\"{reason}\"}}", start.cursor);
    Some(Frame::Text(text.into()))
}

/// The client may be gone, or was given up because it does not read.
fn count_if_stalled(services: &StreamServices, error: &axum::Error) {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<std::io::Error>();
        if io.is_some_and(|io| io.kind() == std::io::ErrorKind::TimedOut) {
            return services.metrics.stalled("websocket");
        }
        cause = error.source();
    }
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
