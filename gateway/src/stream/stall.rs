//! Streams that wait for their client too long. A body is polled when there is room for more; one
//! that handed something over and was not asked again has a client that does not read. Mostly the
//! socket notices first; but with HTTP/2 one stream may be stuck while the connection goes on.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::metrics::GatewayMetrics;
use crate::net::socket::StallFlag;
use baton_session::sync::MutexExt as _;

type BodyChunks = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

pub struct StallTimeouts {
    limit: Duration,
    metrics: Arc<GatewayMetrics>,
    watches: Mutex<Vec<Weak<StallWatch>>>,
}

/// One stream's. Travels with the response to where its connection is known.
pub struct StallWatch {
    kind: &'static str,
    limit: Duration,
    metrics: Arc<GatewayMetrics>,
    connection: OnceLock<StallFlag>,
    state: Mutex<StallState>,
}

struct StallState {
    /// `None` once it was given up.
    chunks: Option<BodyChunks>,
    /// When something was handed over that nobody has asked more than.
    handed_over: Option<Instant>,
}

impl StallTimeouts {
    pub fn start(
        limit: Duration,
        metrics: Arc<GatewayMetrics>,
        stop: CancellationToken,
    ) -> Arc<Self> {
        let timeouts = Arc::new(Self {
            limit,
            metrics,
            watches: Mutex::default(),
        });
        tokio::spawn(timeouts.clone().check_regularly(stop));
        timeouts
    }

    /// The same chunks, as long as the client asks for them.
    pub fn watch_body(&self, kind: &'static str, chunks: BodyChunks) -> WatchedBody {
        let watch = Arc::new(StallWatch {
            kind,
            limit: self.limit,
            metrics: self.metrics.clone(),
            connection: OnceLock::new(),
            state: Mutex::new(StallState {
                chunks: Some(chunks),
                handed_over: None,
            }),
        });
        self.watches().push(Arc::downgrade(&watch));
        WatchedBody(watch)
    }

    fn watches(&self) -> MutexGuard<'_, Vec<Weak<StallWatch>>> {
        self.watches.locked()
    }

    async fn check_regularly(self: Arc<Self>, stop: CancellationToken) {
        let mut ticker = interval(self.limit / 4);
        ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticker.tick() => {}
                _ = stop.cancelled() => return,
            }
            let mut open = Vec::new();
            self.watches().retain(|watch| {
                let watch = watch.upgrade();
                open.extend(watch.clone());
                watch.is_some()
            });
            open.iter().for_each(|watch| watch.give_up_if_stalled());
        }
    }
}

impl StallWatch {
    fn state(&self) -> MutexGuard<'_, StallState> {
        // Also after a feed has panicked: this is called while it is cleared away.
        let state = self.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_on(&self, connection: StallFlag) {
        let _ = self.connection.set(connection);
    }

    fn give_up_if_stalled(&self) {
        let mut state = self.state();
        let waits = state.handed_over.map(|at| at.elapsed());
        if waits.is_some_and(|waits| waits >= self.limit) && state.chunks.is_some() {
            // The stream's place is free from now on, whatever becomes of the connection.
            state.chunks = None;
            drop(state);
            self.metrics.stalled(self.kind);
        }
    }
}

impl Drop for StallWatch {
    /// The socket may have noticed before.
    fn drop(&mut self) {
        let open = self.state().chunks.is_some();
        if open && self.connection.get().is_some_and(StallFlag::get) {
            self.metrics.stalled(self.kind);
        }
    }
}

pub struct WatchedBody(Arc<StallWatch>);

impl WatchedBody {
    pub fn watch(&self) -> Arc<StallWatch> {
        self.0.clone()
    }
}

impl Stream for WatchedBody {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut state = self.0.state();
        state.handed_over = None;
        let Some(chunks) = &mut state.chunks else {
            return Poll::Ready(None);
        };
        let chunk = chunks.as_mut().poll_next(context);
        if let Poll::Ready(Some(_)) = chunk {
            state.handed_over = Some(Instant::now());
        }
        chunk.map(|chunk| chunk.map(Ok))
    }
}
