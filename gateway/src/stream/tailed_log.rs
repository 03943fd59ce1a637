//! One log as this process has it: the last frames, and how far it has grown. Readers pull at
//! their own speed; one that falls behind the kept frames reads from the store, so a slow client
//! costs no memory, and neither does a conversation that rests.

mod frame_budget;
mod log_notices;
mod log_reader;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard};

use baton_session::event::{Event, Frame, is_aside};
use baton_session::id::{ConnectionId, LogId, Nonce};
use baton_session::sync::MutexExt as _;
use tokio::sync::OnceCell;
use tokio::time::Instant;

pub use self::frame_budget::FrameBudget;
use self::frame_budget::KeptBytes;
pub use self::log_notices::LogNotice;
use self::log_notices::LogNotices;
use self::log_reader::LogReader;
pub use self::log_reader::MuteState;
use super::wake::StreamWake;

const MAX_FRAMES: usize = 256;

pub struct TailedLog {
    pub log: LogId,
    /// Set once the store has confirmed the subscription.
    pub confirmed: OnceCell<()>,
    state: Mutex<TailState>,
}

#[derive(Default)]
struct TailState {
    frames: VecDeque<KeptFrame>,
    bytes: KeptBytes,
    /// The end of what came last, also when it is not kept any more.
    last: Option<(u64, Nonce)>,
    /// Nothing came since somebody looked.
    quiet: bool,
    /// The highest number known to exist.
    grown_to: u64,
    notices: LogNotices,
    readers: Vec<LogReader>,
    next_reader: u64,
}

/// A frame, as readers get it.
#[derive(Clone)]
pub struct KeptFrame {
    frame: Arc<Frame>,
    /// When it came here; `None` if it was read from the store.
    pub arrived: Option<Instant>,
}

impl KeptFrame {
    pub fn read(frame: Arc<Frame>) -> Self {
        Self {
            frame,
            arrived: None,
        }
    }
}

impl Deref for KeptFrame {
    type Target = Frame;

    fn deref(&self) -> &Frame {
        &self.frame
    }
}

/// The events from a position on.
pub enum LogLookup {
    UpToDate,
    Frames(Vec<KeptFrame>),
    /// Not kept here: read it from the store.
    InStore,
}

impl TailedLog {
    pub fn new(log: LogId, budget: FrameBudget) -> Self {
        let state = TailState {
            bytes: KeptBytes::of(budget),
            ..TailState::default()
        };
        Self {
            log,
            confirmed: OnceCell::new(),
            state: Mutex::new(state),
        }
    }

