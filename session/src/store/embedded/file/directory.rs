//! The data directory: whose it is, which format it has, and that what it holds is all there.
//!
//! ```text
//! FORMAT     the format's number; written first, checked first
//! LOCK       held by the one process that uses the directory
//! ADMIN      where that process hears administrators; one of an earlier process counts for nothing
//! RESTORING  while a backup is put into the directory: until it is gone, nobody uses it
//! SYNCED     how much the database must hold at least
//! keys.json  the keys that sign tokens, readable by the owner alone
//! store/     the database
//! rescue/    the database's journals as they were found, while they are being checked
//! ```

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::format::{DIRECTORY, UnknownFormat};
use crate::store::FileStore;

const ADMIN: &str = "ADMIN";
const RESTORING: &str = "RESTORING";

/// Why a data directory cannot be used. It was left as it is.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    #[error(
        "{0}: another process uses this data directory; stop it, or choose another with --data-dir"
    )]
    InUse(String),
    #[error(
        "{0}: this data directory cannot be used by this version: {1}. Or choose another with \
         --data-dir"
    )]
    Format(String, UnknownFormat),
    #[error("{0}: there are files here that are not Baton's; choose an empty or a new directory")]
    Foreign(String),
    #[error("{0}: there is no data directory here; name one with --data-dir")]
    Missing(String),
    #[error("{0}: the directory is not empty; restore into an empty or a new one, with --data-dir")]
    Occupied(String),
    #[error(
        "{0}: a restore into this directory has not come to its end; call `baton store restore` \
         again"
    )]
    Unfinished(String),
    #[error(
        "{0}: the data directory is damaged: {1}. Nothing was changed; restore it from a copy, or \
         choose another"
    )]
    Damaged(String, String),
    #[error("{0}: {1}")]
    Io(String, io::Error),
}

pub struct DataDirectory {
    path: PathBuf,
    /// As it was found.
    format: u32,
    /// Released when the process ends, however it ends.
    _lock: File,
}

impl DataDirectory {
    /// Makes it if need be, and takes hold of it.
    pub fn enter(path: &Path) -> Result<Self, DirectoryError> {
        let io = |error| DirectoryError::Io(path.display().to_string(), error);
        make(path).map_err(io)?;
        if path.join(RESTORING).exists() {
            return Err(DirectoryError::Unfinished(path.display().to_string()));
        }
        let format = match fs::read_to_string(path.join("FORMAT")) {
            Ok(text) => check_format(path, &text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if fs::read_dir(path).map_err(io)?.next().is_some() {
                    return Err(DirectoryError::Foreign(path.display().to_string()));
                }
                write_format(path).map_err(io)?;
                DIRECTORY.writes
            }
            Err(error) => return Err(io(error)),
        };
        Ok(Self {
            path: path.to_owned(),
            format,
            _lock: lock(path)?,
        })
    }

    /// Takes hold of it if it is there, and makes nothing.
    pub fn enter_existing(path: &Path) -> Result<Self, DirectoryError> {
        if path.join("FORMAT").exists() {
            Self::enter(path)
        } else {
            Err(DirectoryError::Missing(path.display().to_string()))
        }
    }

    /// Takes hold of an empty one, or of one that an earlier restore has not finished. Nobody else
    /// uses it before [`Self::finish_restore`].
    pub fn begin_restore(path: &Path, format: u32) -> Result<Self, DirectoryError> {
        let io = |error| DirectoryError::Io(path.display().to_string(), error);
        make(path).map_err(io)?;
        let mark = path.join(RESTORING);
        if !mark.exists() {
            if fs::read_dir(path).map_err(io)?.next().is_some() {
                return Err(DirectoryError::Occupied(path.display().to_string()));
            }
            File::create_new(&mark)
                .and_then(|_| sync_names(path))
                .map_err(io)?;
        }
        let directory = Self {
            path: path.to_owned(),
            format,
            _lock: lock(path)?,
        };
        directory.clear().map_err(io)?;
        Ok(directory)
    }

