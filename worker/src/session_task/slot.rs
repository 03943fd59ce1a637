//! The slot of a session at its worker: the context that the session gets, and the state that the
//! worker sees.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use baton_session::audit::AuditLog;
use baton_session::sync::MutexExt as _;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::admission::SessionAdmission;
use crate::inbox_hints::InboxHints;
use crate::metrics::WorkerMetrics;
use crate::prompt_content::PromptCapabilities;
use crate::release_hook::ReleaseHook;

/// The context that a session task gets from its worker.
pub(crate) struct SessionContext {
    /// Something arrived in the inbox.
    pub inbox: Arc<InboxHints>,
    pub slot: Arc<SessionSlot>,
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

/// The state of a session that its worker sees.
#[derive(Default)]
pub(crate) struct SessionSlot {
    /// If it is idle here.
    pub idle: Mutex<Option<IdleSession>>,
    /// Another session needs the slot.
    pub evict: Notify,
    /// A turn runs here that cannot be moved.
    pub has_unmovable_turn: AtomicBool,
}

#[derive(Clone, Copy)]
pub(crate) struct IdleSession {
    pub since: Instant,
    /// Its agent would have to be started again elsewhere.
    pub has_agent: bool,
}

impl SessionSlot {
    pub fn idle(&self) -> Option<IdleSession> {
        *self.idle.locked()
    }
}

/// Marks the slot as having an unmovable turn while it exists.
pub(super) struct UnmovableTurnGuard(Arc<SessionSlot>);

impl UnmovableTurnGuard {
    pub fn of(slot: &Arc<SessionSlot>) -> Self {
        slot.has_unmovable_turn.store(true, Ordering::Relaxed);
        Self(slot.clone())
    }
}

impl Drop for UnmovableTurnGuard {
    fn drop(&mut self) {
        self.0.has_unmovable_turn.store(false, Ordering::Relaxed);
    }
}
