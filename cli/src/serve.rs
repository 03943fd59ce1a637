//! `baton serve`: everything in one process.

use std::convert::Infallible;
use std::future::pending;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use baton_gateway::admin::AdminListener;
use baton_gateway::drain::DrainPace;
use baton_gateway::{App, GatewayMetrics, StopSignals};
use baton_session::store::{ALIVE, FileStore, MemoryStore, Store};
use baton_session::token::{KeyRing, SigningKeys, generate};
use clap::Args;
use jsonwebtoken::Algorithm;
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use self::banner::Banner;
use self::demo::{DemoWorker, Demonstration};
use crate::admin;
use crate::agent_policy::ClientTrust;
use crate::audit::AuditOptions;
use crate::edge::EdgeOptions;
use crate::exit::OutputClosed;
use crate::headings::{NETWORK, STORAGE};
use crate::key_file;
use crate::meters;
use crate::options::{WorkerOptions, check};
use crate::reports::{self, ProcessIdentity};
use crate::signals;
use crate::telemetry::{Telemetry, TraceOptions};

mod banner;
mod demo;

#[derive(Args)]
pub struct ServeArguments {
    /// Directory for sessions and keys; created if it does not exist
    #[arg(
        long,
        env = "BATON_DATA_DIR",
        default_value = "baton-data",
        value_name = "DIR",
        help_heading = STORAGE
    )]
    pub data_dir: PathBuf,
    /// Keep sessions and keys in memory; they are lost when the process ends
    #[arg(
        long,
        env = "BATON_EPHEMERAL",
        value_parser = clap::builder::BoolishValueParser::new(),
        help_heading = STORAGE
    )]
    pub ephemeral: bool,
    /// Run two workers and a Redis as processes of their own, to be killed from the console
    ///
    /// For a demonstration on this machine: everything is in memory, and everybody who reaches it
    /// is an administrator. Needs redis-server.
    #[arg(
        long,
        env = "BATON_DEMO",
        value_parser = clap::builder::BoolishValueParser::new(),
        help_heading = STORAGE
    )]
    pub demo: bool,
    /// Address and port to listen on
    #[arg(
        long,
        env = "BATON_LISTEN",
        default_value = "127.0.0.1:8080",
        value_name = "ADDR",
        help_heading = NETWORK
    )]
    pub listen: SocketAddr,
    #[command(flatten)]
    pub edge: EdgeOptions,
    #[command(flatten)]
    pub worker: WorkerOptions,
    #[command(flatten)]
    audit: AuditOptions,
    #[command(flatten)]
    pub traces: TraceOptions,
}

/// Quick, since there is no other replica that anybody could go to.
const PACE: DrainPace = DrainPace {
    grace: Duration::from_secs(5),
    stagger: Duration::ZERO,
    linger: Duration::ZERO,
};

/// A turn whose worker was killed goes on after so long.
const DEMO_LEASE: Duration = Duration::from_secs(2);

/// A person at a terminal waits for the end. Turns that are cut go on at the next start.
const INTERRUPT_GRACE: Duration = Duration::from_millis(500);

impl ServeArguments {
    pub fn faults(&self) -> Vec<String> {
        let (_, edge) = self.edge.auth(self.listen);
        let (_, transport) = self.edge.transport(self.listen);
        let all = [edge, transport, self.worker.faults(), self.traces.faults()];
        [all.concat(), self.demo_faults()].concat()
    }

    /// Only people at this machine may kill its workers.
    fn demo_faults(&self) -> Vec<String> {
        let local = self.edge.clients(self.listen) == ClientTrust::Local;
        let fault = "--demo: only on this machine, with --auth none and a loopback --listen, \
            and neither --allow-host nor --allow-origin";
        let found = (self.demo && !local).then(|| fault.into());
        found.into_iter().collect()
    }

