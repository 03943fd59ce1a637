//! The agent processes of this worker, the memory they take, and whether there is room for one
//! more.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_session::sync::MutexExt as _;
use tokio_util::sync::CancellationToken;

use super::process_tree;
use crate::agent::AgentRoom;
use crate::metrics::AgentProcessMetrics;

/// Between two measurements.
pub const MEASURE_EVERY: Duration = Duration::from_secs(2);

#[derive(Default)]
pub struct RunningProcesses {
    /// The most that all may take, if there is a limit.
    pub total: Option<u64>,
    pub metrics: AgentProcessMetrics,
    table: Mutex<ProcessTable>,
}

#[derive(Default)]
struct ProcessTable {
    /// By the process id of the guard.
    processes: HashMap<u32, ProcessEntry>,
    /// What the first one took when it had started.
    first: u64,
}

struct ProcessEntry {
    /// Set when it was asked to end.
    leave: CancellationToken,
    /// 0 until it is measured.
    bytes: u64,
}

/// A process in the table, for as long as this exists.
pub struct RegisteredProcess {
    pub pid: u32,
    /// Asks it to end.
    pub leave: CancellationToken,
    running: Arc<RunningProcesses>,
}

impl RunningProcesses {
    pub fn new(total: Option<u64>, metrics: AgentProcessMetrics) -> Self {
        Self {
            total,
            metrics,
            table: Mutex::default(),
        }
    }

    pub fn register(self: &Arc<Self>, pid: u32) -> RegisteredProcess {
        let leave = CancellationToken::new();
        let entry = ProcessEntry {
            leave: leave.clone(),
            bytes: 0,
        };
        self.table.locked().processes.insert(pid, entry);
        self.metrics.processes.inc();
        RegisteredProcess {
            pid,
            leave,
            running: self.clone(),
        }
    }

    /// Reads what every process takes. Blocks for some milliseconds.
    pub fn measure(&self) {
        let pids: Vec<u32> = self.table.locked().processes.keys().copied().collect();
        if pids.is_empty() {
            self.metrics.memory.set(0);
            return;
        }
        let measured = process_tree::memory_of(&pids);
        let mut table = self.table.locked();
        for (pid, bytes) in measured {
            if let Some(entry) = table.processes.get_mut(&pid) {
                entry.bytes = bytes;
            }
        }
        let all: u64 = table.processes.values().map(|entry| entry.bytes).sum();
        if table.first == 0 {
            table.first = all;
        }
        self.metrics.memory.set(all as i64);
    }

    /// The memory of a process that is about to be started: the average of those that run, and at
    /// least what the first took when it had started.
    pub fn expected(&self) -> u64 {
        self.table.locked().expected()
    }

    /// Whether `sessions` fit, each with a process. Those in `ready` make way for them. One session
    /// always fits: otherwise nothing would ever run.
    pub fn room_for(&self, sessions: usize, ready: &HashSet<u32>) -> AgentRoom {
        let Some(total) = self.total.filter(|_| sessions > 1) else {
            return AgentRoom::Free;
        };
        let table = self.table.locked();
        let fits = |used: UsedMemory| {
            let without = sessions.saturating_sub(used.in_use) as u64;
            used.bytes + without * table.expected() <= total
        };
        let stays = |entry: &ProcessEntry| !entry.leave.is_cancelled();
        if fits(table.used(|pid, _| !ready.contains(&pid))) {
            AgentRoom::Free
        } else if fits(table.used(|pid, entry| !ready.contains(&pid) && stays(entry))) {
            AgentRoom::Soon
        } else {
            AgentRoom::Full
        }
    }

    /// Whether all that run and `more` others fit.
    pub fn fits_more(&self, more: usize) -> bool {
        self.fits_beside(|_| true, more)
    }

    /// The same when those that were asked to end have ended.
    pub fn fits_more_soon(&self, more: usize) -> bool {
        self.fits_beside(|entry| !entry.leave.is_cancelled(), more)
    }

    fn fits_beside(&self, counts: impl Fn(&ProcessEntry) -> bool, more: usize) -> bool {
        let Some(total) = self.total else {
            return true;
        };
        let table = self.table.locked();
        let used = table.used(|_, entry| counts(entry));
        used.bytes + more as u64 * table.expected() <= total
    }
}

