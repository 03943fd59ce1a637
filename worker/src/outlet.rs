//! Collects what a session says and appends it in frames: the first event at once, then whatever
//! gathers within a short window. One order, one writer.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use baton_session::audit::Audit;
use baton_session::command::{CommandId, Queued};
use baton_session::event::{Event, is_aside};
use baton_session::id::{LogId, Nonce, SessionId};
use baton_session::store::{self, AnsweredRequest, Append, Appended, Claim, ClaimToken, Store};
use baton_session::sync::MutexExt as _;
use serde_json::{Map, Value};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::Instrument as _;

use crate::agent::Changes;
use crate::metrics::Metrics;
use crate::notes::{Noted, Notes};
use crate::permissions::Permissions;
use crate::trace;
use crate::written::{self, Written};

/// Invisible to people, and worth several times its cost to the store.
const WINDOW: Duration = Duration::from_millis(25);
/// An agent that is faster than the store waits when this much is unwritten. It bounds a frame, and
/// with it what readers hold at a time.
const MAX_BUFFERED_BYTES: usize = 64 << 10;
/// A failover may lose what replicas have not confirmed. This is less than what is kept to be written again.
const CONFIRMED_EVERY: usize = written::MAX_BYTES / 2;
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(1);
/// A store that loses the same frames more often than this is not worth the trouble.
const MAX_HEALINGS: usize = 5;

pub(crate) struct Outlet {
    store: Arc<dyn Store>,
    session: SessionId,
    pub permissions: Permissions,
    token: ClaimToken,
    metrics: Metrics,
    nonce: Nonce,
    state: Mutex<State>,
    written: Mutex<Written>,
    filled: Notify,
    emptied: Notify,
}

struct State {
    events: Vec<Event>,
    bytes: usize,
    /// Bytes written since the last append that replicas had to confirm.
    unconfirmed: usize,
    acks: Vec<CommandId>,
    requests: Vec<AnsweredRequest>,
    /// The number of the next event to be buffered.
    next: u64,
    /// Unanswered requests of the agent, by number.
    pending: Vec<u64>,
    pending_changed: bool,
    notes: Notes,
    flushed_at: Option<Instant>,
    /// It was said that the agent wants too much to be kept.
    warned: bool,
}

enum Put {
    Done { released: bool },
    Gap { head: u64 },
}

/// Why a session cannot be written any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Lost {
    #[error("another worker holds the session now")]
    Fenced,
    #[error("the log lost its tail: it ends at {head}")]
    Gap { head: u64 },
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// Repeats a step while the store is away.
pub(crate) async fn sit_out<T, F>(step: impl Fn() -> F) -> store::Result<T>
where
    F: Future<Output = store::Result<T>>,
{
    let mut pause = Duration::from_millis(10);
    loop {
        match step().await {
            Err(store::Error::Unavailable(_)) => sleep(pause).await,
            outcome => return outcome,
        }
        pause = (pause * 2).min(MAX_RETRY_PAUSE);
    }
}

