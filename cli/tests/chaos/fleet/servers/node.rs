//! One server of the store: one process after the other in the same directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard};

use crate::support::cluster::redis_cli;
use crate::support::process::{Process, free_port};
use crate::support::until;

pub struct Node {
    pub port: u16,
    program: PathBuf,
    dir: PathBuf,
    arguments: Vec<&'static str>,
    state: Mutex<(Process, u32)>,
}

impl Node {
    /// With these lines in its file, which it may change itself.
    pub fn launch(
        program: &Path,
        dir: PathBuf,
        arguments: &[&'static str],
        lines: impl FnOnce(u16) -> Vec<String>,
    ) -> Self {
        fs::create_dir_all(&dir).expect("the directory is writable");
        let port = free_port();
        let mut file = format!("port {port}\nbind 127.0.0.1\ndir {}\n", dir.display());
        for line in lines(port) {
            file += &format!("{line}\n");
        }
        fs::write(dir.join("redis.conf"), file).expect("the directory is writable");
        let process = start(program, &dir, arguments, 0);
        Self {
            port,
            program: program.to_owned(),
            dir,
            arguments: arguments.to_vec(),
            state: Mutex::new((process, 1)),
        }
    }

    fn state(&self) -> MutexGuard<'_, (Process, u32)> {
        self.state.lock().expect("held for moments only")
    }

    pub fn ask(&self, words: &[&str]) -> String {
        redis_cli(self.port, words)
    }

    pub async fn answers(&self) {
        until("a server answers", async || {
            self.ask(&["ping"]).starts_with("PONG").then_some(())
        })
        .await;
    }

    pub fn kill(&self) {
        self.state().0.kill();
    }

    pub fn signal(&self, signal: &str) {
        self.state().0.signal(signal);
    }

    pub fn start(&self) {
        let mut state = self.state();
        state.0 = start(&self.program, &self.dir, &self.arguments, state.1);
        state.1 += 1;
    }

    /// A line of `INFO`.
    pub fn info(&self, section: &str, field: &str) -> String {
        let info = self.ask(&["info", section]);
        let mut lines = info.lines();
        let found = lines.find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        found.unwrap_or_default().trim().to_owned()
    }

    pub fn is_primary(&self) -> bool {
        self.info("replication", "role") == "master"
    }

    /// As many replicas have all that it has, or it follows somebody and would have it after a restart, too.
    pub fn is_well(&self, replicas: usize) -> bool {
        if !self.has_it_on_disk() {
            return false;
        }
        if self.is_primary() {
            let info = self.ask(&["info", "replication"]);
            info.matches("state=online").count() >= replicas
        } else {
            self.info("replication", "master_link_status") == "up"
        }
    }

    /// After a full synchronisation a replica's append-only file is the one from before until it is written anew. A
    /// replica that is killed meanwhile comes back with old data; no number of confirmations helps if it is promoted then.
    fn has_it_on_disk(&self) -> bool {
        ["aof_rewrite_in_progress", "aof_rewrite_scheduled"]
            .iter()
            .all(|field| self.info("persistence", field) == "0")
    }
}

fn start(program: &Path, dir: &Path, arguments: &[&str], start: u32) -> Process {
    let mut command = Command::new(program);
    command.arg(dir.join("redis.conf")).args(arguments);
    Process::start(dir, &format!("server.{start}"), &mut command)
}
