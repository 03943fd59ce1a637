//! When a stream of a gateway that drains may end: between turns, and not all of them at once.

use std::sync::Arc;
use std::time::Duration;

use baton_session::id::ConnectionId;
use rand::RngExt as _;
use tokio::time::Instant;

use super::feed::MessageFeed;
use crate::stream::StreamServices;

/// While a turn runs, this often is looked whether it still does.
const RECHECK_INTERVAL: Duration = Duration::from_millis(500);

pub struct StreamDrain {
    services: Arc<StreamServices>,
    connection: Option<ConnectionId>,
    /// Not before this; `None` until the stream has heard that the gateway drains.
    stay_until: Option<Instant>,
    /// When to look whether it may end.
    check_at: Instant,
    busy: bool,
    /// Heard that nobody can come any more.
    is_closing: bool,
}

impl StreamDrain {
    pub fn new(services: Arc<StreamServices>, connection: Option<ConnectionId>) -> Self {
        let now = Instant::now();
        let stagger = services.drain.pace.stagger;
        // A client that opens a stream now is about to use it, and must not have to come back at
        // once.
        let young = services
            .drain
            .has_begun()
            .then(|| now + stagger + jitter(stagger));
        Self {
            stay_until: young,
            check_at: young.unwrap_or(now),
            services,
            connection,
            busy: false,
            is_closing: false,
        }
    }

    /// When the wait for messages has to be interrupted, if not earlier for another reason.
    pub fn deadline(&self, other: Instant) -> Instant {
        match self.stay_until {
            Some(_) => self.check_at.min(other),
            None => other,
        }
    }

    /// Resolves when the gateway begins to drain, and when it closes its door; never for what the
    /// stream knows.
    pub async fn changed(&self) {
        match self.stay_until {
            None => self.services.drain.begun.cancelled().await,
            Some(_) if !self.is_closing => self.services.drain.closed.cancelled().await,
            Some(_) => std::future::pending().await,
        }
    }

    /// Something was written; it may have been the last word of a turn.
    pub fn record_write(&mut self) {
        if let Some(until) = self.stay_until {
            self.check_at = until;
        }
    }

    /// To be asked when there is nothing to write. True if the stream is to end now.
    pub async fn is_due(&mut self, feed: &mut impl MessageFeed) -> bool {
        let now = Instant::now();
        if self.stay_until.is_some()
            && !self.is_closing
            && self.services.drain.closed.is_cancelled()
        {
            // Its client cannot come back to this gateway, so there is no reason to stay.
            self.is_closing = true;
            let soon = now + jitter(self.services.drain.pace.stagger / 4);
            self.stay_until = self.stay_until.min(Some(soon));
            self.check_at = self.check_at.min(soon);
        }
        if !self.services.drain.has_begun() || (self.stay_until.is_some() && now < self.check_at) {
            return false;
        }
        if self.stay_until.is_none() {
            // All streams hear of it at the same moment: only what is known here counts for now.
            self.set_busy(feed.seems_busy());
            let until = now + jitter(self.services.drain.pace.stagger);
            self.stay_until = Some(until);
            self.check_at = until;
            return false;
        }
        // A store that is away says nothing about the turn.
        let busy = feed.seems_busy() || feed.is_busy().await.unwrap_or(true);
        self.set_busy(busy);
        let connection = self.connection.as_ref();
        if busy || connection.is_some_and(|connection| self.services.drain.is_busy(connection)) {
            self.check_at = now + RECHECK_INTERVAL;
            return false;
        }
        self.services.metrics.drained.inc();
        true
    }

    fn set_busy(&mut self, busy: bool) {
        let Some(connection) = self.connection.as_ref().filter(|_| busy != self.busy) else {
            return;
        };
        if busy {
            self.services.drain.set_busy(connection)
        } else {
            self.services.drain.set_idle(connection)
        }
        self.busy = busy;
    }
}

impl Drop for StreamDrain {
    fn drop(&mut self) {
        self.set_busy(false);
    }
}

fn jitter(upto: Duration) -> Duration {
    upto.mul_f64(rand::rng().random_range(0.05..1.0))
}