impl Outlet {
    pub fn new(store: Arc<dyn Store>, claim: &Claim, metrics: Metrics, audit: Audit) -> Self {
        let state = State {
            events: Vec::new(),
            bytes: 0,
            unconfirmed: 0,
            acks: Vec::new(),
            requests: Vec::new(),
            next: claim.head + 1,
            pending: Vec::new(),
            pending_changed: false,
            notes: Notes::new(&claim.bound),
            flushed_at: None,
            warned: false,
        };
        Self {
            store,
            session: claim.session.clone(),
            permissions: Permissions::new(audit, claim.session.clone()),
            token: claim.token.clone(),
            metrics,
            nonce: Nonce::random(),
            state: Mutex::new(state),
            written: Mutex::default(),
            filled: Notify::new(),
            emptied: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.locked()
    }

    /// A name that is made of numbers, as clients are to know it: in a store that was restored from a backup these numbers
    /// may have been given before.
    pub fn unique(&self, name: String) -> String {
        match self.store.restored() {
            Some(drawn) => format!("{name}-{drawn}"),
            None => name,
        }
    }

    /// An event that is in the log.
    pub async fn read(&self, seq: u64) -> store::Result<Option<Event>> {
        let log = LogId::Session(self.session.clone());
        let page = sit_out(|| self.store.read(&log, seq, 1)).await?;
        let mut events = page.iter().flat_map(|frame| frame.numbered());
        let found = events.find(|(number, _)| *number == seq);
        Ok(found.map(|(_, event)| event.clone()))
    }

    /// Returns the number the event will have.
    pub fn push(&self, event: Event) -> u64 {
        let mut state = self.state();
        let seq = state.next;
        state.next += 1;
        state.bytes += event.size();
        match &event {
            Event::Request { .. } => {
                state.pending.push(seq);
                state.pending_changed = true;
            }
            Event::Update { message, .. } => state.notes.read(message),
            _ => {}
        }
        state.events.push(event);
        drop(state);
        self.filled.notify_one();
        seq
    }

    /// The command leaves the inbox together with what is buffered now.
    pub fn ack(&self, queued: &Queued) {
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

    pub fn settle(&self, request: u64) {
        let mut state = self.state();
        state.pending.retain(|seq| *seq != request);
        state.pending_changed = true;
    }

    pub fn settle_all(&self) {
        self.permissions.forget(|id| !is_aside(id));
        let mut state = self.state();
        state.pending_changed |= !state.pending.is_empty();
        state.pending.clear();
    }

    /// As [`Self::settle_all`], for requests of an earlier holder that this one has not read.
    pub fn settle_unseen(&self) {
        self.state().pending_changed = true;
    }

    /// Identifiers that agents and tools have bound to the session.
    pub fn bound(&self) -> Map<String, Value> {
        self.state().notes.bound().clone()
    }

    /// Removes all bindings.
    pub fn unbind(&self) {
        self.state().notes.unbind();
    }

    /// Waits until there is room for more.
    pub async fn room(&self) {
        while self.state().bytes > MAX_BUFFERED_BYTES {
            self.emptied.notified().await;
        }
    }

    /// Waits until something should be written.
    pub async fn due(&self) {
        loop {
            let (empty, full, flushed_at) = {
                let state = self.state();
                let empty = state.events.is_empty() && state.acks.is_empty();
                (empty, state.bytes > MAX_BUFFERED_BYTES, state.flushed_at)
            };
            if !empty {
                if let Some(at) = flushed_at.filter(|_| !full) {
                    sleep_until(at + WINDOW).await;
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
        changes: Changes,
        release: bool,
    ) -> impl Future<Output = Result<bool, Lost>> + Send + use<'_> {
        let append = self.take(changes, release);
        async move {
            match append {
                Some(append) => self.write(append).await,
                None => Ok(false),
            }
        }
    }

    async fn write(&self, append: Append) -> Result<bool, Lost> {
        for _ in 0..MAX_HEALINGS {
            match self.put(&append).await? {
                Put::Done { released } => {
                    self.metrics.events.inc_by(append.events.len() as u64);
                    self.written().keep(append);
                    return Ok(released);
                }
                Put::Gap { head } => self.heal(head).await?,
            }
        }
        let head = append.first - 1;
        Err(Lost::Gap { head })
    }

    /// The log ends at `head`, though more was acknowledged: writes the same frames again.
    async fn heal(&self, head: u64) -> Result<(), Lost> {
        let lost = self.written().after(head);
        let lost = lost.ok_or(Lost::Gap { head })?;
        for append in &lost {
            if let Put::Gap { .. } = self.put(append).await? {
                // It lost more meanwhile. The caller meets that gap, too.
                return Ok(());
            }
        }
        let events: usize = lost.iter().map(|append| append.events.len()).sum();
        self.metrics.rewritten.inc_by(events as u64);
        tracing::warn!(session.id = %self.session, head, events, "the store had lost the end of the log: it was written again");
        Ok(())
    }

    /// An agent's output is not dropped because Redis restarts.
    async fn put(&self, append: &Append) -> Result<Put, Lost> {
        let began = Instant::now();
        let written = sit_out(|| self.store.append(append));
        let written = written.instrument(trace::append(&append.events)).await?;
        let trace = trace::answered(&append.events);
        self.metrics.append.observe(began.elapsed(), trace);
        match written {
            Appended::Done { released, .. } => Ok(Put::Done { released }),
            Appended::Gap { head } => Ok(Put::Gap { head }),
            Appended::Fenced => Err(Lost::Fenced),
        }
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.locked()
    }

    fn take(&self, changes: Changes, release: bool) -> Option<Append> {
        let mut state = self.state();
        let (changes, too_long) = changes.bounded();
        if let Some(field) = too_long
            && !std::mem::replace(&mut state.warned, true)
        {
            tracing::warn!(session.id = %self.session, field, "the agent's state is too long: keeping the previous one");
        }
        let noted = state.notes.take();
        let nothing = state.events.is_empty() && state.acks.is_empty() && noted == Noted::default();
        if nothing && changes == Changes::default() && !release {
            return None;
        }
        state.unconfirmed += state.bytes;
        let confirmed = state.unconfirmed >= CONFIRMED_EVERY;
        if confirmed {
            state.unconfirmed = 0;
        }
        let events = std::mem::take(&mut state.events);
        let append = Append {
            session: self.session.clone(),
            token: self.token.clone(),
            nonce: self.nonce,
            first: state.next - events.len() as u64,
            events,
            acks: std::mem::take(&mut state.acks),
            requests: std::mem::take(&mut state.requests),
            state: changes.state,
            view: changes.view,
            title: noted.title,
            usage: noted.usage,
            bound: noted.bound,
            pending: std::mem::take(&mut state.pending_changed).then(|| state.pending.clone()),
            release,
            confirmed,
        };
        state.bytes = 0;
        state.flushed_at = Some(Instant::now());
        self.emptied.notify_waiters();
        Some(append)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn a_store_that_is_away_is_waited_for() {
        let tries = Cell::new(0);
        let step = async || {
            tries.set(tries.get() + 1);
            match tries.get() {
                4 => Ok("there"),
                _ => Err(store::Error::Unavailable("away".into())),
            }
        };
        assert_eq!(sit_out(&step).await.unwrap(), "there");
        let broken = sit_out(async || Err::<(), _>(store::Error::Broken("for good".into())));
        assert!(broken.await.is_err());
    }
}
