//! The directory as it was at one moment, to be written elsewhere while it is used.

use std::io::{self, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use fjall::{Keyspace, Readable as _};

use super::directory::{DataDirectory, DirectoryError};
use super::{DatabaseFiles, FileStore};
use crate::backup::{BackupHead, BackupWriter};
use crate::format::DIRECTORY;
use crate::store::{Error, Result};

/// The name under which files come that are beside the database.
pub const FILES: &str = "(files)";
pub const KEY_FILE: &str = "keys.json";

/// Everything that was acknowledged before it was taken, whatever is written meanwhile. The
/// database keeps for it what is changed or removed: it should not be kept for long.
pub struct BackupSnapshot {
    files: Arc<DatabaseFiles>,
    database: fjall::Snapshot,
    /// The keys that sign tokens, if there are any yet.
    keys: Option<Vec<u8>>,
    head: BackupHead,
}

impl FileStore {
    /// As of now. Steps wait for this no longer than for each other.
    pub fn snapshot(&self) -> Result<BackupSnapshot> {
        let format = self.backend.0.directory.format();
        // It was brought up to this when it was opened.
        BackupSnapshot::take(&self.backend.0, format.max(DIRECTORY.writes))
    }

    pub fn path(&self) -> &Path {
        self.backend.0.directory.path()
    }

    /// By which it is told from other directories.
    pub fn identity(&self) -> io::Result<String> {
        identity(self.path())
    }
}

/// The same for all who see a directory, under whatever name they do.
pub fn identity(directory: &Path) -> io::Result<String> {
    let about = std::fs::metadata(directory)?;
    Ok(format!("{}:{}", about.dev(), about.ino()))
}

impl BackupSnapshot {
    /// Of a directory that no process uses. It is not brought up to another format.
    pub fn of_unused(path: &Path) -> std::result::Result<Self, DirectoryError> {
        let files = Arc::new(DatabaseFiles::open(DataDirectory::enter_existing(path)?)?);
        let format = files.directory.format();
        Self::take(&files, format).map_err(|error| files.directory.io(io::Error::other(error)))
    }

    fn take(files: &Arc<DatabaseFiles>, format: u32) -> Result<Self> {
        // A batch of the database is one step or several, and never a part of one.
        files.write()?;
        let database = files.database.snapshot();
        let keys = match std::fs::read(files.directory.key_file()) {
            Ok(keys) => Some(keys),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Error::Unavailable(error.to_string())),
        };
        Ok(Self {
            files: files.clone(),
            database,
            keys,
            head: BackupHead::of(format),
        })
    }

    /// One entry after the other: memory is taken for one of them at a time.
    pub fn write<W: Write>(&self, to: W) -> io::Result<W> {
        let mut writer = BackupWriter::new(to, &self.head)?;
        writer.keyspace(FILES)?;
        if let Some(keys) = &self.keys {
            writer.entry(KEY_FILE.as_bytes(), keys)?;
        }
        for keyspace in self.files.keyspaces() {
            writer.keyspace(keyspace.name())?;
            for entry in self.database.iter(keyspace) {
                let (key, value) = entry.into_inner().map_err(io::Error::other)?;
                writer.entry(&key, &value)?;
            }
        }
        writer.finish()
    }
}

impl DatabaseFiles {
    /// All that a backup has. How often this directory was forced to the disk is its own affair.
    pub(super) fn keyspaces(&self) -> [&Keyspace; 11] {
        [
            &self.sessions,
            &self.outboxes,
            &self.frames,
            &self.commands,
            &self.used,
            &self.listed,
            &self.stored,
            &self.lineages,
            &self.sharers,
            &self.revoked,
            &self.spent,
        ]
    }
}
