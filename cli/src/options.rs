//! Options that several commands share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use baton_session::id::random_text;
use baton_session::metrics::StoreMetrics;
use baton_session::store::redis::{self, RedisStore};
use baton_session::store::{AgentCard, MAX_AGENT_NAME, Store, WorkerId};
use baton_worker::agent::Agent;
use baton_worker::{ReleaseHook, WorkerMetrics};
use clap::{Args, ValueEnum};

use crate::agent::{AgentOptions, AgentSurroundings};
use crate::agent_policy::{AgentPolicyOptions, ClientTrust};
use crate::exit::ConfigurationError;
use crate::headings::{AGENT, SESSIONS, STORAGE};
use crate::mcp::McpOptions;

#[derive(Args)]
pub struct StoreOptions {
    /// URL of Redis: redis://, redis+cluster:// or redis+sentinel://
    ///
    /// With rediss instead of redis the connection uses TLS. Either this option or --store-file is
    /// required. A password in the URL is removed from the process's command line and environment
    /// at the start.
    #[arg(
        long,
        env = "BATON_STORE",
        value_name = "URL",
        hide_env_values = true,
        help_heading = STORAGE
    )]
    store: Option<String>,
    /// File that contains the URL of Redis, instead of --store
    ///
    /// Keeps the password out of the environment and the command line.
    #[arg(long, env = "BATON_STORE_FILE", value_name = "FILE", help_heading = STORAGE)]
    store_file: Option<PathBuf>,
    /// Certificate authorities for TLS to Redis, in PEM
    ///
    /// They replace those of the system.
    #[arg(long, env = "BATON_STORE_CA", value_name = "FILE", help_heading = STORAGE)]
    store_ca: Option<PathBuf>,
    /// Copies that a write needs before it is acknowledged
    #[arg(long, env = "BATON_DURABILITY", default_value = "fast", help_heading = STORAGE)]
    durability: DurabilityOption,
    /// Prefix of every Redis key
    ///
    /// Several installations can share one Redis if each has a prefix of its own.
    #[arg(
        long,
        env = "BATON_NAMESPACE",
        default_value = "baton",
        value_name = "NAME",
        help_heading = STORAGE
    )]
    namespace: String,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum DurabilityOption {
    /// Acknowledge a write when the primary has it; a failover can lose the last ones
    Fast,
    /// Acknowledge a write when the replicas that are in step have it as well
    Replicated,
}

impl StoreOptions {
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        match self.redis(StoreMetrics::default()) {
            Err(fault) => faults.push(fault),
            // The URL itself may hold a password.
            Ok(redis) => {
                let from = match &self.store_file {
                    Some(path) => format!("--store-file {}", path.display()),
                    None => "--store".to_owned(),
                };
                faults.extend(redis.check().err().map(|fault| format!("{from}: {fault}")));
            }
        }
        faults.extend(namespace_fault(&self.namespace));
        faults
    }

    fn url(&self) -> Result<String, String> {
        match (&self.store, &self.store_file) {
            (Some(_), Some(_)) => Err("--store and --store-file: give one of them".into()),
            (Some(url), None) => Ok(url.clone()),
            (None, Some(path)) => std::fs::read_to_string(path)
                .map(|url| url.trim().to_owned())
                .map_err(|error| format!("--store-file {}: {error}", path.display())),
            (None, None) => Err("--store or --store-file is required: the URL of Redis".into()),
        }
    }

    fn redis(&self, metrics: StoreMetrics) -> Result<redis::RedisOptions, String> {
        let read = |path: &PathBuf| {
            std::fs::read(path).map_err(|error| format!("--store-ca {}: {error}", path.display()))
        };
        Ok(redis::RedisOptions {
            ca: self.store_ca.as_ref().map(read).transpose()?,
            durability: match self.durability {
                DurabilityOption::Fast => redis::Durability::Fast,
                DurabilityOption::Replicated => redis::Durability::Replicated,
            },
            metrics,
            ..redis::RedisOptions::new(&self.url()?, &self.namespace)
        })
    }

    /// Files that agents must not read.
    pub fn kept(&self) -> Vec<PathBuf> {
        self.store_file.iter().cloned().collect()
    }

    pub async fn connect(&self, metrics: StoreMetrics) -> anyhow::Result<Arc<dyn Store>> {
        Ok(Arc::new(self.connected(metrics).await?))
    }

    /// Facts about it, for `baton doctor`.
    pub async fn diagnose(&self) -> anyhow::Result<redis::Diagnosis> {
        let options = self.redis(StoreMetrics::default());
        let options = options.map_err(|fault| ConfigurationError(vec![fault]))?;
        Ok(options.diagnose().await?)
    }

    pub fn wants_replicas(&self) -> bool {
        matches!(self.durability, DurabilityOption::Replicated)
    }

    /// For what is only done to Redis.
    pub async fn redis_store(&self) -> anyhow::Result<RedisStore> {
        self.connected(StoreMetrics::default()).await
    }

    async fn connected(&self, metrics: StoreMetrics) -> anyhow::Result<RedisStore> {
        let options = self.redis(metrics);
        let options = options.map_err(|fault| ConfigurationError(vec![fault]))?;
        Ok(RedisStore::connect_with(&options).await?)
    }
}

pub fn namespace_fault(namespace: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let fits = !namespace.is_empty() && namespace.chars().all(plain);
    (!fits).then(|| format!("--namespace {namespace:?}: letters, digits, - and _ only"))
}

