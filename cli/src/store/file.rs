//! The file that a backup is written into. It has its name only when all of it is there.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use baton_session::backup::{BackupHead, BackupReader};

use crate::exit::ConfigurationError;

pub struct BackupFile {
    path: PathBuf,
    half: PathBuf,
    pub file: File,
}

impl BackupFile {
    /// Refused if there is something in its place.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        if path.symlink_metadata().is_ok() {
            return Err(occupied(path).into());
        }
        let mut name: OsString = path.as_os_str().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let half = PathBuf::from(name);
        let mut options = OpenOptions::new();
        let options = options.write(true).create_new(true).mode(0o600);
        let file = options.open(&half);
        Ok(Self {
            path: path.to_owned(),
            file: file.with_context(|| half.display().to_string())?,
            half,
        })
    }

    /// Reads all of it again, and gives it its name.
    pub fn finish(self) -> anyhow::Result<()> {
        let named = || self.path.display().to_string();
        self.file.sync_all().with_context(named)?;
        let bytes = self.file.metadata().with_context(named)?.len();
        let (head, entries) = check(&self.half).with_context(named)?;
        self.publish().with_context(named)?;
        eprintln!(
            "{}: {entries} entries, {bytes} bytes, as of {}",
            named(),
            date(head.taken)
        );
        Ok(())
    }

    fn publish(&self) -> anyhow::Result<()> {
        // Unlike a rename, this takes nothing's place.
        match fs::hard_link(&self.half, &self.path) {
            Ok(()) => fs::remove_file(&self.half)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(occupied(&self.path).into());
            }
            // There are file systems without links.
            Err(_) if self.path.symlink_metadata().is_ok() => bail!(occupied(&self.path)),
            Err(_) => fs::rename(&self.half, &self.path)?,
        }
        let directory = self.path.parent();
        let directory = directory.filter(|path| !path.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(())
    }
}

impl Drop for BackupFile {
    fn drop(&mut self) {
        // Gone already if it has its name.
        let _ = fs::remove_file(&self.half);
    }
}

fn check(path: &Path) -> anyhow::Result<(BackupHead, u64)> {
    let (reader, head) = BackupReader::open(BufReader::with_capacity(1 << 20, File::open(path)?))?;
    Ok((head, reader.check()?))
}

fn occupied(path: &Path) -> ConfigurationError {
    let path = path.display();
    ConfigurationError(vec![format!(
        "{path}: there is a file already, and no backup takes another's place; choose another name"
    )])
}

/// For people.
pub fn date(seconds: u64) -> String {
    let time = UNIX_EPOCH + Duration::from_secs(seconds);
    humantime::format_rfc3339_seconds(time).to_string()
}
