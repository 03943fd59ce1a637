//! `baton worker`: takes sessions and runs their agent.

use std::time::Duration;

use baton_gateway::Stop;
use clap::Args;

use crate::options::{StoreOptions, WorkerOptions, check};
use crate::telemetry::TraceOptions;

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    store: StoreOptions,
    #[command(flatten)]
    worker: WorkerOptions,
    /// How long turns that cannot be moved to another worker may go on after SIGTERM
    #[arg(
        long,
        env = "BATON_GRACE_MS",
        default_value_t = 30_000,
        value_name = "MS"
    )]
    grace_ms: u64,
    #[command(flatten)]
    pub traces: TraceOptions,
}

pub async fn run(arguments: Arguments, stop: Stop) -> anyhow::Result<()> {
    check([
        arguments.store.faults(),
        arguments.worker.faults(),
        arguments.traces.faults(),
    ])?;
    let agent = tokio::select! {
        agent = arguments.worker.agent() => agent?,
        _ = stop.drain.cancelled() => return Ok(()),
    };
    let store = arguments.store.connect().await?;
    let grace = Duration::from_millis(arguments.grace_ms);
    let config = arguments.worker.config(grace);
    tracing::info!(worker.id = %config.id, slots = config.slots, "worker takes sessions");
    let work = baton_worker::run(store, agent, config, stop.drain);
    tokio::select! {
        outcome = work => Ok(outcome?),
        _ = stop.now.cancelled() => Ok(()),
    }
}
