//! Puts a backup into an empty directory. Names that the original has given out after the backup
//! are not in it, and must not be given out again: logs and inboxes have nonces for that, tokens
//! issued before are refused, and names made of numbers alone get a nonce from here on
//! ([`LogStore::restored`](crate::store::LogStore::restored)).

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fjall::{Keyspace, KeyspaceCreateOptions, OwnedWriteBatch};

use super::backup::{FILES, KEY_FILE};
use super::directory::{DataDirectory, DirectoryError};
use super::{DatabaseFiles, RESTORED, unreadable, unwritable};
use crate::backup::{BackupError, BackupHead, BackupPart, BackupReader};
use crate::id::Nonce;
use crate::revocation::Revocation;
use crate::store;

/// So many bytes are written at once.
const CHUNK: usize = 1 << 20;

/// Why there is no restored directory.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    #[error("{0}: {1}. Nothing was restored")]
    Unusable(String, BackupError),
    #[error(transparent)]
    Refused(#[from] DirectoryError),
    #[error("{0}: the restore did not come to its end: {1}. Call it again when that is mended")]
    Failed(String, String),
}

/// Nothing is written before all of the backup has proved to be there.
pub fn restore(backup: &Path, into: &Path) -> Result<BackupHead, RestoreError> {
    let unusable = |why| RestoreError::Unusable(backup.display().to_string(), why);
    let open = || BackupReader::open(BufReader::with_capacity(CHUNK, File::open(backup)?));
    let (reader, head) = open().map_err(unusable)?;
    reader.check().map_err(unusable)?;
    let directory = DataDirectory::begin_restore(into, head.directory)?;
    let failed = |why: String| RestoreError::Failed(into.display().to_string(), why);
    let (reader, _) = open().map_err(unusable)?;
    fill(Arc::new(directory), reader).map_err(|why| failed(why.to_string()))?;
    Ok(head)
}

#[derive(Debug, thiserror::Error)]
enum FillError {
    #[error(transparent)]
    Backup(#[from] BackupError),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn fill(
    directory: Arc<DataDirectory>,
    reader: BackupReader<BufReader<File>>,
) -> Result<(), FillError> {
    let files = DatabaseFiles::open_database(&directory).map_err(unwritable)?;
    RestoreWriter::of(&files).take_all(reader)?;
    files.refuse_the_past()?;
    files.dirty.store(true, Ordering::SeqCst);
    files.sync()?;
    // Its files are closed before anybody else may open them.
    drop(files);
    Ok(directory.finish_restore()?)
}

/// A directory that is filled.
struct RestoreWriter<'a> {
    files: &'a DatabaseFiles,
    batch: OwnedWriteBatch,
    /// The size of the batch.
    bytes: usize,
    /// Where entries go; `None` if they are files.
    keyspace: Option<Keyspace>,
}

impl<'a> RestoreWriter<'a> {
    fn of(files: &'a DatabaseFiles) -> Self {
        Self {
            files,
            batch: files.database.batch(),
            bytes: 0,
            keyspace: None,
        }
    }

    fn take_all(mut self, mut reader: BackupReader<BufReader<File>>) -> Result<(), FillError> {
        while let Some(part) = reader.part()? {
            match part {
                BackupPart::Keyspace(name) if name == FILES => self.keyspace = None,
                BackupPart::Keyspace(name) => {
                    let database = &self.files.database;
                    let opened = database.keyspace(&name, KeyspaceCreateOptions::default);
                    self.keyspace = Some(opened.map_err(unwritable)?);
                }
                BackupPart::Entry { key, value } => self.take(key, value)?,
            }
        }
        self.batch.commit().map_err(unwritable)?;
        Ok(())
    }

    fn take(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<(), FillError> {
        let Some(keyspace) = &self.keyspace else {
            return self.take_file(&key, &value);
        };
        self.bytes += key.len() + value.len();
        self.batch.insert(keyspace, key, value);
        if self.bytes >= CHUNK {
            let full = std::mem::replace(&mut self.batch, self.files.database.batch());
            full.commit().map_err(unwritable)?;
            self.bytes = 0;
        }
        Ok(())
    }

    fn take_file(&self, name: &[u8], content: &[u8]) -> Result<(), FillError> {
        if name != KEY_FILE.as_bytes() {
            return Err(BackupError::Damaged("it has a file that does not belong there").into());
        }
        let path = self.files.directory.key_file();
        let mut options = OpenOptions::new();
        let options = options.write(true).create_new(true).mode(0o600);
        let mut file = options.open(path)?;
        file.write_all(content)?;
        Ok(file.sync_all()?)
    }
}

impl DatabaseFiles {
    /// Tokens issued until now may have been revoked, renewed or used after the backup.
    fn refuse_the_past(&self) -> store::Result<()> {
        let mut past = Revocation::of_the_past();
        let subject = past.subject.to_string();
        let known = self.revoked.get(&subject).map_err(unreadable)?;
        let known = known.and_then(|text| Revocation::from_text(std::str::from_utf8(&text).ok()?));
        if let Some(known) = known {
            // By a clock that was ahead of this one.
            past.before = past.before.max(known.before);
            past.until = past.until.max(known.until);
        }
        let mut batch = self.database.batch();
        batch.insert(&self.revoked, subject, past.text());
        batch.insert(&self.meta, RESTORED, Nonce::random().0.to_be_bytes());
        batch.commit().map_err(unwritable)
    }
}
