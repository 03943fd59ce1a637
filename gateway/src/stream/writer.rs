//! What a stream does next, on whichever wire: it writes what there is, keeps silent connections
//! alive, starts anew after a loss, and ends. Encoders ask for one step after the other, when their
//! client has taken the last.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::StreamServices;
use super::drain_stream::StreamDrain;
use super::feed::{self, FeedOutput, MessageFeed, OutgoingMessage, StartPosition};
use super::stream_registry::StreamHolder;
use crate::access::stream_authority::StreamAuthority;

pub enum WriterStep {
    /// The stream begins.
    Open(StartPosition),
    Batch(Vec<OutgoingMessage>),
    /// What was delivered does not exist any more: the stream goes on from here.
    Reset(StartPosition),
    /// Nothing happened for a while.
    KeepAlive,
    /// The last step.
    End(StreamEnd),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// There is nothing more to come, or its client has opened the stream elsewhere.
    Finished,
    /// Its log cannot be read.
    Unreadable,
    /// Another holder has the stream.
    Taken,
    /// The gateway drains, and nothing is under way.
    Drained,
    /// The gateway stops.
    Stopped,
    /// The credential has expired, or something was revoked.
    Lapsed,
    /// What was delivered does not exist any more, and the client cannot be told.
    LostTail,
}

pub struct StreamWriter<F> {
    services: Arc<StreamServices>,
    feed: F,
    /// Absent for the body of a POST, which is nobody's registered stream.
    holder: Option<StreamHolder>,
    /// Fires when somebody else holds the stream.
    lost: CancellationToken,
    drain: StreamDrain,
    authority: StreamAuthority,
    /// The client can go on from a cursor.
    resumable: bool,
    opened: bool,
}

impl<F: MessageFeed> StreamWriter<F> {
    pub fn new(
        services: Arc<StreamServices>,
        feed: F,
        holder: Option<StreamHolder>,
        authority: StreamAuthority,
    ) -> Self {
        let connection = holder.as_ref().map(|holder| holder.connection().clone());
        let lost = holder.as_ref().map(|holder| holder.lost.clone());
        Self {
            drain: StreamDrain::new(services.clone(), connection),
            services,
            feed,
            lost: lost.unwrap_or_default(),
            holder,
            authority,
            resumable: true,
            opened: false,
        }
    }

    /// One that cannot go on from a cursor has to begin anew.
    pub fn resumable(mut self, resumable: bool) -> Self {
        self.resumable = resumable;
        self
    }

    /// Not to be called after the end.
    pub async fn next(&mut self) -> WriterStep {
        let step = self.next_step().await;
        if let WriterStep::End(end) = &step {
            let connection = self.holder.as_ref().map(StreamHolder::connection);
            tracing::debug!(
                stream = F::KIND,
                connection.id = connection.map(tracing::field::display),
                why = ?end,
                "stream ended"
            );
        }
        step
    }

    async fn next_step(&mut self) -> WriterStep {
        if !self.opened {
            self.opened = true;
            return WriterStep::Open(self.start());
        }
        // Not only while it waits: there may always be something to write.
        if self.lost.is_cancelled() {
            return WriterStep::End(StreamEnd::Taken);
        }
        if self.authority.is_over(&self.services.issuer.revocations) {
            return WriterStep::End(StreamEnd::Lapsed);
        }
        let keep_alive = Instant::now() + self.services.keep_alive;
        loop {
            match self.wait(keep_alive).await {
                Err(end) => return WriterStep::End(end),
                Ok(FeedOutput::Batch(batch)) => return self.write(batch),
                Ok(FeedOutput::Reset) => return self.start_anew(),
                Ok(FeedOutput::End) => return WriterStep::End(StreamEnd::Finished),
                Ok(FeedOutput::Unreadable) => return WriterStep::End(StreamEnd::Unreadable),
                Ok(FeedOutput::Idle) if self.drain.is_due(&mut self.feed).await => {
                    return WriterStep::End(StreamEnd::Drained);
                }
                Ok(FeedOutput::Idle) if Instant::now() < keep_alive => {}
                Ok(FeedOutput::Idle) => return WriterStep::KeepAlive,
            }
        }
    }

    /// What there is comes before a reason to end.
    async fn wait(&mut self, keep_alive: Instant) -> Result<FeedOutput, StreamEnd> {
        let deadline = self.drain.deadline(keep_alive);
        tokio::select! {
            biased;
            output = feed::next(&mut self.feed, deadline, self.drain.changed()) => Ok(output),
            _ = self.services.stop.cancelled() => Err(StreamEnd::Stopped),
            _ = self.lost.cancelled() => Err(StreamEnd::Taken),
            _ = self.authority.lapses(&self.services.issuer.revocations) => Err(StreamEnd::Lapsed),
        }
    }

    fn write(&mut self, batch: Vec<OutgoingMessage>) -> WriterStep {
        self.services.metrics.events.inc_by(batch.len() as u64);
        if let Some(last) = batch.last() {
            self.record(&last.cursor);
        }
        WriterStep::Batch(batch)
    }

    fn start_anew(&mut self) -> WriterStep {
        let start = self.start();
        if !self.resumable {
            return WriterStep::End(StreamEnd::LostTail);
        }
        // The client must not wait again for what is lost when it is back.
        self.record(&start.cursor);
        WriterStep::Reset(start)
    }

    /// How far the stream is written, for a client that comes back without a cursor.
    fn record(&mut self, cursor: &str) {
        self.drain.record_write();
        if let Some(holder) = &self.holder {
            holder.record(cursor);
        }
    }

    fn start(&self) -> StartPosition {
        let start = self.feed.start();
        if start.reset.is_some() {
            self.services.metrics.resets.inc();
        }
        start
    }
}