    /// Removes what an earlier restore has left.
    fn clear(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name();
            match name.to_str() {
                Some("LOCK" | RESTORING) => {}
                _ if entry.file_type()?.is_dir() => fs::remove_dir_all(entry.path())?,
                _ => fs::remove_file(entry.path())?,
            }
        }
        Ok(())
    }

    /// From here on it is a data directory as others are.
    pub fn finish_restore(&self) -> io::Result<()> {
        write_whole(&self.path.join("FORMAT"), &self.format.to_string())?;
        sync_names(&self.path)?;
        fs::remove_file(self.path.join(RESTORING))?;
        sync_names(&self.path)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn format(&self) -> u32 {
        self.format
    }

    /// Notes where administrators are heard, if they are.
    pub fn note_admin(&self, address: Option<&str>) -> io::Result<()> {
        let file = self.path.join(ADMIN);
        match address {
            Some(address) => write_whole(&file, address),
            None => match fs::remove_file(file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        }
    }

    pub fn key_file(&self) -> PathBuf {
        self.path.join("keys.json")
    }

    pub fn store(&self) -> PathBuf {
        self.path.join("store")
    }

    pub fn damaged(&self, what: impl ToString) -> DirectoryError {
        DirectoryError::Damaged(self.path.display().to_string(), what.to_string())
    }

    pub fn io(&self, error: io::Error) -> DirectoryError {
        DirectoryError::Io(self.path.display().to_string(), error)
    }

    // ---- opening must not make damage worse ----

    /// Sets the journals' copies aside: the database cuts off what it cannot read, as after a power
    /// cut, and cannot tell that from damage.
    pub fn save_journals(&self) -> Result<(), DirectoryError> {
        let rescue = self.path.join("rescue");
        if rescue.exists() {
            // The last check did not end: what was saved then is what was found.
            return self.restore_journals();
        }
        if !self.store().exists() {
            return Ok(());
        }
        let half = self.path.join("rescue.new");
        let copy = || {
            if half.exists() {
                fs::remove_dir_all(&half)?;
            }
            fs::create_dir(&half)?;
            for journal in journals(&self.store())? {
                fs::copy(&journal, half.join(journal.file_name().unwrap_or_default()))?;
            }
            fs::rename(&half, &rescue)
        };
        copy().map_err(|error| self.io(error))
    }

    pub fn restore_journals(&self) -> Result<(), DirectoryError> {
        let rescue = self.path.join("rescue");
        let restore = || {
            if !rescue.exists() {
                return Ok(());
            }
            for journal in journals(&rescue)? {
                fs::copy(
                    &journal,
                    self.store().join(journal.file_name().unwrap_or_default()),
                )?;
            }
            Ok(())
        };
        restore().map_err(|error| self.io(error))
    }

    pub fn forget_journals(&self) -> Result<(), DirectoryError> {
        match fs::remove_dir_all(self.path.join("rescue")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.io(error)),
            _ => Ok(()),
        }
    }

    /// The number of commits that were on the disk for certain when this was last written.
    pub fn synced(&self) -> Result<u64, String> {
        match fs::read_to_string(self.path.join("SYNCED")) {
            Ok(text) => {
                let number = text.trim().parse();
                number.map_err(|_| "SYNCED is not a number".into())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error.to_string()),
        }
    }

    pub fn write_synced(&self, commits: u64) -> io::Result<()> {
        write_whole(&self.path.join("SYNCED"), &commits.to_string())
    }
}

impl FileStore {
    /// Whether [`Self::open`] would take this directory; `false` if it would make one. Changes
    /// nothing.
    pub fn inspect(path: &Path) -> Result<bool, DirectoryError> {
        let io = |error| DirectoryError::Io(path.display().to_string(), error);
        let entries = match fs::read_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            entries => entries.map_err(io)?.count(),
        };
        if path.join(RESTORING).exists() {
            return Err(DirectoryError::Unfinished(path.display().to_string()));
        }
        match fs::read_to_string(path.join("FORMAT")) {
            Ok(text) => check_format(path, &text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return match entries {
                    0 => Ok(false),
                    _ => Err(DirectoryError::Foreign(path.display().to_string())),
                };
            }
            Err(error) => return Err(io(error)),
        };
        match File::open(path.join("LOCK")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(io(error)),
            Ok(lock) => hold(&lock, path).map(|()| true),
        }
    }
}

/// Where the process that uses the directory has said that it hears administrators.
pub fn admin_of(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path.join(ADMIN)).ok()?;
    Some(text.trim().to_owned())
}

fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn lock(path: &Path) -> Result<File, DirectoryError> {
    let io = |error| DirectoryError::Io(path.display().to_string(), error);
    let lock = File::create(path.join("LOCK")).map_err(io)?;
    hold(&lock, path)?;
    Ok(lock)
}

/// Until the file is closed.
fn hold(lock: &File, path: &Path) -> Result<(), DirectoryError> {
    match lock.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(DirectoryError::InUse(path.display().to_string())),
        Err(TryLockError::Error(error)) => {
            Err(DirectoryError::Io(path.display().to_string(), error))
        }
    }
}

/// Which files there are is on the disk for certain.
fn sync_names(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn write_format(path: &Path) -> io::Result<()> {
    write_whole(&path.join("FORMAT"), &DIRECTORY.writes.to_string())
}

/// The number. From the fourth on the first version that reads it may follow: the versions before
/// this one take a number alone.
fn check_format(path: &Path, text: &str) -> Result<u32, DirectoryError> {
    let path = path.display().to_string();
    let mut words = text.split_whitespace();
    match words.next().map(str::parse::<u32>) {
        Some(Ok(format @ 1..)) => {
            let known = DIRECTORY.check(format, words.next().unwrap_or_default());
            known.map_err(|unknown| DirectoryError::Format(path, unknown))?;
            Ok(format)
        }
        _ => Err(DirectoryError::Damaged(
            path,
            "FORMAT is not a format's number".into(),
        )),
    }
}

pub(super) fn journals(of: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(of)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jnl") {
            found.push(path);
        }
    }
    Ok(found)
}

/// All of it or nothing, whenever the power goes.
fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let half = path.with_extension("new");
    let mut file = File::create(&half)?;
    writeln!(file, "{text}")?;
    file.sync_data()?;
    fs::rename(&half, path)
}
