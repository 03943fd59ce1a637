//! Tells the store which streams are held here, and how far they were written, at least every
//! second and when a stream ends: a client that comes back without a cursor goes on from there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use baton_session::id::{ConnectionId, random_text};
use baton_session::store::{OutboxProgress, STREAM_TTL, Store, StreamId, StreamTouch};
use baton_session::sync::MutexExt as _;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection_feed::ConnectionCursor;

const FLUSH: Duration = Duration::from_secs(1);
/// So long after it was written, an entry of an outbox counts as received: a client that lost its
/// connection has come back by then.
const SETTLED_AFTER: Duration = Duration::from_secs(60);
/// Clients open a session's stream before they load it; this many may wait for that.
const MAX_UNOPENED: usize = 16;

pub struct StreamRegistry {
    store: Arc<dyn Store>,
    entries: Mutex<HashMap<String, HeldStream>>,
    unopened: Mutex<HashMap<ConnectionId, usize>>,
    closing: TaskTracker,
}

struct HeldStream {
    stream: StreamId,
    written: Option<String>,
    /// That is not recorded yet.
    is_news: bool,
    touched: Instant,
    /// Of a connection's stream.
    outbox: Option<OutboxSettling>,
    lost: CancellationToken,
}

/// How far an outbox is needed by what was written, and by what was written long enough ago: up to
/// the entry that the cursor names, or the first of those that hold its positions.
struct OutboxSettling {
    upto: u64,
    settled: u64,
    /// The entry that will be settled next, and since when it is written.
    mark: u64,
    since: Instant,
}

impl OutboxSettling {
    fn new(upto: u64) -> Self {
        Self {
            upto,
            settled: 0,
            mark: upto,
            since: Instant::now(),
        }
    }

    fn delivered(&mut self) -> OutboxProgress {
        if self.since.elapsed() >= SETTLED_AFTER {
            self.settled = self.mark;
            self.mark = self.upto;
            self.since = Instant::now();
        }
        // Less than before, after a reset.
        OutboxProgress {
            upto: self.upto,
            settled: self.settled.min(self.upto),
        }
    }
}

/// The right to write a stream; given back when dropped.
pub struct StreamHolder {
    pub name: String,
    /// Fires when the store says that somebody else holds the stream. Normally a notice says so
    /// first; a notice may be lost.
    pub lost: CancellationToken,
    connection: ConnectionId,
    stream_registry: Arc<StreamRegistry>,
}

