//! Where a session is held: what it has of its worker, and what its worker sees of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use baton_session::audit::AuditLog;
use baton_session::sync::MutexExt as _;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::admission::SessionAdmission;
use crate::prompt_content::PromptCapabilities;
use crate::metrics::WorkerMetrics;
use crate::release_hook::ReleaseHook;

/// The context that a session task gets from its worker.
pub(crate) struct SessionContext {
    /// Something arrived in the inbox.
    pub inbox: Arc<Notify>,
    pub place: Arc<SessionSlot>,
    /// The worker stops: hand the session over at the next step.
    pub stop: CancellationToken,
    /// The worker waits no longer for turns that cannot be moved.
    pub interrupt: CancellationToken,
    /// The claim was lost.
    pub lost: CancellationToken,
    /// Content types that the agent takes in a prompt.
    pub accepts: PromptCapabilities,
    /// Checks what sessions may work with.
    pub admission: Arc<SessionAdmission>,
    pub on_release: Option<ReleaseHook>,
    pub metrics: WorkerMetrics,
    pub audit: AuditLog,
}

/// A session's place at its worker.
#[derive(Default)]
pub(crate) struct SessionSlot {
    /// Since when it only rests here.
    pub idle_since: Mutex<Option<Instant>>,
    /// Somebody else needs the place.
    pub evict: Notify,
    /// A turn runs here that cannot be moved.
    pub has_unmovable_turn: AtomicBool,
}

impl SessionSlot {
    pub fn idle_since(&self) -> Option<Instant> {
        *self.idle_since.locked()
    }
}

/// Says so as long as it is there.
pub(super) struct UnmovableTurnGuard(Arc<SessionSlot>);

impl UnmovableTurnGuard {
    pub fn of(place: &Arc<SessionSlot>) -> Self {
        place.has_unmovable_turn.store(true, Ordering::Relaxed);
        Self(place.clone())
    }
}

impl Drop for UnmovableTurnGuard {
    fn drop(&mut self) {
        self.0.has_unmovable_turn.store(false, Ordering::Relaxed);
    }
}
