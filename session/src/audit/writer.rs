//! The one thread that writes, beside everything else. Its queue is bounded in bytes; lines that do
//! not fit, or cannot be written for a while, are counted and reported.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::chain::ChainHead;
use super::decision::Decision;
use super::file::{AuditSink, FileMoved, FoundFile};
use super::metrics::AuditMetrics;
use super::{body, decision::AuditActor, decision::DecisionOutcome};
use crate::sync::MutexExt as _;

/// So much may wait.
pub const MAX_WAITING: usize = 1 << 20;
/// Between two tries on a disk that is full.
const PAUSE: Duration = Duration::from_millis(200);
/// Lines that cannot be written for this long are dropped.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often the end of the chain is told to the process's log, if it has changed.
const CHECKPOINT: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct LineQueue {
    state: Mutex<QueueState>,
    changed: Condvar,
    pub metrics: AuditMetrics,
}

#[derive(Default)]
struct QueueState {
    lines: VecDeque<String>,
    bytes: usize,
    /// Not written, and not said yet.
    lost: u64,
    closing: bool,
    closed: bool,
}

impl LineQueue {
    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.locked()
    }

    pub fn push(&self, line: String) {
        let mut state = self.state();
        if state.closing || state.bytes + line.len() > MAX_WAITING {
            self.lose(&mut state, 1);
            return;
        }
        state.bytes += line.len();
        state.lines.push_back(line);
        drop(state);
        self.changed.notify_all();
    }

    fn lose(&self, state: &mut QueueState, lines: u64) {
        if state.lost == 0 {
            tracing::warn!(
                "audit log: lines are lost, as they cannot be written fast enough or at all"
            );
        }
        state.lost += lines;
        self.metrics.lost.inc_by(lines);
    }

    /// The waiting lines, or nothing after a second; `None` when the queue is closed and empty.
    fn take(&self) -> Option<(Vec<String>, u64)> {
        let state = self.state();
        let is_idle = |state: &mut QueueState| state.lines.is_empty() && !state.closing;
        let waited = self
            .changed
            .wait_timeout_while(state, Duration::from_secs(1), is_idle);
        let (mut state, _) = waited.expect("no thread panics while it holds this lock");
        if state.closing && state.lines.is_empty() && state.lost == 0 {
            return None;
        }
        state.bytes = 0;
        let lost = if state.lines.is_empty() && !state.closing {
            0
        } else {
            std::mem::take(&mut state.lost)
        };
        Some((state.lines.drain(..).collect(), lost))
    }

    fn is_closing(&self) -> bool {
        self.state().closing
    }

    /// Nothing is taken any more; waits until what was is written.
    pub fn close(&self, patience: Duration) {
        let mut state = self.state();
        state.closing = true;
        self.changed.notify_all();
        let open = |state: &mut QueueState| !state.closed;
        let _ = self.changed.wait_timeout_while(state, patience, open);
    }

    fn closed(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }
}

pub(super) struct LineWriter<'a> {
    pub queue: &'a LineQueue,
    pub sink: AuditSink,
    pub head: ChainHead,
    told: (Instant, ChainHead),
}

impl<'a> LineWriter<'a> {
    pub fn new(queue: &'a LineQueue, sink: AuditSink, head: ChainHead) -> Self {
        let told = (Instant::now(), ChainHead::default());
        Self {
            queue,
            sink,
            head,
            told,
        }
    }

    pub fn run(mut self, found: FoundFile) {
        let first = match found {
            FoundFile::New => Decision::LogStarted {},
            FoundFile::Old { torn } => {
                if torn > 0 {
                    tracing::warn!(
                        bytes = torn,
                        "audit log: the last line was torn when its process ended"
                    );
                }
                Decision::LogResumed { torn }
            }
        };
        let mut waiting = vec![own(&first)];
        let mut lost = 0;
        loop {
            if !waiting.is_empty() || lost > 0 {
                self.write(waiting, lost);
            }
            self.checkpoint(CHECKPOINT);
            match self.queue.take() {
                Some(taken) => (waiting, lost) = taken,
                None => break,
            }
        }
        self.sink.sync();
        self.checkpoint(Duration::ZERO);
        self.queue.closed();
    }

    /// Retries for a while. The chain continues from the last written line, so dropped lines leave
    /// no hole in it; a line says how many were dropped.
    fn write(&mut self, lines: Vec<String>, lost: u64) {
        let until = Instant::now() + PATIENCE;
        let mut said = false;
        loop {
            match self.attempt(&lines, lost) {
                Ok(()) => {
                    self.queue.metrics.lines.inc_by(lines.len() as u64);
                    return;
                }
                Err(error) if Instant::now() > until || self.queue.is_closing() => {
                    tracing::error!(%error, lines = lines.len(), "audit log: lines were dropped");
                    let mut state = self.queue.state();
                    state.lost += lost;
                    self.queue.lose(&mut state, lines.len() as u64);
                    return;
                }
                Err(error) => {
                    if !std::mem::replace(&mut said, true) {
                        tracing::error!(%error, "audit log: cannot be written");
                    }
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }

    fn attempt(&mut self, lines: &[String], lost: u64) -> std::io::Result<()> {
        let moved = self.sink.follow()?;
        let (mut head, mut bytes) = (self.head.clone(), Vec::new());
        if let Some(FileMoved) = moved {
            tracing::info!("audit log: the file was moved away or emptied, and goes on in another");
            // Written by itself: should the rest fail, the file has its first line.
            let mut first = Vec::new();
            head.append(&own(&Decision::LogContinued {}), &mut first);
            self.sink.write(&first)?;
            self.head = head.clone();
        }
        if lost > 0 {
            head.append(&own(&Decision::LinesLost { count: lost }), &mut bytes);
        }
        for line in lines {
            head.append(line, &mut bytes);
        }
        self.sink.write(&bytes)?;
        self.head = head;
        Ok(())
    }

    /// Somebody who can edit the file can rewrite the whole chain, or cut it. The process's log
    /// keeps the hashes that were logged.
    fn checkpoint(&mut self, every: Duration) {
        let (at, told) = &self.told;
        let is_first = told.next == 0;
        if *told != self.head && (is_first || at.elapsed() >= every) {
            self.sink.sync();
            let (lines, head) = (self.head.next, self.head.hash.as_str());
            tracing::info!(lines, head, "audit log: written up to here");
            self.told = (Instant::now(), self.head.clone());
        }
    }
}

fn own(decision: &Decision) -> String {
    body(decision, DecisionOutcome::Done, &AuditActor::default())
}
