//! Collects what a session says and appends it in frames: the first event at once, then whatever
//! gathers until the next tick. One order, one writer.

use std::pin::pin;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::time::Duration;

use baton_session::audit::AuditLog;
use baton_session::command::{CommandId, QueuedCommand};
use baton_session::event::{Event, is_aside};
use baton_session::id::{LogId, Nonce, SessionId};
use baton_session::store::{
    self, AnsweredRequest, AppendOutcome, AppendRequest, Claim, ClaimToken, Store,
};
use baton_session::sync::MutexExt as _;
use serde_json::{Map, Value};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tracing::Instrument as _;

use crate::conversation_changes::ConversationChanges;
use crate::metrics::WorkerMetrics;
use crate::permission_audit::PermissionAudit;
use crate::rewrite_buffer::{self, RewriteBuffer};
use crate::session_metadata::{MetadataChanges, SessionMetadata};
use crate::store_retry::retry_while_unavailable;
use crate::trace;

/// Invisible to people, and worth several times its cost to the store.
const WINDOW: Duration = Duration::from_millis(25);
/// An agent that is faster than the store waits when this much is unwritten. It bounds a frame, and
/// with it what readers hold at a time.
const MAX_BUFFERED_BYTES: usize = 64 << 10;
/// A failover may lose what replicas have not confirmed. This is less than what is kept to be
/// written again.
const CONFIRMED_EVERY: usize = rewrite_buffer::MAX_BYTES / 2;
/// A store that loses the same frames more often than this is not worth the trouble.
const MAX_HEALINGS: usize = 5;

/// The windows of all sessions of a process end at the same moments: what they have then travels
/// together, and wakes the store and its readers once.
fn until_next_tick() -> Duration {
    static FIRST: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
    let into = FIRST.elapsed().as_micros() % WINDOW.as_micros();
    WINDOW - Duration::from_micros(into as u64)
}

pub(crate) struct EventWriter {
    store: Arc<dyn Store>,
    session: SessionId,
    pub permissions: PermissionAudit,
    token: ClaimToken,
    metrics: WorkerMetrics,
    nonce: Nonce,
    state: Mutex<WriterState>,
    written: Mutex<RewriteBuffer>,
    filled: Notify,
    emptied: Notify,
    stored: Notify,
}

struct WriterState {
    events: Vec<Event>,
    bytes: usize,
    /// What has to be kept of the appends since the last one that replicas had to confirm.
    unconfirmed: usize,
    /// Something in the buffer must not be lost: replicas have to confirm the next append.
    must_last: bool,
    acks: Vec<CommandId>,
    requests: Vec<AnsweredRequest>,
    /// The number of the next event to be buffered.
    next: u64,
    /// The number of the first event that the store does not have.
    unwritten: u64,
    /// Unanswered requests of the agent, by number.
    pending: Vec<u64>,
    pending_changed: bool,
    metadata: SessionMetadata,
    flushed_at: Option<Instant>,
    /// It was said that the agent wants too much to be kept.
    warned: bool,
}

enum WriteOutcome {
    Done { released: bool },
    Gap { head: u64 },
}

