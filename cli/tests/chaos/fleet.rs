//! The processes: gateways and workers, their store, and the network between them, kept running.

use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use self::member::{Member, Place};
use self::servers::Servers;
use crate::client::{PROGRAM, SCRIPTED};
use crate::ledger::Ledger;
use crate::setup::Setup;
use crate::support::cluster::{ready, url, write_keys};
use crate::support::process::free_port;
use crate::support::proxy::{Mood, Proxy};
use crate::support::{Client, until};

mod build;
mod member;
mod servers;

pub use self::build::Build;

/// After the last fault, every gateway is ready within this.
const READY_BY: Duration = Duration::from_secs(10);

pub struct Fleet {
    pub setup: Setup,
    pub members: Vec<Arc<Member>>,
    /// None if the store is in files.
    pub servers: Option<Servers>,
    pub ledger: Arc<Ledger>,
    supervisor: JoinHandle<()>,
}

impl Fleet {
    pub async fn start(dir: &TempDir, setup: Setup, ledger: Arc<Ledger>) -> Self {
        Self::start_as(dir, setup, ledger, |_| Build::Today).await
    }

    /// `build` says what each member runs.
    pub async fn start_as(
        dir: &TempDir,
        setup: Setup,
        ledger: Arc<Ledger>,
        build: impl Fn(usize) -> Build,
    ) -> Self {
        let servers = Servers::start(setup, dir.path()).await;
        write_keys(&dir.path().join("keys.json"));
        let mut members = Vec::new();
        for number in 0..setup.members() {
            let (name, front) = if number < setup.gateways() {
                let port = free_port();
                let front = Proxy::start(port).await;
                (format!("gateway-{number}"), Some((port, front)))
            } else {
                (format!("worker-{}", number - setup.gateways()), None)
            };
            let place = Place {
                dir: dir.path().to_owned(),
                store: servers.as_ref().map(|servers| servers.url(number)),
                durability: setup.durability(),
                has_clock: number == setup.members() - 1,
                program: number >= setup.members() - setup.programs(),
            };
            let member = Member::launch(name, front, place, build(number), ledger.clone());
            members.push(Arc::new(member));
        }
        let supervisor = tokio::spawn(supervise(members.clone()));
        let fleet = Self {
            setup,
            members,
            servers,
            ledger,
            supervisor,
        };
        fleet.all_ready().await;
        // A worker makes itself known when it has connected.
        let agents = [SCRIPTED, PROGRAM];
        for path in &agents[..1 + usize::from(setup.programs() > 0)] {
            let url = format!("{}{path}", fleet.fronts()[0]);
            until("an agent", async || Client::try_initialize(&url).await).await;
        }
        fleet
    }

    pub fn gateways(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.members[..self.setup.gateways()].iter()
    }

    pub fn workers(&self) -> &[Arc<Member>] {
        &self.members[self.setup.gateways()..]
    }

    /// Of each member the process that runs, or ran last.
    pub fn processes(&self) -> impl Iterator<Item = u32> {
        self.members.iter().map(|member| member.pid())
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
        if let Some(servers) = &self.servers {
            servers.clear();
        }
        for (_, front) in self.gateways().filter_map(|member| member.front.as_ref()) {
            front.set(Mood::Clear);
        }
        let began = Instant::now();
        self.all_ready().await;
        let took = began.elapsed();
        if took > READY_BY {
            let text = format!("ready again {} ms after the last fault", took.as_millis());
            self.ledger.violation("I12", "gateways", "-", &text);
        }
    }

    /// What the store's servers use, in bytes.
    pub fn memory(&self) -> u64 {
        self.servers.as_ref().map_or(0, Servers::memory)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.supervisor.abort();
    }
}

async fn supervise(members: Vec<Arc<Member>>) {
    loop {
        members.iter().for_each(|member| member.look_after());
        sleep(Duration::from_millis(100)).await;
    }
}
