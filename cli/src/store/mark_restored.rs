//! `baton store mark-restored`: what a Redis needs after it was restored from a backup.

use clap::Args;

use crate::options::{StoreOptions, check};

#[derive(Args)]
pub struct MarkRestoredArguments {
    #[command(flatten)]
    store: StoreOptions,
}

pub async fn run(arguments: MarkRestoredArguments) -> anyhow::Result<()> {
    check([arguments.store.faults()])?;
    arguments.store.redis_store().await?.mark_restored().await?;
    eprintln!(
        "Redis is marked as restored: nothing that was issued until now counts any more. Start \
         gateways and workers"
    );
    Ok(())
}
