//! `baton worker`: takes sessions and runs their agent.

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
    #[command(flatten)]
    pub traces: TraceOptions,
}

pub async fn run(arguments: Arguments, stop: Stop) -> anyhow::Result<()> {
    check([
        arguments.store.faults(),
        arguments.worker.faults(),
        arguments.traces.faults(),
    ])?;
    let store = arguments.store.connect().await?;
    let config = arguments.worker.config();
    tracing::info!(worker.id = %config.id, slots = config.slots, "worker takes sessions");
    let work = baton_worker::run(store, arguments.worker.agent(), config, stop.drain);
    tokio::select! {
        outcome = work => Ok(outcome?),
        _ = stop.now.cancelled() => Ok(()),
    }
}
