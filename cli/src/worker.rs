//! `baton worker`: takes sessions and runs their agent.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use baton_gateway::StopSignals;
use baton_session::metrics::StoreMetrics;
use baton_worker::WorkerMetrics;
use clap::Args;
use serde_json::json;

use crate::agent_policy::ClientTrust;
use crate::audit::AuditOptions;
use crate::headings::{OBSERVABILITY, SESSIONS};
use crate::meters;
use crate::options::{StoreOptions, WorkerOptions, check};
use crate::probes::{self, WorkerProgress};
use crate::reports::{self, ProcessIdentity};
use crate::telemetry::{Telemetry, TraceOptions};

#[derive(Args)]
pub struct WorkerArguments {
    #[command(flatten)]
    pub store: StoreOptions,
    #[command(flatten)]
    pub worker: WorkerOptions,
    /// Milliseconds to finish turns after SIGTERM
    ///
    /// Applies to turns that cannot move to another worker.
    #[arg(
        long,
        env = "BATON_GRACE_MS",
        default_value_t = 30_000,
        value_name = "MS",
        help_heading = SESSIONS
    )]
    grace_ms: u64,
    /// Address and port for /healthz, /readyz and /metrics
    ///
    /// Without this option the worker serves none of them.
    #[arg(long, env = "BATON_PROBE_LISTEN", value_name = "ADDR", help_heading = OBSERVABILITY)]
    pub probe_listen: Option<SocketAddr>,
    #[command(flatten)]
    audit: AuditOptions,
    #[command(flatten)]
    pub traces: TraceOptions,
}

impl WorkerArguments {
    pub fn faults(&self) -> Vec<String> {
        let faults = [
            self.store.faults(),
            self.worker.faults(),
            self.traces.faults(),
        ];
        faults.concat()
    }

    /// Our own files, which no agent may read or change.
    pub fn kept_from_agents(&self) -> Vec<PathBuf> {
        let kept = self.store.kept().into_iter();
        let agents = self.worker.agent.kept();
        kept.chain(self.audit.kept()).chain(agents).collect()
    }
}

pub async fn run(
    arguments: WorkerArguments,
    stop: StopSignals,
    telemetry: &Telemetry,
) -> anyhow::Result<()> {
    check([arguments.faults()])?;
    let (mut registry, store_metrics) = (meters::registry(), StoreMetrics::default());
    let metrics = WorkerMetrics::default();
    store_metrics.register(&mut registry);
    metrics.register(&mut registry);
    let audit = arguments.audit.open(&mut registry)?;
    let (registry, progress) = (Arc::new(registry), Arc::new(WorkerProgress::default()));
    telemetry.report(registry.clone());
    let shown = registry.clone();
    if let Some(address) = arguments.probe_listen {
        probes::start(address, progress.clone(), registry, stop.drain.clone()).await?;
    }
    let kept = arguments.kept_from_agents();
    let agent = tokio::select! {
        agent = arguments.worker.agent(&kept, ClientTrust::Anybody, &metrics) => agent?,
        _ = stop.drain.cancelled() => return Ok(()),
    };
    let _ = progress.agent_ready.set(());
    let store = arguments.store.connect(store_metrics).await?;
    let _ = progress.store.set(store.clone());
    let grace = Duration::from_millis(arguments.grace_ms);
    let config = baton_worker::RunnerConfig {
        registered: progress.registered.clone(),
        audit: audit.clone(),
        ..arguments
            .worker
            .config(grace, metrics, ClientTrust::Anybody)
    };
    let card = config.card(&*agent);
    let identity = ProcessIdentity {
        process: format!("worker-{}", config.id.0),
        role: "worker",
    };
    reports::start(
        identity,
        store.clone(),
        shown,
        &stop,
        move || json!({ "agent": { "name": card.name, "version": card.version } }),
    );
    let work = baton_worker::run(store, agent, config, stop.drain);
    let outcome = tokio::select! {
        outcome = work => outcome,
        _ = stop.now.cancelled() => Ok(()),
    };
    audit.close();
    Ok(outcome?)
}