#[derive(Args)]
pub struct WorkerOptions {
    #[command(flatten)]
    pub agent: AgentOptions,
    /// Name of the agent; clients reach it at /acp/NAME
    ///
    /// Replaces the name that the agent reports itself, and that of an agent of `baton agents`.
    #[arg(long, env = "BATON_AGENT_NAME", value_name = "NAME", help_heading = AGENT)]
    agent_name: Option<String>,
    /// Maximum number of sessions that run here at the same time
    #[arg(
        long,
        env = "BATON_SLOTS",
        default_value_t = 1024,
        value_name = "N",
        help_heading = SESSIONS
    )]
    slots: usize,
    /// Milliseconds until another worker takes over from a dead one
    ///
    /// A worker renews its lease on a session while it runs. If it stops responding, its sessions
    /// wait for this time.
    #[arg(
        long,
        env = "BATON_LEASE_MS",
        default_value_t = 10_000,
        value_name = "MS",
        help_heading = SESSIONS
    )]
    lease_ms: u64,
    /// Time until an unused session is deleted, such as 30d, 12h or 45m
    #[arg(
        long,
        env = "BATON_SESSION_TTL",
        default_value = "30d",
        value_parser = humantime::parse_duration,
        value_name = "TIME",
        help_heading = SESSIONS
    )]
    session_ttl: Duration,
    /// Shell command that runs when the resources of a session become free
    ///
    /// The command reads on its standard input what was bound to the session.
    #[arg(long, env = "BATON_ON_RELEASE", value_name = "COMMAND", help_heading = SESSIONS)]
    on_release: Option<String>,
    #[command(flatten)]
    agent_policy: AgentPolicyOptions,
    #[command(flatten)]
    mcp: McpOptions,
}

impl WorkerOptions {
    pub fn faults(&self) -> Vec<String> {
        let mut faults = agent_name_fault("--agent-name", self.agent_name.as_deref());
        faults.extend(self.agent.faults());
        if self.slots == 0 {
            faults.push("--slots 0: a worker without slots does nothing".into());
        }
        if self.session_ttl < Duration::from_secs(60) {
            faults.push("--session-ttl: less than a minute would end sessions in use".into());
        }
        if !(300..=3_600_000).contains(&self.lease_ms) {
            faults.push(format!(
                "--lease-ms {}: must be between 300 and 3600000",
                self.lease_ms
            ));
        }
        faults.extend(self.agent_policy.faults());
        faults.extend(self.mcp.policy().1);
        let (root, root_faults) = self.mcp.root();
        faults.extend(root_faults);
        if self.agent.serves_several() && root.is_some_and(|root| !root.is_one_for_all()) {
            faults.push(
                "--workspace-root with {principal}: a process of --agent-scope shared or \
                 --agent-warm is not one caller's"
                    .into(),
            );
        }
        faults
    }

    /// The name by which clients reach the agent, unless it is to be the one that it reports
    /// itself.
    fn name(&self) -> Option<String> {
        let known = || self.agent.known().map(|known| known.name.to_owned());
        self.agent_name.clone().or_else(known)
    }

    /// `kept`: files and directories of ours that no agent may have.
    pub async fn agent(
        &self,
        kept: &[PathBuf],
        clients: ClientTrust,
        metrics: &WorkerMetrics,
    ) -> anyhow::Result<Arc<dyn Agent>> {
        let root = self.mcp.root().0;
        let around = AgentSurroundings {
            kept,
            root: root.as_ref(),
            clients,
            metrics,
        };
        self.agent.agent(around).await
    }

    /// `grace`: how long turns that cannot be moved may go on when the worker stops.
    pub fn config(
        &self,
        grace: Duration,
        metrics: WorkerMetrics,
        clients: ClientTrust,
    ) -> baton_worker::RunnerConfig {
        baton_worker::RunnerConfig {
            grace,
            id: WorkerId(random_text(12).into()),
            name: self.name(),
            slots: self.slots,
            lease: Duration::from_millis(self.lease_ms),
            session_ttl: self.session_ttl,
            on_release: self.on_release.clone().map(ReleaseHook),
            mcp: self.mcp.policy().0,
            agent_policy: self.agent_policy.policy(clients),
            workspace_root: self
                .mcp
                .root()
                .0
                .map(|root| root.owned_by(self.agent.owner())),
            metrics,
            audit: Default::default(),
            registered: Default::default(),
        }
    }
}

/// Names of agents are part of URLs.
pub fn agent_name_fault(option: &str, name: Option<&str>) -> Vec<String> {
    let bad = name.filter(|name| !AgentCard::is_name(name));
    let fault = bad.map(|name| {
        format!(
            "{option} {name:?}: letters, digits, -, _ and . only, {MAX_AGENT_NAME} at most, a \
             letter or digit first"
        )
    });
    fault.into_iter().collect()
}

/// All faults in one message.
pub fn check(faults: impl IntoIterator<Item = Vec<String>>) -> anyhow::Result<()> {
    let faults: Vec<String> = faults.into_iter().flatten().collect();
    if faults.is_empty() {
        Ok(())
    } else {
        Err(ConfigurationError(faults).into())
    }
}

/// Where sessions live whose client names no directory.
pub fn current_directory() -> String {
    let directory = std::env::current_dir().ok();
    let directory = directory.and_then(|path| path.into_os_string().into_string().ok());
    directory.unwrap_or_else(|| "/".into())
}
