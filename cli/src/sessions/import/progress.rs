//! How far an import is, on a terminal; nothing where there is none.

use std::io::{IsTerminal as _, Read, Seek, SeekFrom, Write as _, stderr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::super::terminal::on_a_line;

const PACE: Duration = Duration::from_millis(200);
const WIDTH: usize = 30;

pub struct ProgressBar {
    label: String,
    /// Bytes that were read.
    done: Arc<AtomicU64>,
    of: AtomicU64,
    shown: bool,
}

impl ProgressBar {
    pub fn new(file: &Path, number: usize, of: usize) -> Self {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        Self {
            label: format!("{number}/{of} {}", on_a_line(&name)),
            done: Arc::default(),
            of: AtomicU64::new(1),
            shown: stderr().is_terminal(),
        }
    }

    /// So many bytes will have been read when it is done.
    pub fn expect(&self, bytes: u64) {
        self.of.store(bytes.max(1), Ordering::Relaxed);
    }

    pub fn count<R>(&self, file: R) -> CountedReader<R> {
        CountedReader {
            file,
            done: self.done.clone(),
        }
    }

    /// Never ends; to be dropped when the work is done.
    pub async fn show(&self) {
        if !self.shown {
            return std::future::pending().await;
        }
        let mut pace = interval(PACE);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            pace.tick().await;
            eprint!("{}", self.line());
            let _ = stderr().flush();
        }
    }

    fn line(&self) -> String {
        let (done, of) = (
            self.done.load(Ordering::Relaxed),
            self.of.load(Ordering::Relaxed),
        );
        let share = done.min(of) * 100 / of;
        let full = WIDTH * share as usize / 100;
        let (bar, rest) = ("#".repeat(full), "-".repeat(WIDTH - full));
        format!("\r\x1b[K[{bar}{rest}] {share:3} % {}", self.label)
    }

    pub fn clear(&self) {
        if self.shown {
            eprint!("\r\x1b[K");
            let _ = stderr().flush();
        }
    }
}

/// A file that says how much of it was read.
pub struct CountedReader<R> {
    file: R,
    done: Arc<AtomicU64>,
}

impl<R: Read> Read for CountedReader<R> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(bytes)?;
        self.done.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

impl<R: Seek> Seek for CountedReader<R> {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.file.seek(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_never_more_than_full() {
        let bar = ProgressBar::new(Path::new("/a/b\x1b[2J.jsonl"), 2, 3);
        bar.expect(200);
        for (done, share) in [
            (0, "[------------------------------]   0 %"),
            (500, "# ] 100 %"),
        ] {
            bar.done.store(done, Ordering::Relaxed);
            let line = bar.line().replace("#]", "# ]");
            assert!(
                line.contains(share) && line.ends_with("2/3 b\\u{1b}[2J.jsonl"),
                "{line}"
            );
        }
    }
}
