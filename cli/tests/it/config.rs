//! The configuration file: precedence, faults, secrets, and processes that are started from it.

mod faults;
mod precedence;
mod started;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::support::process::baton;

/// A file in a directory of its own.
struct ConfigFile {
    dir: TempDir,
}

impl ConfigFile {
    fn new(text: &str) -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        let file = Self { dir };
        std::fs::write(file.path(), text).expect("the directory is writable");
        file
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("baton.toml")
    }

    /// `baton config show ROLE --config FILE`, with further flags.
    fn show(&self, role: &str) -> Command {
        let mut command = clean();
        command.args(["config", "show", role, "--config"]);
        command.arg(self.path());
        command
    }
}

/// Without the variables that tests start processes with.
fn clean() -> Command {
    let mut command = baton();
    command.env_remove("BATON_ADMIN_TOKEN_FILE");
    command.env_remove("BATON_ADMIN_LISTEN");
    command.env_remove("BATON_STORE");
    command
}

/// Value and source of each option that is shown.
fn shown(command: &mut Command) -> BTreeMap<String, (String, String)> {
    let output = command.output().expect("baton runs");
    assert!(output.status.success(), "{}", errors(&output));
    let text = String::from_utf8(output.stdout).expect("text");
    let lines = text.lines().filter_map(|line| {
        let (assignment, source) = line.rsplit_once("  # ")?;
        let (name, value) = assignment.split_once(" =")?;
        let name = name.trim_start_matches("# ").to_owned();
        Some((name, (value.trim().to_owned(), source.to_owned())))
    });
    lines.collect()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