/// Memory of some processes, and how many of them have not been asked to end.
struct UsedMemory {
    bytes: u64,
    in_use: usize,
}

impl ProcessTable {
    fn expected(&self) -> u64 {
        let measured = self.processes.values().map(|entry| entry.bytes);
        let measured: Vec<u64> = measured.filter(|bytes| *bytes > 0).collect();
        let average = measured.iter().sum::<u64>() / measured.len().max(1) as u64;
        average.max(self.first)
    }

    fn used(&self, counts: impl Fn(u32, &ProcessEntry) -> bool) -> UsedMemory {
        let expected = self.expected();
        let mut used = UsedMemory {
            bytes: 0,
            in_use: 0,
        };
        for (pid, entry) in &self.processes {
            if !counts(*pid, entry) {
                continue;
            }
            if entry.leave.is_cancelled() {
                used.bytes += entry.bytes;
            } else {
                // It grows to what the others have.
                used.bytes += entry.bytes.max(expected);
                used.in_use += 1;
            }
        }
        used
    }
}

impl Drop for RegisteredProcess {
    fn drop(&mut self) {
        let mut table = self.running.table.locked();
        table.processes.remove(&self.pid);
        self.running.metrics.processes.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn fits(running: &RunningProcesses, sessions: usize, ready: &HashSet<u32>) -> bool {
        running.room_for(sessions, ready) == AgentRoom::Free
    }

    fn running(total: u64, sizes: &[u64]) -> (Arc<RunningProcesses>, Vec<RegisteredProcess>) {
        let running = RunningProcesses::new(Some(total), AgentProcessMetrics::default());
        let running = Arc::new(running);
        let registered = (1..).zip(sizes).map(|(pid, bytes)| {
            let registered = running.register(pid);
            let mut table = running.table.locked();
            table.processes.get_mut(&pid).expect("just now").bytes = *bytes;
            drop(table);
            registered
        });
        let registered = registered.collect();
        (running, registered)
    }

    #[test]
    fn a_session_without_a_process_needs_as_much_as_the_others_have() {
        let (running, _held) = running(400 * MIB, &[100 * MIB, 100 * MIB]);
        let none = HashSet::new();
        assert!(fits(&running, 3, &none));
        assert!(fits(&running, 4, &none));
        assert!(!fits(&running, 5, &none));
    }

    #[test]
    fn one_that_is_ready_makes_way_and_one_that_ends_does_not_until_it_has() {
        let (running, mut held) = running(200 * MIB, &[100 * MIB, 100 * MIB]);
        let none = HashSet::new();
        assert!(!fits(&running, 3, &none));
        assert!(!running.fits_more(1));
        assert!(
            fits(&running, 2, &HashSet::from([2])),
            "2 is ready, 1 is held"
        );
        held[1].leave.cancel();
        assert!(!fits(&running, 2, &none), "it is still there");
        assert_eq!(running.room_for(2, &none), AgentRoom::Soon);
        assert_eq!(running.room_for(3, &none), AgentRoom::Full);
        assert!(!running.fits_more(1));
        assert!(running.fits_more_soon(1));
        assert!(!running.fits_more_soon(2));
        held.pop();
        assert!(fits(&running, 2, &none));
        assert!(running.fits_more(1));
    }

    #[test]
    fn a_small_process_is_taken_to_grow_and_the_first_session_always_fits() {
        let (running, held) = running(400 * MIB, &[20 * MIB, 380 * MIB]);
        assert!(!fits(&running, 2, &HashSet::new()), "200 and 380");
        drop(held);
        let (running, _held) = running_beyond_the_limit();
        assert!(fits(&running, 1, &HashSet::new()));
        assert!(!fits(&running, 2, &HashSet::new()));
    }

    fn running_beyond_the_limit() -> (Arc<RunningProcesses>, Vec<RegisteredProcess>) {
        running(10 * MIB, &[100 * MIB])
    }

    #[test]
    fn without_a_limit_everything_fits() {
        let running = Arc::new(RunningProcesses::default());
        let _held = running.register(1);
        assert!(fits(&running, 1_000_000, &HashSet::new()));
        assert!(running.fits_more(1_000_000));
    }
}
