//! `baton store backup`: a data directory as one file. A process that uses the directory is asked
//! for it, at its administrators' port; a directory that nobody uses is read here.

use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use baton_gateway::admin::DIRECTORY;
use baton_session::store::{BackupSnapshot, DirectoryError, admin_of, identity};
use bytes::Bytes;
use clap::Args;
use http::Request;

use super::file::BackupFile;
use crate::admin::caller::CallerOptions;
use crate::local_http::LocalAnswer;

#[derive(Args)]
pub struct BackupArguments {
    /// File to write; it must not exist
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Data directory, as given to `baton serve`
    ///
    /// Without this option it is baton-data, or the directory of the process that --admin names.
    #[arg(long, env = "BATON_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    caller: CallerOptions,
}

pub async fn run(arguments: BackupArguments) -> anyhow::Result<()> {
    let BackupArguments {
        file,
        data_dir,
        caller,
    } = arguments;
    let file = BackupFile::create(&file)?;
    let file = match (&caller.admin, data_dir) {
        (Some(admin), directory) => {
            receive(ask(&caller, admin, directory.as_deref()).await?, file).await?
        }
        (None, directory) => {
            let directory = directory.unwrap_or_else(|| "baton-data".into());
            match snapshot(&directory).await? {
                Some(snapshot) => write(snapshot, file).await?,
                None => receive(ask_its_user(&caller, &directory).await?, file).await?,
            }
        }
    };
    tokio::task::spawn_blocking(|| file.finish()).await?
}

/// `None` if a process uses the directory.
async fn snapshot(directory: &Path) -> anyhow::Result<Option<BackupSnapshot>> {
    let directory = directory.to_owned();
    let taken = tokio::task::spawn_blocking(move || BackupSnapshot::of_unused(&directory));
    match taken.await? {
        Ok(snapshot) => Ok(Some(snapshot)),
        Err(DirectoryError::InUse(_)) => Ok(None),
        Err(refused) => Err(refused.into()),
    }
}

async fn write(snapshot: BackupSnapshot, file: BackupFile) -> anyhow::Result<BackupFile> {
    tokio::task::spawn_blocking(move || {
        snapshot.write(BufWriter::with_capacity(1 << 20, &file.file))?;
        Ok(file)
    })
    .await?
}

/// The process that uses the directory has written down where it is heard.
async fn ask_its_user(caller: &CallerOptions, directory: &Path) -> anyhow::Result<LocalAnswer> {
    let Some(admin) = admin_of(directory) else {
        bail!(
            "{}: a process uses this data directory and hears no administrators. Start it with \
             --admin-listen, or stop it for the time of the backup",
            directory.display()
        );
    };
    ask(caller, &admin, Some(directory)).await
}

/// For a backup of this directory, or of whatever the process has.
async fn ask(
    caller: &CallerOptions,
    admin: &str,
    directory: Option<&Path>,
) -> anyhow::Result<LocalAnswer> {
    let mut request = Request::get("/backup");
    if let Some(directory) = directory {
        let identity = identity(directory).with_context(|| directory.display().to_string())?;
        request = request.header(DIRECTORY, identity);
    }
    let unreachable = "does `baton serve` run there?";
    caller.ask(admin, request, Bytes::new(), unreachable).await
}

async fn receive(mut response: LocalAnswer, mut file: BackupFile) -> anyhow::Result<BackupFile> {
    let broken = "the backup broke off: the server has stopped, or given it up; its log says why";
    while let Some(chunk) = response.chunk().await.context(broken)? {
        // Memory of the system's takes it; the disk is waited for at the end.
        file.file
            .write_all(&chunk)
            .context("the backup could not be written")?;
    }
    Ok(file)
}