    fn state(&self) -> MutexGuard<'_, TailState> {
        self.state.locked()
    }

    pub fn add_reader(&self, wake: StreamWake) -> u64 {
        let mut state = self.state();
        state.next_reader += 1;
        let number = state.next_reader;
        state.readers.push(LogReader {
            number,
            wake,
            muted_for: None,
            resume_at: None,
        });
        number
    }

    /// Returns how many readers are left.
    pub fn remove_reader(&self, number: u64) -> usize {
        let mut state = self.state();
        state.readers.retain(|reader| reader.number != number);
        state.readers.len()
    }

    pub fn insert(&self, frame: Arc<Frame>) {
        let mut state = self.state();
        // A number that is known already: the same frame once more, or one that came late, or the
        // log lost its end and was written anew.
        if frame.first <= state.grown_to {
            let kept = state.kept(frame.first);
            if kept.is_some_and(|kept| **kept == *frame) {
                return;
            }
            if kept.is_some() {
                state.forget();
                state.grown_to = frame.first - 1;
            }
            state.notify(LogNotice::Doubt);
            let newest = state
                .frames
                .back()
                .is_none_or(|last| last.last() < frame.first);
            if !newest {
                return;
            }
        }
        // After a hole, what is kept starts anew; readers fill the hole from the store.
        if frame.first > state.grown_to + 1 {
            state.unmute_all();
        }
        if state
            .frames
            .back()
            .is_some_and(|last| last.last() + 1 != frame.first)
        {
            state.forget();
        }
        state.grown_to = state.grown_to.max(frame.last());
        state.last = Some((frame.last(), frame.nonce));
        state.quiet = false;
        state.bytes.add(frame.size());
        state.wake_readers(|reader| reader.is_concerned_by(&frame));
        let arrived = Some(Instant::now());
        state.frames.push_back(KeptFrame { frame, arrived });
        while state.frames.len() > MAX_FRAMES || state.bytes.is_too_much() && state.frames.len() > 1
        {
            let oldest = state.frames.pop_front().expect("just counted");
            state.bytes.remove(oldest.size());
        }
    }

    /// To be called now and then: what is kept goes if nothing has come since the last time,
    /// because by then every reader that keeps up has it. A turn that is only silent keeps it.
    pub fn rest(&self) {
        let mut state = self.state();
        let rests = std::mem::replace(&mut state.quiet, true);
        if rests && state.turn_runs() != Some(true) {
            state.frames = VecDeque::new();
            state.bytes.clear();
        }
    }

    /// A frame up to `seq` was written that was too large to be sent along.
    pub fn announce(&self, seq: u64) {
        let mut state = self.state();
        if seq <= state.grown_to {
            state.notify(LogNotice::Doubt);
        }
        drop(state);
        self.grow(seq);
    }

    pub fn grown_to(&self) -> u64 {
        self.state().grown_to
    }

    /// The log ends at `head`, though it reached further before.
    pub fn shrink(&self, head: u64) {
        let mut state = self.state();
        if head < state.grown_to {
            state.forget();
            state.grown_to = head;
            state.notify(LogNotice::Doubt);
        }
    }

    /// The log is known to reach at least to `seq`.
    pub fn grow(&self, seq: u64) {
        let mut state = self.state();
        if seq > state.grown_to {
            state.grown_to = seq;
            state.unmute_all();
            state.wake_readers(|_| true);
        }
    }

    pub fn notify(&self, notice: LogNotice) {
        let mut state = self.state();
        // The cached frames may differ from the store's by now.
        if notice == LogNotice::Resync {
            state.forget();
        }
        state.notify(notice);
    }

    /// Notices since `seen`, which is brought up to date. Too many to remember count as a resync.
    pub fn notices_since(&self, seen: &mut u64) -> Vec<LogNotice> {
        self.state().notices.since(seen)
    }

    pub fn notice_count(&self) -> u64 {
        self.state().notices.count()
    }

    /// Whether a turn runs, as far as what is kept tells.
    pub fn turn_runs(&self) -> Option<bool> {
        self.state().turn_runs()
    }

    pub fn look(&self, next: u64) -> LogLookup {
        let state = self.state();
        if next > state.grown_to {
            return LogLookup::UpToDate;
        }
        let start = state.frames.partition_point(|frame| frame.last() < next);
        match state.frames.get(start) {
            Some(first) if first.first <= next => {
                LogLookup::Frames(state.frames.range(start..).cloned().collect())
            }
            _ => LogLookup::InStore,
        }
    }

    /// Stops waking the reader until something is addressed to `connection` by its connection
    /// stream. False if there is already something at or after `next`.
    pub fn mute(&self, reader: u64, connection: &ConnectionId, next: u64) -> bool {
        let mut state = self.state();
        if next <= state.grown_to {
            return false;
        }
        if let Some(reader) = state
            .readers
            .iter_mut()
            .find(|known| known.number == reader)
        {
            reader.muted_for = Some(connection.clone());
            reader.resume_at = None;
        }
        true
    }

    /// How a muted reader stands: `None` if it is not muted any more and has to read from where it
    /// was, else the end of what is known not to concern it.
    pub fn muted(&self, reader: u64) -> MuteState {
        let mut state = self.state();
        let last = state.last;
        let Some(reader) = state
            .readers
            .iter_mut()
            .find(|known| known.number == reader)
        else {
            return MuteState::Unsure;
        };
        match (&reader.muted_for, reader.resume_at.take()) {
            (_, Some(seq)) => {
                reader.muted_for = None;
                MuteState::ResumeAt(seq)
            }
            (Some(_), None) => MuteState::Still(last),
            (None, None) => MuteState::Unsure,
        }
    }
}

impl TailState {
    fn notify(&mut self, notice: LogNotice) {
        if matches!(notice, LogNotice::Resync | LogNotice::Doubt) {
            self.unmute_all();
        }
        self.notices.push(notice);
        self.wake_readers(|_| true);
    }

    /// The kept frame that holds this number.
    fn kept(&self, seq: u64) -> Option<&KeptFrame> {
        let at = self.frames.partition_point(|frame| frame.last() < seq);
        self.frames.get(at).filter(|frame| frame.first <= seq)
    }

    fn forget(&mut self) {
        self.frames.clear();
        self.bytes.clear();
        self.last = None;
    }

    fn turn_runs(&self) -> Option<bool> {
        let frames = self.frames.iter().rev();
        let mut events = frames.flat_map(|frame| frame.events.iter().rev());
        events.find_map(|event| match event {
            Event::Response { turn: true, .. } => Some(false),
            Event::Begin(_) | Event::Update { turn: true, .. } => Some(true),
            // Others are asked between turns.
            Event::Request { id, .. } if !is_aside(id) => Some(true),
            _ => None,
        })
    }

    /// Events that a muted reader missed are unknown: it has to read the store.
    fn unmute_all(&mut self) {
        for reader in &mut self.readers {
            reader.muted_for = None;
            reader.resume_at = None;
        }
    }

    fn wake_readers(&mut self, mut concerned: impl FnMut(&mut LogReader) -> bool) {
        for reader in &mut self.readers {
            if concerned(reader) {
                reader.wake.wake_up();
            }
        }
    }
}
