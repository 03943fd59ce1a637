//! The shared state of all requests, assembled at the start. Only what is above the stages imports
//! it: router, middleware, handlers, administration.

use std::sync::Arc;
use std::time::Duration;

use baton_session::audit::AuditLog;
use baton_session::id::random_text;
use baton_session::metrics::Registry;
use baton_session::store::{self, INBOX_LIMIT, Store};
use baton_session::token::SigningKeys;
use tokio_util::sync::CancellationToken;

use crate::access::AccessControl;
use crate::agents::AgentCatalog;
use crate::audit::AuditTrail;
use crate::auth::revocations::KnownRevocations;
use crate::auth::token_issuer::TokenIssuer;
use crate::auth::{AuthMethod, Authenticator};
use crate::background::no_worker::{self, NoWorkerTask};
use crate::background::queue_metrics::{self, QueueMetricsTask};
use crate::drain::{DrainPace, DrainState};
use crate::http::origins::AllowedOrigins;
use crate::limits::{CallerAccounts, CallerLimits, DEFAULT_INFLIGHT, InflightBudget};
use crate::mcp::{McpDoorOptions, McpServices};
use crate::methods::MethodServices;
use crate::metrics::GatewayMetrics;
use crate::net::transport::TransportConfig;
use crate::stream::StreamServices;
use crate::stream::hub::Hub;
use crate::stream::stall::StallTimeouts;
use crate::stream::stream_registry::StreamRegistry;
use crate::top_use::TopUse;
use crate::trace::TraceSampling;

/// Kills the process of a worker, for who wants to see what happens then. False if there is none.
#[derive(Clone)]
pub struct WorkerKiller(pub Arc<dyn Fn(&str) -> bool + Send + Sync>);

impl std::fmt::Debug for WorkerKiller {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("WorkerKiller")
    }
}

/// Of the random part of a gateway's name.
const NAME_CHARS: usize = 8;

#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// Its own among all processes of the cluster.
    pub name: Arc<str>,
    /// The agent that sessions get when the client doesn't choose; see [`agents`](crate::agents)
    /// for what that is if none is given.
    pub default_agent: Option<String>,
    /// Where sessions live whose client names no directory, as those of other doors may.
    pub default_cwd: String,
    /// How often an idle stream gets a comment.
    pub keep_alive: Duration,
    /// How long commands wait while no worker is alive.
    pub withdraw_after: Duration,
    /// By which names, and by pages from where, it may be used.
    pub origins: AllowedOrigins,
    /// Whether there is a page for people at `/`.
    pub console: bool,
    /// For clients that speak MCP.
    pub mcp: McpDoorOptions,
    /// How bytes get here, and what is believed about where they come from.
    pub transport: TransportConfig,
    /// How many commands may wait in one session.
    pub queue_limit: u64,
    /// How long a client may leave unread what is there for it.
    pub stall: Duration,
    /// How long stopping takes.
    pub pace: DrainPace,
    /// Limits of each caller.
    pub limits: CallerLimits,
    /// How many bytes of messages may be received at once.
    pub max_inflight_bytes: u64,
    /// Counts what happens here.
    pub metrics: Arc<GatewayMetrics>,
    /// Kills a worker of a demonstration, where everybody is an administrator.
    pub demo: Option<WorkerKiller>,
    /// Who sends most, for operators.
    pub top_use: Arc<TopUse>,
    /// All metrics of the process, as they are shown.
    pub registry: Arc<Registry>,
    /// The audit log, where decisions are recorded.
    pub audit: AuditLog,
    /// Which spans are made. They go where the process sends them.
    pub traces: TraceSampling,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        Self {
            name: format!("gateway-{}", random_text(NAME_CHARS)).into(),
            default_agent: None,
            default_cwd: "/".into(),
            keep_alive: Duration::from_secs(15),
            withdraw_after: Duration::from_secs(30),
            origins: AllowedOrigins::default(),
            console: true,
            mcp: McpDoorOptions::default(),
            transport: TransportConfig::default(),
            queue_limit: INBOX_LIMIT,
            stall: Duration::from_secs(60),
            pace: DrainPace::default(),
            limits: CallerLimits::default(),
            max_inflight_bytes: DEFAULT_INFLIGHT,
            metrics: Arc::default(),
            demo: None,
            top_use: Arc::default(),
            registry: Arc::default(),
            audit: AuditLog::default(),
            traces: TraceSampling::default(),
        }
    }
}

