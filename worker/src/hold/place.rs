//! Where a session is held: what it has of its worker, and what its worker sees of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use baton_session::audit::Audit;
use baton_session::sync::MutexExt as _;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::admission::Admission;
use crate::content::Accepts;
use crate::metrics::Metrics;
use crate::release::ReleaseHook;

/// The context that a session task gets from its worker.
pub(crate) struct Reins {
    /// Something arrived in the inbox.
    pub inbox: Arc<Notify>,
    pub place: Arc<Place>,
    /// The worker stops: hand the session over at the next step.
    pub stop: CancellationToken,
    /// The worker waits no longer for turns that cannot be moved.
    pub cut: CancellationToken,
    /// The claim was lost.
    pub lost: CancellationToken,
    /// Content types that the agent takes in a prompt.
    pub accepts: Accepts,
    /// Checks what sessions may work with.
    pub admission: Arc<Admission>,
    pub on_release: Option<ReleaseHook>,
    pub metrics: Metrics,
    pub audit: Audit,
}

/// A session's place at its worker.
#[derive(Default)]
pub(crate) struct Place {
    /// Since when it only rests here.
    pub resting: Mutex<Option<Instant>>,
    /// Somebody else needs the place.
    pub leave: Notify,
    /// A turn runs here that cannot be moved.
    pub bound: AtomicBool,
}

impl Place {
    pub fn resting_since(&self) -> Option<Instant> {
        *self.resting.locked()
    }
}

/// Says so as long as it is there.
pub(super) struct Bound(Arc<Place>);

impl Bound {
    pub fn of(place: &Arc<Place>) -> Self {
        place.bound.store(true, Ordering::Relaxed);
        Self(place.clone())
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        self.0.bound.store(false, Ordering::Relaxed);
    }
}