impl StreamRegistry {
    pub fn start(store: Arc<dyn Store>, stop: CancellationToken) -> Arc<Self> {
        let stream_registry = Arc::new(Self {
            store,
            entries: Mutex::default(),
            unopened: Mutex::default(),
            closing: TaskTracker::new(),
        });
        tokio::spawn(stream_registry.clone().keep(stop));
        stream_registry
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<String, HeldStream>> {
        self.entries.locked()
    }

    pub fn hold(self: &Arc<Self>, stream: StreamId) -> StreamHolder {
        let name = random_text(12);
        let lost = CancellationToken::new();
        let connection = stream.connection.clone();
        let entry = HeldStream {
            stream,
            written: None,
            is_news: false,
            touched: Instant::now(),
            outbox: None,
            lost: lost.clone(),
        };
        self.entries().insert(name.clone(), entry);
        StreamHolder {
            name,
            lost,
            connection,
            stream_registry: self.clone(),
        }
    }

    /// A place for a stream whose session the connection has not opened; `None` if there are too
    /// many already.
    pub fn unopened(self: &Arc<Self>, connection: &ConnectionId) -> Option<UnopenedStream> {
        let mut unopened = self.unopened.locked();
        let count = unopened.entry(connection.clone()).or_default();
        if *count >= MAX_UNOPENED {
            return None;
        }
        *count += 1;
        Some(UnopenedStream {
            connection: connection.clone(),
            stream_registry: self.clone(),
        })
    }

    async fn keep(self: Arc<Self>, stop: CancellationToken) {
        let mut ticker = interval(FLUSH);
        ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticker.tick() => {}
                _ = stop.cancelled() => return,
            }
            let due = self.due();
            match self.store.touch_streams(&due).await {
                Ok(lost) => self.end(&lost),
                Err(error) => {
                    self.put_back(&due);
                    let streams = due.len();
                    tracing::warn!(%error, streams, "could not record how far streams were \
                        written");
                }
            }
        }
    }

    fn end(&self, lost: &[String]) {
        let entries = self.entries();
        for entry in lost.iter().filter_map(|holder| entries.get(holder)) {
            entry.lost.cancel();
        }
    }

    fn due(&self) -> Vec<StreamTouch> {
        let now = Instant::now();
        let mut due = Vec::new();
        for (name, entry) in self.entries().iter_mut() {
            if entry.is_news || now - entry.touched > STREAM_TTL / 3 {
                entry.touched = now;
                let is_news = std::mem::take(&mut entry.is_news);
                let written = entry.written.clone().filter(|_| is_news);
                let stream = entry.stream.clone();
                due.push(StreamTouch {
                    stream,
                    holder: name.clone(),
                    written,
                    delivered: entry.outbox.as_mut().map(OutboxSettling::delivered),
                });
            }
        }
        due
    }

    /// Failed records are due again, or something newer.
    fn put_back(&self, touches: &[StreamTouch]) {
        let mut entries = self.entries();
        for touch in touches {
            if let Some(entry) = entries.get_mut(&touch.holder) {
                entry.is_news |= touch.written.is_some();
            }
        }
    }

    /// Waits until the ends of all streams are recorded, also of those that are still open because
    /// their clients don't read.
    pub async fn settle(&self) {
        let left: Vec<_> = self.entries().drain().collect();
        for (holder, entry) in left {
            self.close(holder, entry);
        }
        self.closing.close();
        self.closing.wait().await;
    }

    fn close(&self, holder: String, mut entry: HeldStream) {
        let delivered = entry.outbox.as_mut().map(OutboxSettling::delivered);
        let touch = StreamTouch {
            delivered,
            stream: entry.stream,
            holder,
            written: entry.written,
        };
        let store = self.store.clone();
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        self.closing.spawn_on(
            async move {
                if let Err(error) = store.close_stream(&touch).await {
                    tracing::warn!(%error, "could not record the end of a stream");
                }
            },
            &runtime,
        );
    }
}

/// Counts a stream until its session is opened, or it ends.
pub struct UnopenedStream {
    connection: ConnectionId,
    stream_registry: Arc<StreamRegistry>,
}

impl Drop for UnopenedStream {
    fn drop(&mut self) {
        let mut unopened = self.stream_registry.unopened.locked();
        if let Some(count) = unopened.get_mut(&self.connection) {
            *count -= 1;
            if *count == 0 {
                unopened.remove(&self.connection);
            }
        }
    }
}

impl StreamHolder {
    pub fn connection(&self) -> &ConnectionId {
        &self.connection
    }

    pub fn record(&self, cursor: &str) {
        if let Some(entry) = self.stream_registry.entries().get_mut(&self.name) {
            entry.written = Some(cursor.to_owned());
            entry.is_news = true;
            if entry.stream.session.is_none()
                && let Some(upto) = ConnectionCursor::first_needed(cursor)
            {
                let outbox = entry
                    .outbox
                    .get_or_insert_with(|| OutboxSettling::new(upto));
                outbox.upto = upto;
                outbox.mark = outbox.mark.min(upto);
            }
        }
    }
}

impl Drop for StreamHolder {
    fn drop(&mut self) {
        let entry = self.stream_registry.entries().remove(&self.name);
        if let Some(entry) = entry {
            self.stream_registry.close(self.name.clone(), entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_was_written_is_settled_a_minute_later() {
        let mut outbox = OutboxSettling::new(5);
        assert_eq!(outbox.delivered().settled, 0);
        tokio::time::advance(SETTLED_AFTER).await;
        outbox.upto = 9;
        let delivered = outbox.delivered();
        assert_eq!((delivered.upto, delivered.settled), (9, 5));
        tokio::time::advance(SETTLED_AFTER / 2).await;
        assert_eq!(outbox.delivered().settled, 5);
        tokio::time::advance(SETTLED_AFTER / 2).await;
        assert_eq!(outbox.delivered().settled, 9);
        // The store has lost what was written.
        outbox.upto = 3;
        assert_eq!(outbox.delivered().settled, 3);
    }
}
