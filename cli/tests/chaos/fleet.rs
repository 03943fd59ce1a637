//! The processes: gateways, workers and Redis, each behind its own proxies, kept running.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use self::member::{Member, Place};
use crate::ledger::Ledger;
use crate::support::cluster::{ready, redis_cli, url, write_keys};
use crate::support::process::free_port;
use crate::support::proxy::{Mood, Proxy};
use crate::support::{Client, Redis, until};

mod member;

pub const GATEWAYS: usize = 2;
pub const WORKERS: usize = 3;
pub struct Fleet {
    pub members: Vec<Arc<Member>>,
    pub redis: AsyncMutex<Redis>,
    /// What takes over from it.
    pub replica: Option<AsyncMutex<Redis>>,
    redis_port: AtomicU16,
    supervisor: JoinHandle<()>,
}

impl Fleet {
    pub async fn start(dir: &TempDir, ledger: Arc<Ledger>, with_replica: bool) -> Self {
        // Only what is on disk before the reply survives a kill -9 for sure.
        let redis = Redis::start_with(&["--appendfsync", "always"]).await;
        let redis_port = redis.port;
        let replica = if with_replica {
            let replica = Redis::start().await;
            follow(&replica, redis_port).await;
            Some(AsyncMutex::new(replica))
        } else {
            None
        };
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
            let place = Place {
                dir: dir.path().to_owned(),
                // Only what a replica has survives a failover.
                durability: if with_replica { "replicated" } else { "fast" },
            };
            let member = Member::launch(name, front, store, place, ledger.clone());
            members.push(Arc::new(member));
        }
        let supervisor = tokio::spawn(supervise(members.clone()));
        let fleet = Self {
            members,
            redis: AsyncMutex::new(redis),
            replica,
            redis_port: AtomicU16::new(redis_port),
            supervisor,
        };
        fleet.all_ready().await;
        // A worker makes itself known when it has connected.
        let url = &fleet.fronts()[0];
        until("an agent", async || Client::try_initialize(url).await).await;
        fleet
    }

    /// Where Redis is now.
    pub fn redis_port(&self) -> u16 {
        self.redis_port.load(Ordering::SeqCst)
    }

    /// The primary is killed; its replica has its place a while later, and it the replica's.
    pub async fn fail_over(&self, after: Duration) {
        let Some(replica) = &self.replica else { return };
        let mut primary = self.redis.lock().await;
        let mut replica = replica.lock().await;
        primary.process.kill();
        sleep(after).await;
        redis_cli(replica.port, &["replicaof", "no", "one"]);
        std::mem::swap(&mut *primary, &mut *replica);
        self.redis_port.store(primary.port, Ordering::SeqCst);
        for member in &self.members {
            member.store.aim(primary.port);
        }
        replica.restart().await;
        follow(&replica, primary.port).await;
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

/// Returns when the replica has all that the primary has.
async fn follow(replica: &Redis, primary: u16) {
    let port = replica.port;
    redis_cli(port, &["replicaof", "127.0.0.1", &primary.to_string()]);
    until("the replica follows", async || {
        let info = redis_cli(port, &["info", "replication"]);
        info.contains("master_link_status:up").then_some(())
    })
    .await;
}

async fn supervise(members: Vec<Arc<Member>>) {
    loop {
        members.iter().for_each(|member| member.look_after());
        sleep(Duration::from_millis(100)).await;
    }
}
