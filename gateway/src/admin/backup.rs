//! `GET /backup`: the data directory as one file, as it is at this moment, while it is used. The
//! client writes the file: this process writes to no directory that others name.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderName, header};
use axum::response::{IntoResponse, Response};
use baton_session::store::{BackupSnapshot, FileStore};
use futures_util::stream;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::error::GatewayError;
use crate::http::headers;

/// Which directory is meant, as [`identity`](baton_session::store::identity) has it: whoever asks
/// may have been told of a process that is gone.
pub const DIRECTORY: HeaderName = HeaderName::from_static(baton_protocol::header::BACKUP_DIRECTORY);

const CHUNK: usize = 256 << 10;
/// Chunks that wait for whoever asked.
const AHEAD: usize = 4;
/// A client that takes nothing for this long is disconnected: the database keeps removed data for
/// as long as a snapshot exists.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The store to back up, one backup at a time.
#[derive(Clone)]
pub struct BackupService {
    files: Option<FileStore>,
    permit: Arc<Semaphore>,
}

impl BackupService {
    pub fn of(files: Option<FileStore>) -> Self {
        Self {
            files,
            permit: Arc::new(Semaphore::new(1)),
        }
    }

    /// The store of this directory, or the one of this process if none is named.
    fn files(&self, directory: Option<&str>) -> Result<FileStore, String> {
        let files = self.files.clone().ok_or(
            "this process keeps nothing in files: of Redis, a backup is made as \
             docs/operate/backup.md says",
        )?;
        let own = files.identity().map_err(|error| error.to_string())?;
        if directory.is_none_or(|named| own == named) {
            Ok(files)
        } else {
            Err(format!(
                "this process keeps its data elsewhere, in {}: say where the other is heard with \
                 --admin",
                files.path().display()
            ))
        }
    }
}

pub async fn take(
    State(app): State<Arc<App>>,
    Extension(backups): Extension<BackupService>,
    headers: HeaderMap,
) -> Result<Response, GatewayError> {
    let files = backups.files(headers::single(&headers, &DIRECTORY)?);
    let files = files.map_err(GatewayError::Backup)?;
    let permit = backups.permit.clone().try_acquire_owned().map_err(|_| {
        GatewayError::Backup("a backup is being taken already: try again when it is done".into())
    })?;
    let snapshot = tokio::task::spawn_blocking(move || files.snapshot()).await;
    let snapshot = snapshot.map_err(|_| GatewayError::Backup("the backup broke off".into()))??;
    tracing::info!("a backup is being taken");
    let (chunks, taken) = mpsc::channel(AHEAD);
    let pipe = BackupPipe {
        chunks,
        stop: app.stop.clone(),
        runtime: Handle::current(),
    };
    tokio::task::spawn_blocking(move || pipe.write_snapshot(&snapshot, permit));
    let next = async |mut taken: mpsc::Receiver<io::Result<Bytes>>| {
        let chunk = taken.recv().await?;
        Some((chunk, taken))
    };
    let body = Body::from_stream(stream::unfold(taken, next));
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], body).into_response())
}

/// To the one who asked, from a thread that may wait.
struct BackupPipe {
    chunks: mpsc::Sender<io::Result<Bytes>>,
    stop: CancellationToken,
    runtime: Handle,
}

impl BackupPipe {
    fn write_snapshot(mut self, snapshot: &BackupSnapshot, permit: OwnedSemaphorePermit) {
        let written = snapshot.write(BufWriter::with_capacity(CHUNK, &mut self));
        match written.map(drop) {
            Ok(()) => tracing::info!("the backup was taken"),
            Err(error) => {
                tracing::warn!(%error, "the backup broke off");
                // Without this it would look like the end. Its end is not there either.
                let _ = self.chunks.try_send(Err(error));
            }
        }
        drop(permit);
    }
}

impl Write for BackupPipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let chunk = Bytes::copy_from_slice(bytes);
        let sent = async {
            tokio::select! {
                sent = timeout(STALL_TIMEOUT, self.chunks.send(Ok(chunk))) => match sent {
                    Ok(Ok(())) => Ok(bytes.len()),
                    Ok(Err(_)) => Err(io::Error::other("who asked for it has gone")),
                    Err(_) => Err(io::Error::other("who asked for it takes nothing any more")),
                },
                () = self.stop.cancelled() => Err(io::Error::other("the process stops")),
            }
        };
        self.runtime.block_on(sent)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
