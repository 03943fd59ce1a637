//! A stream as server-sent events, also for the body of a POST. The body is polled by the
//! connection itself: no task, no queue, and a client that reads slowly simply asks for less.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, Response, header};
use bytes::Bytes;
use futures_util::stream;
use rand::RngExt as _;

use super::feed::{MessageFeed, OutgoingMessage, StartPosition};
use super::stream_registry::{StreamHolder, UnopenedStream};
use super::writer::{StreamEnd, StreamWriter, WriterStep};
use crate::access::stream_authority::StreamAuthority;
use crate::drain::OpenGuard;
use crate::metrics::StreamGuard;
use crate::stream::StreamServices;

const KEEP_ALIVE: Bytes = Bytes::from_static(b":\n\n");

/// How messages become events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SseForm {
    /// Each is the data of an event whose id is its cursor.
    Numbered,
    /// Each is whole events already.
    Ready,
}

struct SseBody<F> {
    writer: StreamWriter<F>,
    form: SseForm,
    /// Held until something comes of the session.
    unopened: Option<UnopenedStream>,
    /// Nothing follows the last chunk.
    ended: bool,
    _counted: StreamGuard,
    _open: OpenGuard,
}

pub fn respond<F: MessageFeed>(
    services: Arc<StreamServices>,
    feed: F,
    authority: StreamAuthority,
    holder: Option<StreamHolder>,
    unopened: Option<UnopenedStream>,
) -> Response<Body> {
    let writer = StreamWriter::new(services.clone(), feed, holder, authority);
    stream_body(services, writer, SseForm::Numbered, unopened)
}

/// A stream of another protocol, whose messages are events already and tell themselves where they
/// are.
pub fn respond_ready<F: MessageFeed>(
    services: Arc<StreamServices>,
    feed: F,
    authority: StreamAuthority,
) -> Response<Body> {
    let writer = StreamWriter::new(services.clone(), feed, None, authority).resumable(false);
    stream_body(services, writer, SseForm::Ready, None)
}

fn stream_body<F: MessageFeed>(
    services: Arc<StreamServices>,
    writer: StreamWriter<F>,
    form: SseForm,
    unopened: Option<UnopenedStream>,
) -> Response<Body> {
    let body = SseBody {
        _counted: services.metrics.stream_guard(),
        _open: services.drain.enter(),
        writer,
        form,
        unopened,
        ended: false,
    };
    let chunks = stream::unfold(body, |mut body| async move {
        let chunk = body.next().await?;
        Some((chunk, body))
    });
    let chunks = services
        .stall_timeouts
        .watch_body(F::KIND, Box::pin(chunks));
    let watch = chunks.watch();
    let mut response = Response::new(Body::from_stream(chunks));
    response.extensions_mut().insert(watch);
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

impl<F: MessageFeed> SseBody<F> {
    /// The next bytes of the body; `None` ends it.
    async fn next(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        let mut step = self.writer.next().await;
        if self.form == SseForm::Ready {
            if let WriterStep::Open(_) = step {
                step = self.writer.next().await;
            }
            if let WriterStep::Batch(batch) = step {
                return Some(joined(batch));
            }
        }
        match step {
            WriterStep::Open(start) | WriterStep::Reset(start) => Some(opening(&start)),
            WriterStep::Batch(batch) => {
                self.unopened = None;
                Some(format(&batch))
            }
            WriterStep::KeepAlive => Some(KEEP_ALIVE),
            WriterStep::End(StreamEnd::Drained) if self.form == SseForm::Numbered => {
                self.ended = true;
                Some(format!("retry: {}\n\n", retry()).into())
            }
            WriterStep::End(
                StreamEnd::Finished
                | StreamEnd::Drained
                | StreamEnd::Unreadable
                | StreamEnd::Taken
                | StreamEnd::Stopped
                | StreamEnd::Lapsed
                | StreamEnd::LostTail,
            ) => None,
        }
    }
}

/// A stream begins with its starting cursor: an event with an id and nothing else.
fn opening(StartPosition { cursor, reset }: &StartPosition) -> Bytes {
    // Nobody can come back to it.
    if cursor.is_empty() {
        return KEEP_ALIVE;
    }
    let begin = format!("retry: {}\nid: {cursor}\n", retry());
    match reset {
        None => format!("{begin}\n").into(),
        Some(reason) => {
            format!("{begin}event: reset\ndata: {{\"reason\":\"{reason}\"}}\n\n").into()
        }
    }
}

/// In milliseconds; spread out, so that clients of a lost replica don't all come back at once.
fn retry() -> u64 {
    rand::rng().random_range(500..3000)
}

/// In one piece: some clients lose an event that comes in two.
fn joined(mut batch: Vec<OutgoingMessage>) -> Bytes {
    match &mut batch[..] {
        [one] => std::mem::take(&mut one.message),
        all => {
            let parts: Vec<&[u8]> = all.iter().map(|outgoing| &outgoing.message[..]).collect();
            parts.concat().into()
        }
    }
}

fn format(batch: &[OutgoingMessage]) -> Bytes {
    let size = batch
        .iter()
        .map(|outgoing| outgoing.cursor.len() + outgoing.message.len() + 16)
        .sum();
    let mut text = Vec::with_capacity(size);
    for OutgoingMessage { cursor, message } in batch {
        if !cursor.is_empty() {
            text.extend_from_slice(b"id: ");
            text.extend_from_slice(cursor.as_bytes());
            text.push(b'\n');
        }
        text.extend_from_slice(b"data: ");
        one_line(message, &mut text);
        text.extend_from_slice(b"\n\n");
    }
    text.into()
}

/// A client's own line breaks (between tokens of its JSON) would end the event early.
fn one_line(message: &[u8], out: &mut Vec<u8>) {
    if message.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        out.extend(message.iter().map(|byte| {
            if matches!(byte, b'\n' | b'\r') {
                b' '
            } else {
                *byte
            }
        }));
    } else {
        out.extend_from_slice(message);
    }
}