/// All that requests share. Each stage has a struct with what it needs; this holds them together,
/// for the handlers.
pub struct App {
    pub config: GatewayConfig,
    pub store: Arc<dyn Store>,
    /// The keys that sign and verify tokens, and what is refused although its signature is good.
    pub issuer: TokenIssuer,
    /// Identifies callers.
    pub auth: Arc<Authenticator>,
    /// Checks connection tokens and session tokens.
    pub access: AccessControl,
    /// The agents to choose from.
    pub agents: Arc<AgentCatalog>,
    /// Usage of callers.
    pub accounts: CallerAccounts,
    /// The budget of bytes in flight.
    pub inflight: Arc<InflightBudget>,
    pub methods: Arc<MethodServices>,
    pub streams: Arc<StreamServices>,
    pub mcp: Arc<McpServices>,
    pub audit: AuditTrail,
    pub metrics: Arc<GatewayMetrics>,
    /// The first half of stopping: nobody is cut off.
    pub drain: Arc<DrainState>,
    /// The second half: whatever is still open ends.
    pub stop: CancellationToken,
}

/// Signals of the caller for stopping.
#[derive(Clone, Debug, Default)]
pub struct StopSignals {
    /// Finish what is under way, and leave.
    pub drain: CancellationToken,
    /// Leave at once.
    pub now: CancellationToken,
}

impl App {
    pub async fn new(
        config: GatewayConfig,
        store: Arc<dyn Store>,
        keys: SigningKeys,
        auth: AuthMethod,
        stop: StopSignals,
    ) -> store::Result<Arc<Self>> {
        let metrics = config.metrics.clone();
        let drain = Arc::new(DrainState::new(config.pace, stop.drain));
        let issuer = TokenIssuer {
            keys,
            revocations: Arc::new(KnownRevocations::default()),
        };
        let streams =
            start_streams(&config, &store, &issuer, drain.clone(), stop.now.clone()).await?;
        let agents = Arc::new(AgentCatalog::new(
            store.clone(),
            config.default_agent.clone(),
        ));
        let audit = AuditTrail {
            log: config.audit.clone(),
            traces: config.traces,
        };
        let methods = Arc::new(MethodServices {
            store: store.clone(),
            issuer: issuer.clone(),
            agents: agents.clone(),
            audit: audit.clone(),
            metrics: metrics.clone(),
            traces: config.traces,
            queue_limit: config.queue_limit,
        });
        let mcp = Arc::new(McpServices {
            methods: methods.clone(),
            streams: streams.clone(),
            options: config.mcp.clone(),
        });
        let (is_open, origins) = (matches!(auth, AuthMethod::Open), config.origins.clone());
        let app = Arc::new(Self {
            auth: Arc::new(Authenticator::new(
                auth,
                issuer.clone(),
                store.clone(),
                origins,
            )),
            access: AccessControl::new(
                issuer.clone(),
                store.clone(),
                metrics.clone(),
                config.traces,
            ),
            inflight: InflightBudget::new(config.max_inflight_bytes, is_open),
            accounts: CallerAccounts::new(config.limits),
            store,
            issuer,
            agents,
            methods,
            streams,
            mcp,
            audit,
            metrics,
            drain,
            stop: stop.now,
            config,
        });
        app.spawn_tasks();
        Ok(app)
    }

    /// Tasks beside all requests, until the process stops.
    fn spawn_tasks(&self) {
        let (stop, audit) = (&self.stop, &self.config.audit);
        tokio::spawn(no_worker::run(NoWorkerTask {
            store: self.store.clone(),
            withdraw_after: self.config.withdraw_after,
            stop: stop.clone(),
        }));
        tokio::spawn(queue_metrics::run(QueueMetricsTask {
            store: self.store.clone(),
            metrics: self.metrics.clone(),
            stop: stop.clone(),
        }));
        let (auth, ends, log) = (self.auth.clone(), stop.clone(), audit.clone());
        tokio::spawn(async move { auth.method.watch(ends, log).await });
        let keys = self.issuer.keys.clone();
        tokio::spawn(keys.watch(stop.clone(), audit.clone()));
        if let Some(tls) = self.config.transport.tls.clone() {
            tokio::spawn(tls.watch(stop.clone(), audit.clone()));
        }
    }
}

/// Reads what was revoked before the first request is served.
async fn start_streams(
    config: &GatewayConfig,
    store: &Arc<dyn Store>,
    issuer: &TokenIssuer,
    drain: Arc<DrainState>,
    stop: CancellationToken,
) -> store::Result<Arc<StreamServices>> {
    let metrics = &config.metrics;
    let revocations = issuer.revocations.clone();
    let hub = Hub::start(store.clone(), revocations, metrics.clone(), stop.clone()).await?;
    Ok(Arc::new(StreamServices {
        store: store.clone(),
        issuer: issuer.clone(),
        hub,
        stream_registry: StreamRegistry::start(store.clone(), stop.clone()),
        stall_timeouts: StallTimeouts::start(config.stall, metrics.clone(), stop.clone()),
        metrics: metrics.clone(),
        drain,
        stop,
        keep_alive: config.keep_alive,
    }))
}
