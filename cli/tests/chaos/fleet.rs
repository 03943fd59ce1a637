//! The processes: gateways, workers and Redis, each behind its own proxies, kept running.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::ledger::Ledger;
use crate::proxy::{Mood, Proxy};
use crate::schedule::LEASE;
use crate::support::cluster::{address, ready, url, write_keys};
use crate::support::process::{Process, baton, free_port};
use crate::support::{Client, Redis, until};

pub const GATEWAYS: usize = 2;
pub const WORKERS: usize = 3;
/// A process that takes longer than this to stop is stuck.
const STOPPING: Duration = Duration::from_secs(25);
/// Redis could not be reached when the process started: it says so and leaves.
const UNAVAILABLE: i32 = 69;

pub struct Fleet {
    pub members: Vec<Arc<Member>>,
    pub redis: AsyncMutex<Redis>,
    pub redis_port: u16,
    supervisor: JoinHandle<()>,
}

/// A gateway or worker: one process after the other in the same place.
pub struct Member {
    pub name: String,
    /// Of a gateway: its own port, and the proxy that clients use.
    pub front: Option<(u16, Proxy)>,
    pub store: Proxy,
    /// Held by whoever does something to it: a second fault waits for the end of the first.
    pub struck: AsyncMutex<()>,
    dir: PathBuf,
    state: Mutex<Running>,
    ledger: Arc<Ledger>,
}

struct Running {
    process: Process,
    wanted: bool,
    starts: u32,
}

impl Fleet {
    pub async fn start(dir: &TempDir, ledger: Arc<Ledger>) -> Self {
        // Only what is on disk before the reply survives a kill -9 for sure.
        let redis = Redis::start_with(&["--appendfsync", "always"]).await;
        let redis_port = redis.port;
        write_keys(&dir.path().join("keys.json"));
        let mut members = Vec::new();
        for number in 0..GATEWAYS + WORKERS {
            let store = Proxy::start(redis_port).await;
            let (name, front) = if number < GATEWAYS {
                let port = free_port();
                (
                    format!("gateway-{number}"),
                    Some((port, Proxy::start(port).await)),
                )
            } else {
                (format!("worker-{}", number - GATEWAYS), None)
            };
            let port = front.as_ref().map(|(port, _)| *port);
            let state = Running {
                process: launch(dir.path(), &name, 0, port, store.port),
                wanted: true,
                starts: 1,
            };
            members.push(Arc::new(Member {
                name,
                front,
                store,
                struck: AsyncMutex::default(),
                dir: dir.path().to_owned(),
                state: Mutex::new(state),
                ledger: ledger.clone(),
            }));
        }
        let supervisor = tokio::spawn(supervise(members.clone()));
        let fleet = Self {
            members,
            redis: AsyncMutex::new(redis),
            redis_port,
            supervisor,
        };
        fleet.all_ready().await;
        // A worker makes itself known when it has connected.
        let url = &fleet.fronts()[0];
        until("an agent", async || Client::try_initialize(url).await).await;
        fleet
    }

    pub fn gateways(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.members[..GATEWAYS].iter()
    }

    pub fn workers(&self) -> &[Arc<Member>] {
        &self.members[GATEWAYS..]
    }

    /// Where clients find the gateways.
    pub fn fronts(&self) -> Vec<String> {
        let fronts = self.gateways().filter_map(|member| member.front.as_ref());
        fronts.map(|(_, proxy)| url(proxy.port)).collect()
    }

    pub async fn all_ready(&self) {
        for (port, _) in self.gateways().filter_map(|member| member.front.as_ref()) {
            ready(*port).await;
        }
    }

    /// Everything runs and nothing is in the way.
    pub async fn heal(&self) {
        for member in &self.members {
            member.store.set(Mood::Clear);
            if let Some((_, front)) = &member.front {
                front.set(Mood::Clear);
            }
        }
        self.all_ready().await;
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.supervisor.abort();
    }
}

impl Member {
    fn state(&self) -> MutexGuard<'_, Running> {
        self.state.lock().expect("held for moments only")
    }

    pub fn is_gateway(&self) -> bool {
        self.front.is_some()
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

    pub fn start(&self) {
        let port = self.front.as_ref().map(|(port, _)| *port);
        let mut state = self.state();
        state.process = launch(&self.dir, &self.name, state.starts, port, self.store.port);
        state.starts += 1;
        state.wanted = true;
    }

    /// What a process manager does: what left by itself is started again.
    fn look_after(&self) {
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

async fn supervise(members: Vec<Arc<Member>>) {
    loop {
        members.iter().for_each(|member| member.look_after());
        sleep(Duration::from_millis(100)).await;
    }
}

fn launch(dir: &Path, name: &str, start: u32, listen: Option<u16>, store: u16) -> Process {
    let mut command = baton();
    let store = format!("redis://127.0.0.1:{store}");
    match listen {
        Some(port) => {
            command.args(["gateway", "--listen", &address(port), "--grace-ms", "3000"]);
            command.arg("--keys").arg(dir.join("keys.json"));
        }
        None => {
            let lease = LEASE.as_millis().to_string();
            command.args(["worker", "--lease-ms", &lease]);
        }
    }
    command.args(["--store", &store]);
    Process::start(dir, &format!("{name}.{start}"), &mut command)
}