    /// The paths that no session's directory may contain. On a single-user machine the data may be
    /// in the directory that is worked in: there are no other users whose sessions or keys could be
    /// read.
    pub fn kept_from_agents(
        &self,
        clients: ClientTrust,
        admin: Option<&AdminListener>,
    ) -> Vec<PathBuf> {
        if clients == ClientTrust::Local {
            return Vec::new();
        }
        let data = (!self.ephemeral).then(|| self.data_dir.clone());
        let ours = data.into_iter().chain(self.audit.kept());
        let ours = ours
            .chain(admin::socket(admin))
            .chain(self.worker.agent.kept());
        self.edge.kept().into_iter().chain(ours).collect()
    }
}

pub async fn run(
    arguments: ServeArguments,
    stop: StopSignals,
    telemetry: &Telemetry,
) -> anyhow::Result<()> {
    let (auth, edge_faults) = arguments.edge.auth(arguments.listen);
    let (transport, transport_faults) = arguments.edge.transport(arguments.listen);
    let tls = transport.tls.is_some();
    check([
        edge_faults,
        transport_faults,
        arguments.worker.faults(),
        arguments.traces.faults(),
        arguments.demo_faults(),
    ])?;
    if arguments.demo
        && let Some(worker) = DemoWorker::from_environment().await?
    {
        return run_demo_worker(arguments, worker, stop).await;
    }
    let listener = baton_gateway::listen(arguments.listen).with_context(|| {
        format!(
            "cannot listen on {}: is another baton running? Choose with --listen",
            arguments.listen
        )
    })?;
    let address = listener.local_addr()?;
    let mut admin = arguments.edge.bind_admin(address.port()).await?;
    let EmbeddedServices {
        store,
        files,
        keys,
        failed,
    } = open(&arguments)?;
    let demonstration = if arguments.demo {
        Some(Demonstration::start().await?)
    } else {
        None
    };
    let store = demonstration
        .as_ref()
        .map_or(store, |demo| demo.store.clone());
    if let Some(files) = files {
        let heard = admin.as_ref().map(admin::address).transpose()?;
        files.note_admin(heard.as_deref())?;
        if let Some(door) = &mut admin {
            door.files = Some(files);
        }
    }
    let clients = arguments.edge.clients(arguments.listen);
    let worker_metrics = baton_worker::WorkerMetrics::default();
    let metrics = Arc::new(GatewayMetrics::default());
    let mut registry = meters::registry();
    worker_metrics.register(&mut registry);
    metrics.register(&mut registry);
    let audit = arguments.audit.open(&mut registry)?;
    // The protected paths have to exist.
    let kept = arguments.kept_from_agents(clients, admin.as_ref());
    let agent = arguments
        .worker
        .agent(&kept, clients, &worker_metrics)
        .await?;
    let registry = Arc::new(registry);
    telemetry.report(registry.clone());
    // Turns have had their time when the worker stops.
    let worker_config = baton_worker::RunnerConfig {
        audit: audit.clone(),
        ..arguments
            .worker
            .config(Duration::ZERO, worker_metrics, clients)
    };
    let card = worker_config.card(&*agent);
    let config = baton_gateway::GatewayConfig {
        default_agent: Some(card.name.clone()),
        default_cwd: crate::options::current_directory(),
        demo: demonstration.as_ref().map(Demonstration::killer),
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
        pace: PACE,
        ..Default::default()
    };
    // After the gateway: the turns that it waits for need a worker.
    let worker_stop = CancellationToken::new();
    // Known before the first client asks.
    if demonstration.is_none() {
        store.register(&card, &worker_config.id, ALIVE).await?;
    }
    let work = baton_worker::run(store.clone(), agent, worker_config, worker_stop.clone());
    // Those of a demonstration are processes of their own.
    let is_demonstration = demonstration.is_some();
    let worker = tokio::spawn(async move { if is_demonstration { Ok(()) } else { work.await } });
    // The gateway cuts off what is still open when its grace is over; the worker has its own time
    // to hand over, unless somebody is in a hurry.
    let hurry = stop.now.clone();
    let cut = hurry.child_token();
    let stop = StopSignals {
        now: cut.clone(),
        ..stop
    };
    let interrupted = signals::interrupted()?;
    let (name, top) = (config.name.to_string(), config.top_use.clone());
    let identity = ProcessIdentity {
        process: name,
        role: if is_demonstration { "gateway" } else { "serve" },
    };
    let (registry, agent_card) = (config.registry.clone(), card.clone());
    reports::start(identity, store.clone(), registry, &stop, move || {
        let agent = json!({ "name": agent_card.name, "version": agent_card.version });
        json!({ "top": top.shown(), "agent": agent })
    });
    let app = App::new(config, store, keys, auth, stop).await?;
    // Nobody reading is no reason to stop.
    let banner = Banner {
        address,
        tls,
        authenticated: arguments.edge.authenticates(),
        console: arguments.edge.shows_console(),
    };
    let _ = if arguments.audit.takes_stdout() {
        writeln!(std::io::stderr(), "{}", banner.text())
    } else {
        writeln!(std::io::stdout(), "{}", banner.text())
    };
    let cut_short = async {
        interrupted.await;
        sleep(INTERRUPT_GRACE).await;
        cut.cancel();
        pending::<Infallible>().await
    };
    let served = tokio::select! {
        served = baton_gateway::serve(listener, admin, app) => served,
        never = cut_short => match never {},
        reason = failed => return Err(OutputClosed(reason).into()),
    };
    worker_stop.cancel();
    tokio::select! {
        worked = worker => worked??,
        _ = hurry.cancelled() => {}
    }
    audit.close();
    drop(demonstration);
    served?;
    Ok(())
}

