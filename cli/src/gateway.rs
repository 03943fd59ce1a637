//! `baton gateway`: one replica.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use baton_gateway::drain::DrainPace;
use baton_gateway::{App, GatewayMetrics, StopSignals};
use baton_session::metrics::StoreMetrics;
use baton_session::token::SigningKeys;
use clap::Args;
use serde_json::json;

use crate::audit::AuditOptions;
use crate::edge::EdgeOptions;
use crate::exit::ConfigurationError;
use crate::exposure;
use crate::headings::{AUTHENTICATION, LIMITS, NETWORK, SESSIONS};
use crate::meters;
use crate::options::{StoreOptions, agent_name_fault, check};
use crate::reports::{self, ProcessIdentity};
use crate::telemetry::{Telemetry, TraceOptions};

#[derive(Args)]
pub struct GatewayArguments {
    #[command(flatten)]
    pub store: StoreOptions,
    /// Address and port to listen on
    #[arg(
        long,
        env = "BATON_LISTEN",
        default_value = "127.0.0.1:8080",
        value_name = "ADDR",
        help_heading = NETWORK
    )]
    pub listen: SocketAddr,
    /// Key set that signs tokens, or a directory of key sets
    ///
    /// `baton token keygen` creates one. All replicas need the same keys. Changes of the file take
    /// effect without a restart.
    #[arg(long, env = "BATON_KEYS", value_name = "FILE|DIR", help_heading = AUTHENTICATION)]
    pub keys: PathBuf,
    /// Agent that clients reach at /acp
    ///
    /// Without this option it is the agent named scripted; if there is none, the first agent in
    /// alphabetical order.
    #[arg(long, env = "BATON_DEFAULT_AGENT", value_name = "NAME", help_heading = SESSIONS)]
    default_agent: Option<String>,
    /// Milliseconds until a command fails if no worker is alive
    #[arg(
        long,
        env = "BATON_WITHDRAW_AFTER_MS",
        default_value_t = 30_000,
        value_name = "MS",
        help_heading = SESSIONS
    )]
    withdraw_after_ms: u64,
    /// Milliseconds until a stream that its client does not read is closed
    #[arg(
        long,
        env = "BATON_STALL_MS",
        default_value_t = 60_000,
        value_name = "MS",
        help_heading = LIMITS
    )]
    stall_ms: u64,
    /// Milliseconds to finish turns and requests after SIGTERM
    ///
    /// Streams that are still open after it are closed.
    #[arg(
        long,
        env = "BATON_GRACE_MS",
        default_value_t = 30_000,
        value_name = "MS",
        help_heading = SESSIONS
    )]
    grace_ms: u64,
    #[command(flatten)]
    edge: EdgeOptions,
    #[command(flatten)]
    audit: AuditOptions,
    #[command(flatten)]
    pub traces: TraceOptions,
}

impl GatewayArguments {
    pub fn faults(&self) -> Vec<String> {
        let (_, edge) = self.edge.auth(self.listen);
        let (_, transport) = self.edge.transport(self.listen);
        let keys = SigningKeys::open(&self.keys).err();
        let keys = keys.map(|fault| format!("--keys {fault}"));
        [edge, transport, Vec::from_iter(keys), self.other_faults()].concat()
    }

    /// Those of options from which `run` makes nothing before it connects.
    fn other_faults(&self) -> Vec<String> {
        let mut faults = self.store.faults();
        faults.extend(exposure::faults(&self.keys));
        if !(1_000..=3_600_000).contains(&self.stall_ms) {
            let given = self.stall_ms;
            faults.push(format!(
                "--stall-ms {given}: must be between 1000 and 3600000"
            ));
        }
        let agent = self.default_agent.as_deref();
        faults.extend(agent_name_fault("--default-agent", agent));
        faults.extend(self.traces.faults());
        faults
    }
}

pub async fn run(
    arguments: GatewayArguments,
    stop: StopSignals,
    telemetry: &Telemetry,
) -> anyhow::Result<()> {
    let (keys, key_faults) = match SigningKeys::open(&arguments.keys) {
        Ok(keys) => (Some(keys), Vec::new()),
        Err(fault) => (None, vec![format!("--keys {fault}")]),
    };
    let (auth, edge_faults) = arguments.edge.auth(arguments.listen);
    let (transport, transport_faults) = arguments.edge.transport(arguments.listen);
    check([
        arguments.other_faults(),
        edge_faults,
        transport_faults,
        key_faults,
    ])?;
    let keys = keys.ok_or(ConfigurationError(Vec::new()))?;
    let listener = baton_gateway::listen(arguments.listen)
        .with_context(|| format!("cannot listen on {}", arguments.listen))?;
    let admin = arguments
        .edge
        .bind_admin(listener.local_addr()?.port())
        .await?;
    let (mut registry, store_metrics) = (meters::registry(), StoreMetrics::default());
    let metrics = Arc::new(GatewayMetrics::default());
    store_metrics.register(&mut registry);
    metrics.register(&mut registry);
    let audit = arguments.audit.open(&mut registry)?;
    let registry = Arc::new(registry);
    telemetry.report(registry.clone());
    let store = arguments.store.connect(store_metrics).await?;
    let config = baton_gateway::GatewayConfig {
        default_agent: arguments.default_agent,
        default_cwd: crate::options::current_directory(),
        withdraw_after: Duration::from_millis(arguments.withdraw_after_ms),
        origins: arguments.edge.origins(),
        console: arguments.edge.shows_console(),
        mcp: arguments.edge.mcp(),
        transport,
        queue_limit: arguments.edge.queue_limit,
        limits: arguments.edge.limits(),
        max_inflight_bytes: arguments.edge.max_inflight_bytes(),
        metrics,
        registry,
        audit: audit.clone(),
        traces: arguments.traces.made(),
        stall: Duration::from_millis(arguments.stall_ms),
        pace: DrainPace {
            grace: Duration::from_millis(arguments.grace_ms),
            ..DrainPace::default()
        },
        ..Default::default()
    };
    let tls = config.transport.tls.is_some();
    let (name, top) = (config.name.to_string(), config.top_use.clone());
    let identity = ProcessIdentity {
        process: name,
        role: "gateway",
    };
    let registry = config.registry.clone();
    reports::start(
        identity,
        store.clone(),
        registry,
        &stop,
        move || json!({ "top": top.shown() }),
    );
    let app = App::new(config, store, keys, auth, stop).await?;
    tracing::info!(address = %listener.local_addr()?, tls, "gateway listens");
    let served = baton_gateway::serve(listener, admin, app).await;
    audit.close();
    Ok(served?)
}
