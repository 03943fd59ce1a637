//! The clock on the wall, as a process sees it: a test can set it while the process runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub struct Clock {
    file: PathBuf,
}

impl Clock {
    /// The right time.
    pub fn new(dir: &Path) -> Self {
        let file = dir.join("clock");
        let clock = Self { file };
        clock.set("+0");
        clock
    }

    /// Ahead or behind by so much, as `+1h`, or standing still, as `2030-01-01 00:00:00`.
    pub fn set(&self, time: &str) {
        let half = self.file.with_extension("half");
        fs::write(&half, time).expect("the directory is writable");
        fs::rename(half, &self.file).expect("the directory is writable");
    }

    /// For this process. Pauses and timeouts go by another clock and take as long as ever.
    pub fn rule(&self, command: &mut Command) {
        self.rule_all(command);
        command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }

    /// For this process, and its pauses as well.
    pub fn rule_all(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", pretender())
            .env("FAKETIME_TIMESTAMP_FILE", &self.file)
            .env("FAKETIME_NO_CACHE", "1")
            .env("TZ", "UTC");
    }
}

/// The library that pretends another time, wherever Debian puts it.
fn pretender() -> PathBuf {
    let libraries = fs::read_dir("/usr/lib").expect("there are libraries");
    let places = libraries.flatten().map(|place| place.path());
    let mut found = places.map(|place| place.join("faketime/libfaketimeMT.so.1"));
    let found = found.find(|path| path.exists());
    found.expect("faketime is not installed, and this test needs it: `make setup` installs it")
}