/// Why a session cannot be written any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionLost {
    #[error("another worker holds the session now")]
    Fenced,
    #[error("the log lost its tail: it ends at {head}")]
    Gap { head: u64 },
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl EventWriter {
    pub fn new(
        store: Arc<dyn Store>,
        claim: &Claim,
        metrics: WorkerMetrics,
        audit: AuditLog,
    ) -> Self {
        let state = WriterState {
            events: Vec::new(),
            bytes: 0,
            unconfirmed: 0,
            must_last: false,
            acks: Vec::new(),
            requests: Vec::new(),
            next: claim.head + 1,
            unwritten: claim.head + 1,
            pending: Vec::new(),
            pending_changed: false,
            metadata: SessionMetadata::new(&claim.bound),
            flushed_at: None,
            warned: false,
        };
        Self {
            store,
            session: claim.session.clone(),
            permissions: PermissionAudit::new(audit, claim.session.clone()),
            token: claim.token.clone(),
            metrics,
            nonce: Nonce::random(),
            state: Mutex::new(state),
            written: Mutex::default(),
            filled: Notify::new(),
            emptied: Notify::new(),
            stored: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, WriterState> {
        self.state.locked()
    }

    /// A name that is made of numbers, as clients are to know it: in a store that was restored from
    /// a backup these numbers may have been given before.
    pub fn unique_name(&self, name: String) -> String {
        match self.store.restored() {
            Some(drawn) => format!("{name}-{drawn}"),
            None => name,
        }
    }

    /// An event that is in the log.
    pub async fn read(&self, seq: u64) -> store::Result<Option<Event>> {
        let log = LogId::Session(self.session.clone());
        let page = retry_while_unavailable(|| self.store.read(&log, seq, 1)).await?;
        let mut events = page.iter().flat_map(|frame| frame.numbered());
        let found = events.find(|(number, _)| *number == seq);
        Ok(found.map(|(_, event)| event.clone()))
    }

    /// Returns the number the event will have.
    pub fn push(&self, event: Event) -> u64 {
        self.push_into(self.state(), event)
    }

    /// The same for an event that others rely on: replicas have to confirm it.
    pub fn push_lasting(&self, event: Event) -> u64 {
        let mut state = self.state();
        state.must_last = true;
        self.push_into(state, event)
    }

    fn push_into(&self, mut state: MutexGuard<'_, WriterState>, event: Event) -> u64 {
        let seq = state.next;
        state.next += 1;
        state.bytes += event.size();
        match &event {
            Event::Request { .. } => {
                state.pending.push(seq);
                state.pending_changed = true;
            }
            Event::Update { message, .. } => state.metadata.read(message),
            _ => {}
        }
        state.events.push(event);
        drop(state);
        self.filled.notify_one();
        seq
    }

    /// The command leaves the inbox together with what is buffered now.
    pub fn ack(&self, queued: &QueuedCommand) {
        let request = AnsweredRequest::of(queued);
        let mut state = self.state();
        state.acks.push(queued.id);
        state.requests.extend(request);
        drop(state);
        self.filled.notify_one();
    }

    /// As [`Self::ack`], for another name of a request that is acknowledged.
    pub fn ack_name(&self, command: CommandId) {
        self.state().acks.push(command);
        self.filled.notify_one();
    }

    /// Whether something is done with that is not written yet.
    pub fn has_acks(&self) -> bool {
        !self.state().acks.is_empty()
    }

    /// Requests that are still unanswered after a take-over, or a turn.
    pub fn restore_pending(&self, pending: Vec<u64>) {
        self.state().pending.extend(pending);
    }

    pub fn mark_answered(&self, request: u64) {
        let mut state = self.state();
        state.pending.retain(|seq| *seq != request);
        state.pending_changed = true;
    }

    pub fn clear_pending(&self) {
        self.permissions.forget(|id| !is_aside(id));
        let mut state = self.state();
        state.pending_changed |= !state.pending.is_empty();
        state.pending.clear();
    }

    /// As [`Self::clear_pending`], for requests of an earlier holder that this one has not read.
    pub fn reset_pending(&self) {
        self.state().pending_changed = true;
    }

    /// Identifiers that agents and tools have bound to the session.
    pub fn bound(&self) -> Map<String, Value> {
        self.state().metadata.bound().clone()
    }

    /// Removes all bindings.
    pub fn unbind(&self) {
        self.state().metadata.unbind();
    }

    /// Waits until there is room for more.
    pub async fn wait_for_room(&self) {
        while self.state().bytes > MAX_BUFFERED_BYTES {
            self.emptied.notified().await;
        }
    }

    /// Waits until the store has all that is buffered now.
    pub async fn wait_until_written(&self) {
        let end = self.state().next;
        loop {
            let mut stored = pin!(self.stored.notified());
            stored.as_mut().enable();
            if self.state().unwritten >= end {
                return;
            }
            stored.await;
        }
    }

    /// Waits until something should be written.
    pub async fn wait_until_due(&self) {
        loop {
            let (empty, full, flushed_at) = {
                let state = self.state();
                let empty = state.events.is_empty() && state.acks.is_empty();
                (empty, state.bytes > MAX_BUFFERED_BYTES, state.flushed_at)
            };
            if !empty {
                let is_recent = |at: &Instant| at.elapsed() < WINDOW;
                if flushed_at
                    .filter(|_| !full)
                    .is_some_and(|at| is_recent(&at))
                {
                    sleep(until_next_tick()).await;
                }
                return;
            }
            self.filled.notified().await;
        }
    }

    /// Writes all buffered events. With `release` the session is released in the same step unless
    /// commands wait; returns whether it was. The frame is assembled by the call itself, so that it
    /// matches the changes; only the write is awaited.
    pub fn flush(
        &self,
        changes: ConversationChanges,
        release: bool,
    ) -> impl Future<Output = Result<bool, SessionLost>> + Send + use<'_> {
        let append = self.take(changes, release);
        async move {
            match append {
                Some(append) => self.write(append).await,
                None => Ok(false),
            }
        }
    }

    /// Nothing is under way.
    pub fn rest(&self) {
        self.written().rest();
    }

    async fn write(&self, append: AppendRequest) -> Result<bool, SessionLost> {
        for _ in 0..MAX_HEALINGS {
            match self.append_once(&append).await? {
                WriteOutcome::Done { released } => {
                    let events = append.events.len() as u64;
                    self.metrics.events.inc_by(events);
                    self.state().unwritten = append.first + events;
                    self.stored.notify_waiters();
                    self.written().keep(append);
                    return Ok(released);
                }
                WriteOutcome::Gap { head } => self.rewrite_lost(head).await?,
            }
        }
        let head = append.first - 1;
        Err(SessionLost::Gap { head })
    }

    /// The log ends at `head`, though more was acknowledged: writes the same frames again.
    async fn rewrite_lost(&self, head: u64) -> Result<(), SessionLost> {
        let lost = self.written().after(head);
        let lost = lost.ok_or(SessionLost::Gap { head })?;
        for append in &lost {
            if let WriteOutcome::Gap { .. } = self.append_once(append).await? {
                // It lost more meanwhile. The caller meets that gap, too.
                return Ok(());
            }
        }
        let events: usize = lost.iter().map(|append| append.events.len()).sum();
        self.metrics.rewritten.inc_by(events as u64);
        tracing::warn!(
            session.id = %self.session,
            head,
            events,
            "the store had lost the end of the log: it was written again"
        );
        Ok(())
    }

    /// An agent's output is not dropped because Redis restarts.
    async fn append_once(&self, append: &AppendRequest) -> Result<WriteOutcome, SessionLost> {
        let began = Instant::now();
        let written = retry_while_unavailable(|| self.store.append(append));
        let written = written.instrument(trace::append(&append.events)).await?;
        let trace = trace::answered(&append.events);
        self.metrics.append.observe(began.elapsed(), trace);
        match written {
            AppendOutcome::Done { released, .. } => Ok(WriteOutcome::Done { released }),
            AppendOutcome::Gap { head } => Ok(WriteOutcome::Gap { head }),
            AppendOutcome::Fenced => Err(SessionLost::Fenced),
        }
    }

    fn written(&self) -> MutexGuard<'_, RewriteBuffer> {
        self.written.locked()
    }

    fn take(&self, changes: ConversationChanges, release: bool) -> Option<AppendRequest> {
        let mut state = self.state();
        let (changes, too_long) = changes.bounded();
        if let Some(field) = too_long
            && !std::mem::replace(&mut state.warned, true)
        {
            tracing::warn!(
                session.id = %self.session,
                field,
                "the agent's state is too long: keeping the previous one"
            );
        }
        let metadata = state.metadata.take();
        let nothing = state.events.is_empty()
            && state.acks.is_empty()
            && metadata == MetadataChanges::default();
        if nothing && changes == ConversationChanges::default() && !release {
            return None;
        }
        let events = std::mem::take(&mut state.events);
        let mut append = AppendRequest {
            session: self.session.clone(),
            token: self.token.clone(),
            nonce: self.nonce,
            first: state.next - events.len() as u64,
            events,
            acks: std::mem::take(&mut state.acks),
            requests: std::mem::take(&mut state.requests),
            state: changes.state,
            view: changes.view,
            title: metadata.title,
            usage: metadata.usage,
            bound: metadata.bound,
            pending: std::mem::take(&mut state.pending_changed).then(|| state.pending.clone()),
            release,
            confirmed: false,
        };
        state.unconfirmed += rewrite_buffer::weight(&append);
        let must_last = std::mem::take(&mut state.must_last);
        append.confirmed = must_last || state.unconfirmed >= CONFIRMED_EVERY;
        if append.confirmed {
            state.unconfirmed = 0;
        }
        state.bytes = 0;
        state.flushed_at = Some(Instant::now());
        self.emptied.notify_waiters();
        Some(append)
    }
}

#[cfg(test)]
mod tests;