/// A child of a demonstration: nothing but a worker.
async fn run_demo_worker(
    arguments: ServeArguments,
    worker: DemoWorker,
    stop: StopSignals,
) -> anyhow::Result<()> {
    let metrics = baton_worker::WorkerMetrics::default();
    let mut registry = meters::registry();
    metrics.register(&mut registry);
    let clients = arguments.edge.clients(arguments.listen);
    let agent = arguments.worker.agent(&[], clients, &metrics).await?;
    let config = baton_worker::RunnerConfig {
        id: worker.id,
        lease: DEMO_LEASE,
        ..arguments.worker.config(Duration::ZERO, metrics, clients)
    };
    let card = config.card(&*agent);
    let identity = ProcessIdentity {
        process: format!("worker-{}", config.id.0),
        role: "worker",
    };
    let store = worker.store;
    let abandoned = stop.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        abandoned.drain.cancel();
    });
    reports::start(
        identity,
        store.clone(),
        Arc::new(registry),
        &stop,
        move || json!({ "agent": { "name": card.name, "version": card.version } }),
    );
    Ok(baton_worker::run(store, agent, config, stop.drain).await?)
}

struct EmbeddedServices {
    store: Arc<dyn Store>,
    /// The same, if it is in files.
    files: Option<FileStore>,
    keys: SigningKeys,
    /// Returns when nothing can be saved any more.
    failed: Pin<Box<dyn Future<Output = String> + Send>>,
}

fn open(arguments: &ServeArguments) -> anyhow::Result<EmbeddedServices> {
    if arguments.ephemeral || arguments.demo {
        return Ok(EmbeddedServices {
            store: Arc::new(MemoryStore::default()),
            files: None,
            keys: SigningKeys::fixed(KeyRing::parse(&generate(Algorithm::HS256))?),
            failed: Box::pin(pending()),
        });
    }
    let store = FileStore::open(&arguments.data_dir)?;
    let keys = own_keys(&store.key_file())?;
    tracing::info!(directory = %arguments.data_dir.display(), "sessions are kept in files");
    let watched = store.clone();
    Ok(EmbeddedServices {
        store: Arc::new(store.clone()),
        files: Some(store),
        keys,
        failed: Box::pin(async move { watched.failed().await }),
    })
}

/// The keys stay the same from start to start, so that tokens stay good.
fn own_keys(path: &Path) -> anyhow::Result<SigningKeys> {
    key_file::make_once(path, Algorithm::HS256)?;
    SigningKeys::open(path).map_err(|fault| anyhow!(fault))
}
