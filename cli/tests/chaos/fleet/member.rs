//! A gateway or worker: one process after the other in the same place.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Mutex as AsyncMutex;
use tokio::time::{Instant, sleep};

use super::build::Build;
use crate::ledger::Ledger;
use crate::schedule::LEASE;
use crate::support::clock::Clock;
use crate::support::cluster::address;
use crate::support::process::Process;
use crate::support::proxy::Proxy;

/// A process that takes longer than this to stop is stuck: a worker may give turns that cannot be moved 30 seconds, and take
/// ten more to hand over what it has while the store is away.
const STOPPING: Duration = Duration::from_secs(45);
/// Redis could not be reached when the process started: it says so and leaves.
const UNAVAILABLE: i32 = 69;
const SIGTERM: i32 = 15;

pub struct Member {
    pub name: String,
    /// Of a gateway: its own port, and the proxy that clients use.
    pub front: Option<(u16, Proxy)>,
    /// Held by whoever does something to it: a second fault waits for the end of the first.
    pub struck: AsyncMutex<()>,
    clock: Option<Clock>,
    place: Place,
    state: Mutex<Running>,
    ledger: Arc<Ledger>,
}

/// How its processes are started.
pub struct Place {
    pub dir: PathBuf,
    /// None if it is in files.
    pub store: Option<String>,
    pub durability: &'static str,
    pub has_clock: bool,
    /// A worker whose agent is a program.
    pub program: bool,
}

struct Running {
    process: Process,
    build: Build,
    wanted: bool,
    starts: u32,
}

impl Member {
    pub fn launch(
        name: String,
        front: Option<(u16, Proxy)>,
        place: Place,
        build: Build,
        ledger: Arc<Ledger>,
    ) -> Self {
        let port = front.as_ref().map(|(port, _)| *port);
        let clock = place.has_clock.then(|| Clock::new(&place.dir));
        let log = format!("{name}.0");
        let state = Running {
            process: launch(&place, build, &name, &log, port, clock.as_ref()),
            build,
            wanted: true,
            starts: 1,
        };
        Self {
            name,
            front,
            clock,
            struck: AsyncMutex::default(),
            place,
            state: Mutex::new(state),
            ledger,
        }
    }

    fn state(&self) -> MutexGuard<'_, Running> {
        self.state.lock().expect("held for moments only")
    }

    /// Of the process that runs, or ran last.
    pub fn pid(&self) -> u32 {
        self.state().process.id()
    }

    pub fn log(&self) -> String {
        self.state().process.output()
    }

    pub fn signal(&self, signal: &str) {
        let mut state = self.state();
        if state.process.ended().is_none() {
            state.process.signal(signal);
        }
    }

    /// Ahead or behind by so much, if it has a clock of its own.
    pub fn set_clock(&self, offset: &str) {
        if let Some(clock) = &self.clock {
            clock.set(offset);
        }
    }

    /// kill -9, also of a stopped process.
    pub fn kill(&self) {
        let mut state = self.state();
        state.wanted = false;
        state.process.kill();
    }

    /// SIGTERM.
    pub fn ask_to_stop(&self) {
        self.state().wanted = false;
        self.signal("TERM");
    }

    /// SIGTERM, and waits for the end.
    pub async fn terminate(&self) {
        self.ask_to_stop();
        let deadline = Instant::now() + STOPPING;
        loop {
            let ended = self.state().process.ended();
            match ended {
                Some(status) if status.success() => return,
                // It had hardly begun.
                Some(status) if status.signal() == Some(SIGTERM) && self.log().is_empty() => return,
                // It was leaving anyway.
                Some(status) if status.code() == Some(UNAVAILABLE) => return,
                Some(status) => {
                    let text = format!("stopped by SIGTERM with {status}");
                    return self.ledger.violation("exit", &self.name, "-", &text);
                }
                None if Instant::now() > deadline => {
                    let text = format!("still there {} s after SIGTERM", STOPPING.as_secs());
                    self.ledger.violation("exit", &self.name, "-", &text);
                    return self.kill();
                }
                None => sleep(Duration::from_millis(20)).await,
            }
        }
    }

    /// What it runs, or ran last.
    pub fn build(&self) -> Build {
        self.state().build
    }

    pub fn start(&self) {
        self.start_as(self.build());
    }

    pub fn start_as(&self, build: Build) {
        let port = self.front.as_ref().map(|(port, _)| *port);
        let mut state = self.state();
        let clock = self.clock.as_ref();
        let log = format!("{}.{}", self.name, state.starts);
        state.process = launch(&self.place, build, &self.name, &log, port, clock);
        state.build = build;
        state.starts += 1;
        state.wanted = true;
    }

    /// What a process manager does: what left by itself is started again.
    pub fn look_after(&self) {
        let ended = {
            let mut state = self.state();
            state.process.ended().filter(|_| state.wanted)
        };
        if let Some(status) = ended {
            if status.code() != Some(UNAVAILABLE) {
                let text = format!("left by itself with {status}");
                self.ledger.violation("exit", &self.name, "-", &text);
            }
            self.start();
        }
    }
}

fn launch(
    place: &Place,
    build: Build,
    name: &str,
    log: &str,
    listen: Option<u16>,
    clock: Option<&Clock>,
) -> Process {
    let mut command = build.command();
    if let Some(clock) = clock {
        clock.rule(&mut command);
        // Once a second is enough, and costs less.
        command.env_remove("FAKETIME_NO_CACHE");
        command.env("FAKETIME_CACHE_DURATION", "1");
    }
    let lease = LEASE.as_millis().to_string();
    match (listen, &place.store) {
        (Some(port), Some(_)) => {
            command.args(["gateway", "--listen", &address(port), "--grace-ms", "3000"]);
            command.arg("--keys").arg(place.dir.join("keys.json"));
        }
        (Some(port), None) => {
            command.args(["serve", "--listen", &address(port), "--lease-ms", &lease]);
            command.arg("--data-dir").arg(place.dir.join("data"));
        }
        (None, _) => {
            command.args(["worker", "--lease-ms", &lease]);
            if place.program {
                let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agents/counter.py");
                let agent = format!("stdio:python3 {} {name}", file.display());
                // Its processes must not pile up on the machine that runs all of this.
                command.args(["--agent", &agent, "--agent-idle", "10s"]);
            }
        }
    }
    if let Some(store) = &place.store {
        command.args(["--store", store, "--durability", place.durability]);
    }
    Process::start(&place.dir, log, &mut command)
}
