//! Streams that wait for their client too long. A body is polled when there is room for more; one that
//! handed something over and was not asked again has a client that does not read. Mostly the socket
//! notices first; but with HTTP/2 one stream may be stuck while the connection goes on.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::socket::GaveUp;
use baton_session::sync::MutexExt as _;

type Chunks = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

pub struct Patience {
    limit: Duration,
    metrics: Arc<Metrics>,
    places: Mutex<Vec<Weak<Place>>>,
}

/// One stream's. Travels with the response to where its connection is known.
pub struct Place {
    kind: &'static str,
    limit: Duration,
    metrics: Arc<Metrics>,
    connection: OnceLock<GaveUp>,
    state: Mutex<State>,
}

struct State {
    /// `None` once it was given up.
    chunks: Option<Chunks>,
    /// When something was handed over that nobody has asked more than.
    handed_over: Option<Instant>,
}

impl Patience {
    pub fn start(limit: Duration, metrics: Arc<Metrics>, stop: CancellationToken) -> Arc<Self> {
        let patience = Arc::new(Self {
            limit,
            metrics,
            places: Mutex::default(),
        });
        tokio::spawn(patience.clone().watch(stop));
        patience
    }

    /// The same chunks, as long as the client asks for them.
    pub fn with(&self, kind: &'static str, chunks: Chunks) -> Patient {
        let place = Arc::new(Place {
            kind,
            limit: self.limit,
            metrics: self.metrics.clone(),
            connection: OnceLock::new(),
            state: Mutex::new(State {
                chunks: Some(chunks),
                handed_over: None,
            }),
        });
        self.places().push(Arc::downgrade(&place));
        Patient(place)
    }

    fn places(&self) -> MutexGuard<'_, Vec<Weak<Place>>> {
        self.places.locked()
    }

    async fn watch(self: Arc<Self>, stop: CancellationToken) {
        let mut ticker = interval(self.limit / 4);
        ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticker.tick() => {}
                _ = stop.cancelled() => return,
            }
            let mut open = Vec::new();
            self.places().retain(|place| {
                let place = place.upgrade();
                open.extend(place.clone());
                place.is_some()
            });
            open.iter().for_each(|place| place.give_up_if_stalled());
        }
    }
}

impl Place {
    fn state(&self) -> MutexGuard<'_, State> {
        // Also after a feed has panicked: this is called while it is cleared away.
        let state = self.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_on(&self, connection: GaveUp) {
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

impl Drop for Place {
    /// The socket may have noticed before.
    fn drop(&mut self) {
        let open = self.state().chunks.is_some();
        if open && self.connection.get().is_some_and(GaveUp::get) {
            self.metrics.stalled(self.kind);
        }
    }
}

pub struct Patient(Arc<Place>);

impl Patient {
    pub fn place(&self) -> Arc<Place> {
        self.0.clone()
    }
}

impl Stream for Patient {
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
