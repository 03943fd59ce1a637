//! A feed as server-sent events. The body is polled by the connection itself: no task, no queue,
//! and a client that reads slowly simply asks for less.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, Response, header};
use bytes::Bytes;
use futures_util::stream;
use rand::RngExt as _;
use tokio::time::Instant;

use super::drain_stream::StreamDrain;
use super::stream_registry::{StreamHolder, UnopenedStream};
use super::{FeedOutput, MessageFeed, OutgoingMessage, StartPosition};
use crate::access::stream_authority::StreamAuthority;
use crate::drain::OpenGuard;
use crate::metrics::StreamGuard;
use crate::stream::StreamServices;

const KEEP_ALIVE: Bytes = Bytes::from_static(b":\n\n");

struct SseWriter<F> {
    services: Arc<StreamServices>,
    feed: F,
    /// Absent for the body of a POST, which is nobody's registered stream.
    holder: Option<StreamHolder>,
    /// Held until something comes of the session.
    unopened: Option<UnopenedStream>,
    opened: bool,
    drain: StreamDrain,
    drained: bool,
    authority: StreamAuthority,
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
    let connection = holder.as_ref().map(|holder| holder.connection().clone());
    let writer = SseWriter {
        drain: StreamDrain::new(services.clone(), connection),
        drained: false,
        authority,
        _counted: services.metrics.stream_guard(),
        _open: services.drain.enter(),
        services: services.clone(),
        feed,
        holder,
        unopened,
        opened: false,
    };
    let chunks = stream::unfold(writer, |mut writer| async move {
        let chunk = writer.next().await?;
        Some((chunk, writer))
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

impl<F: MessageFeed> SseWriter<F> {
    /// The next bytes of the body; `None` ends it.
    async fn next(&mut self) -> Option<Bytes> {
        if !self.opened {
            self.opened = true;
            return Some(self.open());
        }
        // Not only while it waits: there may always be something to write.
        if self.drained || self.authority.is_over(&self.services.issuer.revocations) {
            return None;
        }
        let keep_alive = Instant::now() + self.services.keep_alive;
        let stop = self.services.stop.clone();
        let lost = self.holder.as_ref().map(|holder| holder.lost.clone());
        let lost = lost.unwrap_or_default();
        loop {
            let deadline = self.drain.deadline(keep_alive);
            let next = tokio::select! {
                biased;
                next = super::next(&mut self.feed, deadline, self.drain.changed()) => next,
                _ = stop.cancelled() => return None,
                _ = lost.cancelled() => return None,
                _ = self.authority.lapses(&self.services.issuer.revocations) => return None,
            };
            match next {
                FeedOutput::Idle if self.drain.is_due(&mut self.feed).await => {
                    self.drained = true;
                    return Some(format!("retry: {}\n\n", retry()).into());
                }
                FeedOutput::Idle if Instant::now() < keep_alive => {}
                FeedOutput::Idle => return Some(KEEP_ALIVE),
                FeedOutput::End => return None,
                FeedOutput::Reset => return Some(self.start_anew()),
                FeedOutput::Batch(batch) => return Some(self.write(&batch)),
            }
        }
    }

    fn start_anew(&mut self) -> Bytes {
        self.drain.record_write();
        if let Some(holder) = &self.holder {
            holder.record(&self.feed.start().cursor);
        }
        self.open()
    }

    fn write(&mut self, batch: &[OutgoingMessage]) -> Bytes {
        self.unopened = None;
        self.drain.record_write();
        self.services.metrics.events.inc_by(batch.len() as u64);
        if let (Some(holder), Some(last)) = (&self.holder, batch.last()) {
            holder.record(&last.cursor);
        }
        format(batch)
    }

    /// A stream begins with its starting cursor: an event with an id and nothing else.
    fn open(&self) -> Bytes {
        let retry = retry();
        let StartPosition { cursor, reset } = self.feed.start();
        match reset {
            None => format!("retry: {retry}\nid: {cursor}\n\n").into(),
            Some(reason) => {
                self.services.metrics.resets.inc();
                format!(
                    "retry: {retry}\nid: {cursor}\nevent: reset\ndata: \
                    {{\"reason\":\"{reason}\"}}\n\n"
                )
                .into()
            }
        }
    }
}

/// In milliseconds; spread out, so that clients of a lost replica don't all come back at once.
fn retry() -> u64 {
    rand::rng().random_range(500..3000)
}

fn format(batch: &[OutgoingMessage]) -> Bytes {
    let size = batch
        .iter()
        .map(|outgoing| outgoing.cursor.len() + outgoing.message.len() + 16)
        .sum();
    let mut text = Vec::with_capacity(size);
    for OutgoingMessage { cursor, message } in batch {
        text.extend_from_slice(b"id: ");
        text.extend_from_slice(cursor.as_bytes());
        text.extend_from_slice(b"\ndata: ");
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
