//! Stopping without cutting anybody off. A gateway that was told to stop says that it is not ready,
//! goes on serving whatever still reaches it, lets streams end between turns, and leaves when
//! nothing is open any more, or when its grace is over.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use baton_session::id::ConnectionId;
use baton_session::sync::MutexExt as _;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// How long stopping takes.
#[derive(Clone, Copy, Debug)]
pub struct DrainPace {
    /// After this the streams that are left are cut.
    pub grace: Duration,
    /// Streams that could end at once end within this time, so that their clients don't come back
    /// all together. One that is opened while the gateway drains stays as long at least.
    pub stagger: Duration,
    /// Nothing was open for this long: the balancer has noticed, and the process leaves.
    pub linger: Duration,
}

impl Default for DrainPace {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(30),
            stagger: Duration::from_secs(2),
            linger: Duration::from_secs(1),
        }
    }
}

const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub struct DrainState {
    pub pace: DrainPace,
    /// Fires when the process was told to stop.
    pub begun: CancellationToken,
    /// Fires when nobody can come any more.
    pub closed: CancellationToken,
    /// Requests and streams under way, and all there ever were.
    open: Arc<AtomicUsize>,
    entered: AtomicU64,
    /// Streams held here whose sessions are in a turn, by connection: an SDK client takes the end
    /// of any stream for the end of all.
    busy: Mutex<HashMap<ConnectionId, usize>>,
}

impl DrainState {
    pub fn new(pace: DrainPace, begun: CancellationToken) -> Self {
        Self {
            pace,
            begun,
            closed: CancellationToken::new(),
            open: Arc::default(),
            entered: AtomicU64::new(0),
            busy: Mutex::default(),
        }
    }

    pub fn has_begun(&self) -> bool {
        self.begun.is_cancelled()
    }

    /// Something that has to be finished before the process may leave.
    pub fn enter(&self) -> OpenGuard {
        self.entered.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::AcqRel);
        OpenGuard(self.open.clone())
    }

    /// Waits until nothing has been open for a while.
    pub async fn done(&self) {
        let mut quiet = (self.entered.load(Ordering::Relaxed), Instant::now());
        loop {
            let entered = self.entered.load(Ordering::Relaxed);
            if entered != quiet.0 || self.is_open() {
                quiet = (entered, Instant::now());
            } else if quiet.1.elapsed() >= self.pace.linger {
                return;
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Waits until nothing is open.
    pub async fn empty(&self) {
        while self.is_open() {
            sleep(POLL_INTERVAL).await;
        }
    }

    fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire) > 0
    }

    fn busy(&self) -> MutexGuard<'_, HashMap<ConnectionId, usize>> {
        self.busy.locked()
    }

    pub fn is_busy(&self, connection: &ConnectionId) -> bool {
        self.busy().contains_key(connection)
    }

    pub fn set_busy(&self, connection: &ConnectionId) {
        *self.busy().entry(connection.clone()).or_default() += 1;
    }

    pub fn set_idle(&self, connection: &ConnectionId) {
        let mut busy = self.busy();
        if let Some(count) = busy.get_mut(connection) {
            *count -= 1;
            if *count == 0 {
                busy.remove(connection);
            }
        }
    }
}

pub struct OpenGuard(Arc<AtomicUsize>);

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
