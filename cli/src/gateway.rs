//! `baton gateway`: one replica.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use baton_gateway::drain::Pace;
use baton_gateway::{App, Metrics, Stop};
use baton_session::metrics::StoreMetrics;
use baton_session::token::Keys;
use clap::Args;

use crate::audit::AuditOptions;
use crate::edge::EdgeOptions;
use crate::exit::Misconfigured;
use crate::exposure;
use crate::meters;
use crate::options::{StoreOptions, agent_name_fault, check};
use crate::telemetry::{Telemetry, TraceOptions};

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    store: StoreOptions,
    /// Where to listen
    #[arg(
        long,
        env = "BATON_LISTEN",
        default_value = "127.0.0.1:8080",
        value_name = "ADDR"
    )]
    listen: SocketAddr,
    /// Key set that signs tokens, or a directory of them; make one with `baton token keygen`, the same
    /// for all replicas. Changes are noticed
    #[arg(long, env = "BATON_KEYS", value_name = "FILE|DIR")]
    keys: PathBuf,
    /// The agent that clients get at /acp; without it scripted, or if there is none such the first by name
    #[arg(long, env = "BATON_DEFAULT_AGENT", value_name = "NAME")]
    default_agent: Option<String>,
    /// How long commands wait while no worker is alive, before they are answered with an error
    #[arg(
        long,
        env = "BATON_WITHDRAW_AFTER_MS",
        default_value_t = 30_000,
        value_name = "MS"
    )]
    withdraw_after_ms: u64,
    /// How long a client may leave unread what is there for it, before its stream is given up
    #[arg(
        long,
        env = "BATON_STALL_MS",
        default_value_t = 60_000,
        value_name = "MS"
    )]
    stall_ms: u64,
    /// How long turns and requests under way may take after SIGTERM, before their streams are cut
    #[arg(
        long,
        env = "BATON_GRACE_MS",
        default_value_t = 30_000,
        value_name = "MS"
    )]
    grace_ms: u64,
    #[command(flatten)]
    edge: EdgeOptions,
    #[command(flatten)]
    audit: AuditOptions,
    #[command(flatten)]
    pub traces: TraceOptions,
}

pub async fn run(arguments: Arguments, stop: Stop, telemetry: &Telemetry) -> anyhow::Result<()> {
    let (keys, key_faults) = match Keys::open(&arguments.keys) {
        Ok(keys) => (Some(keys), Vec::new()),
        Err(fault) => (None, vec![format!("--keys {fault}")]),
    };
    let exposed = exposure::faults(&arguments.keys);
    let mut stall_faults = Vec::new();
    if !(1_000..=3_600_000).contains(&arguments.stall_ms) {
        let given = arguments.stall_ms;
        stall_faults.push(format!(
            "--stall-ms {given}: must be between 1000 and 3600000"
        ));
    }
    let (auth, edge_faults) = arguments.edge.auth(arguments.listen);
    let (transport, transport_faults) = arguments.edge.transport(arguments.listen);
    check([
        arguments.store.faults(),
        edge_faults,
        transport_faults,
        key_faults,
        exposed,
        stall_faults,
        agent_name_fault("--default-agent", arguments.default_agent.as_deref()),
        arguments.traces.faults(),
    ])?;
    let keys = keys.ok_or(Misconfigured(Vec::new()))?;
    let listener = baton_gateway::listen(arguments.listen)
        .with_context(|| format!("cannot listen on {}", arguments.listen))?;
    let admin = arguments
        .edge
        .bind_admin(listener.local_addr()?.port())
        .await?;
    let (mut registry, store_metrics) = (meters::registry(), StoreMetrics::default());
    let metrics = Arc::new(Metrics::default());
    store_metrics.register(&mut registry);
    metrics.register(&mut registry);
    let audit = arguments.audit.open(&mut registry)?;
    let registry = Arc::new(registry);
    telemetry.report(registry.clone());
    let store = arguments.store.connect(store_metrics).await?;
    let config = baton_gateway::Config {
        default_agent: arguments.default_agent,
        withdraw_after: Duration::from_millis(arguments.withdraw_after_ms),
        origins: arguments.edge.origins(),
        transport,
        queue_limit: arguments.edge.queue_limit,
        limits: arguments.edge.limits(),
        max_inflight_bytes: arguments.edge.max_inflight_bytes(),
        metrics,
        registry,
        audit: audit.clone(),
        traces: arguments.traces.made(),
        stall: Duration::from_millis(arguments.stall_ms),
        pace: Pace {
            grace: Duration::from_millis(arguments.grace_ms),
            ..Pace::default()
        },
        ..Default::default()
    };
    let tls = config.transport.tls.is_some();
    let app = App::new(config, store, keys, auth, stop).await?;
    tracing::info!(address = %listener.local_addr()?, tls, "gateway listens");
    let served = baton_gateway::serve(listener, admin, app).await;
    audit.close();
    Ok(served?)
}
