//! When a stream of a gateway that drains may end: between turns, and not all of them at once.

use std::sync::Arc;
use std::time::Duration;

use baton_session::id::ConnectionId;
use rand::RngExt as _;
use tokio::time::Instant;

use super::Feed;
use crate::app::App;

/// While a turn runs, this often is looked whether it still does.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

pub struct Leave {
    app: Arc<App>,
    connection: Option<ConnectionId>,
    /// Not before this; `None` until the stream has heard that the gateway drains.
    stay_until: Option<Instant>,
    /// When to look whether it may end.
    look_at: Instant,
    busy: bool,
    /// Heard that nobody can come any more.
    last_call: bool,
}

impl Leave {
    pub fn new(app: Arc<App>, connection: Option<ConnectionId>) -> Self {
        let now = Instant::now();
        let stagger = app.drain.pace.stagger;
        // A client that opens a stream now is about to use it, and must not have to come back at
        // once.
        let young = app
            .drain
            .has_begun()
            .then(|| now + stagger + jitter(stagger));
        Self {
            stay_until: young,
            look_at: young.unwrap_or(now),
            app,
            connection,
            busy: false,
            last_call: false,
        }
    }

    /// When the wait for messages has to be interrupted, if not earlier for another reason.
    pub fn deadline(&self, other: Instant) -> Instant {
        match self.stay_until {
            Some(_) => self.look_at.min(other),
            None => other,
        }
    }

    /// Resolves when the gateway begins to drain, and when it closes its door; never for what the
    /// stream knows.
    pub async fn news(&self) {
        match self.stay_until {
            None => self.app.drain.begun.cancelled().await,
            Some(_) if !self.last_call => self.app.drain.closed.cancelled().await,
            Some(_) => std::future::pending().await,
        }
    }

    /// Something was written; it may have been the last word of a turn.
    pub fn wrote(&mut self) {
        if let Some(until) = self.stay_until {
            self.look_at = until;
        }
    }

    /// To be asked when there is nothing to write. True if the stream is to end now.
    pub async fn is_due(&mut self, feed: &mut impl Feed) -> bool {
        let now = Instant::now();
        if self.stay_until.is_some() && !self.last_call && self.app.drain.closed.is_cancelled() {
            // Its client cannot come back to this gateway, so there is no reason to stay.
            self.last_call = true;
            let soon = now + jitter(self.app.drain.pace.stagger / 4);
            self.stay_until = self.stay_until.min(Some(soon));
            self.look_at = self.look_at.min(soon);
        }
        if !self.app.drain.has_begun() || (self.stay_until.is_some() && now < self.look_at) {
            return false;
        }
        if self.stay_until.is_none() {
            // All streams hear of it at the same moment: only what is known here counts for now.
            self.set_busy(feed.seems_busy());
            let until = now + jitter(self.app.drain.pace.stagger);
            self.stay_until = Some(until);
            self.look_at = until;
            return false;
        }
        // A store that is away says nothing about the turn.
        let busy = feed.seems_busy() || feed.is_busy().await.unwrap_or(true);
        self.set_busy(busy);
        let others = self.connection.as_ref();
        if busy || others.is_some_and(|connection| self.app.drain.is_busy(connection)) {
            self.look_at = now + LOOK_AGAIN;
            return false;
        }
        self.app.metrics.drained.inc();
        true
    }

    fn set_busy(&mut self, busy: bool) {
        let Some(connection) = self.connection.as_ref().filter(|_| busy != self.busy) else {
            return;
        };
        if busy {
            self.app.drain.set_busy(connection)
        } else {
            self.app.drain.set_idle(connection)
        }
        self.busy = busy;
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.set_busy(false);
    }
}

fn jitter(upto: Duration) -> Duration {
    upto.mul_f64(rand::rng().random_range(0.05..1.0))
}
