//! The probes of a worker: whether it runs, whether it works, and its metrics. Gateways have the
//! same on their own port.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use anyhow::Context as _;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Router, serve};
use baton_session::metrics::{PAGE, Registry, page};
use baton_session::store::Store;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// The steps of a worker's start, one after the other.
#[derive(Default)]
pub struct WorkerProgress {
    pub agent_ready: OnceLock<()>,
    pub store: OnceLock<Arc<dyn Store>>,
    pub registered: Arc<OnceLock<()>>,
}

#[derive(Clone)]
struct ProbeState {
    progress: Arc<WorkerProgress>,
    registry: Arc<Registry>,
    drain: CancellationToken,
}

/// Serves in the background, until the process ends.
pub async fn start(
    address: SocketAddr,
    progress: Arc<WorkerProgress>,
    registry: Arc<Registry>,
    drain: CancellationToken,
) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("cannot listen on {address}"))?;
    tracing::info!(address = %listener.local_addr()?, "probes and metrics");
    let routes = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(ProbeState {
            progress,
            registry,
            drain,
        });
    tokio::spawn(async move { serve(listener, routes).await });
    Ok(())
}

async fn readyz(State(probes): State<ProbeState>) -> impl IntoResponse {
    match probes.waits_for().await {
        None => (StatusCode::OK, "ready\n".to_owned()),
        Some(what) => (StatusCode::SERVICE_UNAVAILABLE, format!("{what}\n")),
    }
}

async fn metrics(State(probes): State<ProbeState>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, PAGE)], page(&probes.registry))
}

impl ProbeState {
    async fn waits_for(&self) -> Option<String> {
        if self.drain.is_cancelled() {
            return Some("draining".into());
        }
        if self.progress.agent_ready.get().is_none() {
            return Some("waiting for the agent to start".into());
        }
        let Some(store) = self.progress.store.get() else {
            return Some("waiting for the store: not connected yet".into());
        };
        if let Err(error) = store.ping().await {
            return Some(format!("waiting for the store: {error}"));
        }
        let registered = self.progress.registered.get();
        registered
            .is_none()
            .then(|| "waiting for the store: not registered yet".into())
    }
}
