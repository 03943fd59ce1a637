//! Options that several commands share.

use std::sync::Arc;
use std::time::Duration;

use baton_session::id::random_text;
use baton_session::store::redis::RedisStore;
use baton_session::store::{Store, WorkerId};
use baton_worker::agent::{Agent, scripted::Scripted};
use clap::Args;

use crate::exit::Misconfigured;

#[derive(Args)]
pub struct StoreOptions {
    /// Where sessions live: redis://HOST:PORT, or redis+cluster://HOST:PORT,HOST:PORT
    #[arg(long, env = "BATON_STORE", value_name = "URL")]
    store: String,
    /// First part of every Redis key, so that several installations can share one Redis
    #[arg(
        long,
        env = "BATON_NAMESPACE",
        default_value = "baton",
        value_name = "NAME"
    )]
    namespace: String,
}

impl StoreOptions {
    pub fn faults(&self) -> Vec<String> {
        let known = ["redis://", "redis+cluster://"]
            .iter()
            .any(|scheme| self.store.starts_with(scheme));
        let mut faults = Vec::new();
        if let Err(fault) = RedisStore::check(&self.store)
            && known
        {
            faults.push(format!("--store: {fault}"));
        }
        if !known {
            faults.push(format!(
                "--store {:?}: must begin with redis:// or redis+cluster://",
                self.store
            ));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if self.namespace.is_empty() || !self.namespace.chars().all(plain) {
            faults.push(format!(
                "--namespace {:?}: letters, digits, - and _ only",
                self.namespace
            ));
        }
        faults
    }

    pub async fn connect(&self) -> anyhow::Result<Arc<dyn Store>> {
        Ok(Arc::new(
            RedisStore::connect(&self.store, &self.namespace).await?,
        ))
    }
}

#[derive(Args)]
pub struct WorkerOptions {
    /// What to run: scripted
    #[arg(
        long,
        env = "BATON_AGENT",
        default_value = "scripted",
        value_name = "AGENT"
    )]
    agent: String,
    /// How many sessions may run here at once
    #[arg(long, env = "BATON_SLOTS", default_value_t = 1024, value_name = "N")]
    slots: usize,
    /// How long a session waits for a worker that fell silent before another goes on
    #[arg(
        long,
        env = "BATON_LEASE_MS",
        default_value_t = 10_000,
        value_name = "MS"
    )]
    lease_ms: u64,
}

impl WorkerOptions {
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.agent != "scripted" {
            faults.push(format!(
                "--agent {:?}: the agents are: scripted",
                self.agent
            ));
        }
        if self.slots == 0 {
            faults.push("--slots 0: a worker without slots does nothing".into());
        }
        if !(300..=3_600_000).contains(&self.lease_ms) {
            faults.push(format!(
                "--lease-ms {}: must be between 300 and 3600000",
                self.lease_ms
            ));
        }
        faults
    }

    pub fn agent(&self) -> Arc<dyn Agent> {
        Arc::new(Scripted)
    }

    pub fn config(&self) -> baton_worker::Config {
        baton_worker::Config {
            id: WorkerId(random_text(12).into()),
            slots: self.slots,
            lease: Duration::from_millis(self.lease_ms),
        }
    }
}

/// All faults in one message.
pub fn check(faults: impl IntoIterator<Item = Vec<String>>) -> anyhow::Result<()> {
    let faults: Vec<String> = faults.into_iter().flatten().collect();
    if faults.is_empty() {
        Ok(())
    } else {
        Err(Misconfigured(faults).into())
    }
}
