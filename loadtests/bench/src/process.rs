//! A server process: started with its output in a file, watched through /proc, killed by its pid when dropped.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

/// Linux counts process times in hundredths of a second, on every architecture Rust runs on.
const MS_PER_TICK: u64 = 10;

pub struct Process {
    pub name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Process {
    pub fn start(name: &'static str, command: &mut Command, dir: &Path) -> Result<Self> {
        let log = dir.join(format!("{name}.log"));
        let output = File::create(&log)?;
        let child = command
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("can't start {:?}", command.get_program()))?;
        Ok(Self { name, child, log })
    }

    /// An error with the end of its output if the process is gone.
    pub fn check(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("{} ended ({status}): {}", self.name, self.last_words());
        }
        Ok(())
    }

    pub fn last_words(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
    }

    pub fn cpu_ms(&self) -> Result<u64> {
        cpu_ms(&self.child.id().to_string())
    }

    pub fn memory(&self) -> Result<Memory> {
        // Not `status`: its figures are off by what each thread has yet to report.
        let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.child.id()))?;
        parse_memory(&rollup).with_context(|| format!("{} has no smaps_rollup", self.name))
    }
}

/// Resident memory of a process in KiB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    pub rss: u64,
    /// Of that, what is backed by no file: heap and stacks, not code.
    pub anonymous: u64,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// User and system time so far, children that have ended included (Redis forks to rewrite its log).
pub fn cpu_ms(pid: &str) -> Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    parse_cpu_ms(&stat).with_context(|| format!("/proc/{pid}/stat is unreadable"))
}

fn parse_cpu_ms(stat: &str) -> Option<u64> {
    // The command's name may hold spaces; what follows its closing bracket is state, ppid, …
    let (_, fields) = stat.rsplit_once(") ")?;
    let times = fields.split_whitespace().skip(11).take(4);
    let ticks: Vec<u64> = times
        .map(|field| field.parse().ok())
        .collect::<Option<_>>()?;
    (ticks.len() == 4).then(|| ticks.iter().sum::<u64>() * MS_PER_TICK)
}

fn parse_memory(rollup: &str) -> Option<Memory> {
    let kib = |name| {
        let line = rollup.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    Some(Memory {
        rss: kib("Rss:")?,
        anonymous: kib("Anonymous:")?,
    })
}

/// How many files this process, and each process it starts, may have open.
pub fn open_files() -> Result<usize> {
    let limits = fs::read_to_string("/proc/self/limits")?;
    let mut lines = limits.lines();
    let soft = lines.find_map(|line| line.strip_prefix("Max open files"));
    let soft = soft.and_then(|rest| rest.split_whitespace().next());
    match soft.context("/proc/self/limits is unreadable")? {
        "unlimited" => Ok(usize::MAX),
        number => Ok(number.parse()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_an_awkward_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 9 9 0 0 11 22 33 44 20 0 3 0 99 1 1";
        assert_eq!(parse_cpu_ms(stat), Some(1100));
        assert_eq!(parse_cpu_ms("7 (cut) S 1 7"), None);
    }

    #[test]
    fn memory_is_found_by_name() {
        let rollup = "0-1 ---p 0 00:00 0 [rollup]\nRss:  30 kB\nPss:  9 kB\nAnonymous:  20 kB\n";
        let memory = Memory {
            rss: 30,
            anonymous: 20,
        };
        assert_eq!(parse_memory(rollup), Some(memory));
        assert_eq!(parse_memory("Rss: 1 kB"), None);
    }
}
