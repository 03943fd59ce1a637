//! The keys in use: a file or directory that is watched, so that keys change without a restart.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

use super::KeyRing;
use crate::audit::AuditLog;
use crate::file_watch;

/// A handle; clones see the same keys.
#[derive(Clone)]
pub struct SigningKeys(Arc<SharedKeys>);

struct SharedKeys {
    path: Option<PathBuf>,
    /// Locked briefly, never while something is read or signed.
    current: Mutex<CurrentKeys>,
}

struct CurrentKeys {
    ring: Arc<KeyRing>,
    sets: KeyFiles,
    version: u64,
}

/// The files by name, in order, with what is in them.
type KeyFiles = Vec<(String, String)>;

impl SigningKeys {
    /// Reads a JWK set, or a directory of them: all `*.json` and `*.jwk` in the order of their
    /// names as one set. Reports all invalid entries together.
    pub fn open(path: &Path) -> Result<Self, String> {
        let sets = read(path)?;
        let ring = parse(path, &sets)?;
        Ok(Self::with(ring, Some(path.to_owned()), sets))
    }

    /// The files that are read: the file itself, or those of the directory, as far as it can be
    /// read.
    pub fn files(path: &Path) -> Vec<PathBuf> {
        if path.is_dir() {
            names(path).map_or_else(
                |_| Vec::new(),
                |(dir, names)| names.iter().map(|name| dir.join(name)).collect(),
            )
        } else {
            vec![path.to_owned()]
        }
    }

    /// Keys that stay as they are.
    pub fn fixed(ring: KeyRing) -> Self {
        Self::with(ring, None, KeyFiles::new())
    }

    fn with(ring: KeyRing, path: Option<PathBuf>, sets: KeyFiles) -> Self {
        let current = Mutex::new(CurrentKeys {
            ring: Arc::new(ring),
            sets,
            version: 0,
        });
        Self(Arc::new(SharedKeys { path, current }))
    }

    pub fn ring(&self) -> Arc<KeyRing> {
        self.with_current(|current| current.ring.clone())
    }

    /// Rises with every change. A cache of verified tokens reads the version first, then the ring:
    /// the other way round an old ring's result could be kept under a new version.
    pub fn version(&self) -> u64 {
        self.with_current(|current| current.version)
    }

    /// Looks for changes until `stop`.
    pub async fn watch(self, stop: CancellationToken, audit: AuditLog) {
        if self.0.path.is_none() {
            return;
        }
        file_watch::follow("the keys", stop, audit, move || self.refresh()).await;
    }

    /// Looks for a change now, and says whether there was one. After an error the keys are the old
    /// ones. Contents are compared: two changes within one tick of a file system's clock have one
    /// time.
    pub fn refresh(&self) -> Result<bool, String> {
        let Some(path) = &self.0.path else {
            return Ok(false);
        };
        let sets = read(path)?;
        if self.with_current(|current| current.sets == sets) {
            return Ok(false);
        }
        let ring = Arc::new(parse(path, &sets)?);
        self.with_current(|current| {
            current.ring = ring;
            current.sets = sets;
            current.version += 1;
        });
        Ok(true)
    }

    fn with_current<T>(&self, f: impl FnOnce(&mut CurrentKeys) -> T) -> T {
        // Nothing that is done under the lock can panic half way.
        f(&mut self
            .0
            .current
            .lock()
            .unwrap_or_else(PoisonError::into_inner))
    }
}

fn parse(path: &Path, sets: &KeyFiles) -> Result<KeyRing, String> {
    KeyRing::merge(sets).map_err(|faults| format!("{}: {faults}", path.display()))
}

fn read(path: &Path) -> Result<KeyFiles, String> {
    let fault = |path: &Path, error| format!("{}: {error}", path.display());
    if !path.is_dir() {
        let hint = "Make a key set with `baton token keygen`";
        let text = fs::read_to_string(path);
        let text = text.map_err(|error| format!("{}. {hint}", fault(path, error)))?;
        return Ok(vec![(String::new(), text)]);
    }
    let (dir, names) = names(path).map_err(|error| fault(path, error))?;
    let text = |name: String| match fs::read_to_string(dir.join(&name)) {
        Ok(text) => Ok((name, text)),
        Err(error) => Err(fault(&path.join(name), error)),
    };
    names.into_iter().map(text).collect()
}

/// Where the files of a directory really are, and how they are called.
fn names(path: &Path) -> io::Result<(PathBuf, Vec<String>)> {
    // Kubernetes swaps a mounted secret by this link. Followed once, all files are of one version.
    let dir = fs::canonicalize(path.join("..data")).unwrap_or_else(|_| path.to_owned());
    let mut names = Vec::new();
    for entry in fs::read_dir(&dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let ours = name.ends_with(".json") || name.ends_with(".jwk");
        if ours && !name.starts_with('.') {
            names.push(name);
        }
    }
    names.sort();
    Ok((dir, names))
}

#[cfg(test)]
mod tests;
