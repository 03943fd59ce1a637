//! `baton store restore`: puts a backup into an empty data directory.

use std::path::PathBuf;

use baton_session::store;
use clap::Args;

use super::file::date;

#[derive(Args)]
pub struct RestoreArguments {
    /// File that `baton store backup` has written
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Directory to restore into; it must be empty or not exist
    #[arg(
        long,
        env = "BATON_DATA_DIR",
        default_value = "baton-data",
        value_name = "DIR"
    )]
    data_dir: PathBuf,
}

pub async fn run(arguments: RestoreArguments) -> anyhow::Result<()> {
    let RestoreArguments { file, data_dir } = arguments;
    let into = data_dir.clone();
    let head = tokio::task::spawn_blocking(move || store::restore(&file, &into)).await??;
    eprintln!(
        "{} is as it was on {}. Nothing that was issued until now counts any more: clients \
         initialize again and load their sessions",
        data_dir.display(),
        date(head.taken)
    );
    Ok(())
}
