//! What is done beside the steps, by a thread of its own: once a second the journal is forced to
//! the disk, and memtables that have grown are handed over to be written to tables.
//!
//! The database could do both itself, but holds its journal's lock while the disk is at it, and
//! every step waits for that lock. It does so before each flush of a memtable, too. So the journal
//! is forced through a descriptor of its own here, and before a memtable is handed over: then there
//! is hardly anything left for the database to force.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, Weak};
use std::time::{Duration, Instant};

use fjall::{AbstractTree as _, PersistMode};

use super::{COMMITS, DatabaseFiles, directory, unwritable};
use crate::store::{Error, Result};
use crate::sync::MutexExt as _;

const SYNC_EVERY: Duration = Duration::from_secs(1);
/// As long as something is saved.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A memtable that is as large as this is handed over. Two of them grow with every turn, and each
/// is there twice while it is being written.
const MEMTABLE_BYTES: u64 = 4 << 20;

/// Descriptors of the journal's files, each kept as long as its file is there: an error of the disk
/// is told once to every descriptor that was open by then.
#[derive(Default)]
pub(super) struct JournalFiles(Mutex<HashMap<PathBuf, File>>);

pub(super) fn keep(files: &Weak<DatabaseFiles>) {
    let mut forced = Instant::now();
    let mut rests = true;
    loop {
        std::thread::sleep(if rests { SYNC_EVERY } else { LOOK_EVERY });
        let Some(files) = files.upgrade() else { return };
        let mut kept = files.hand_over_memtables();
        if forced.elapsed() >= SYNC_EVERY {
            rests = !files.dirty.load(Ordering::SeqCst);
            forced = Instant::now();
            kept = kept.and(files.sync());
        }
        if let Err(error) = kept {
            tracing::error!(%error, "could not force the data to the disk");
        }
    }
}

impl DatabaseFiles {
    /// Everything saved so far is on the disk for certain, and a later process can tell.
    pub(super) fn sync(&self) -> Result<()> {
        if !self.dirty.swap(false, Ordering::SeqCst) {
            return Ok(());
        }
        self.write()?;
        let commits = self.commits().map_err(super::unreadable)? + 1;
        let counted = self.meta.insert(COMMITS, commits.to_be_bytes());
        let handed_on = counted.and_then(|()| self.database.persist(PersistMode::Buffer));
        handed_on.map_err(unwritable)?;
        self.force_journal()?;
        let noted = self.directory.write_synced(commits);
        noted.map_err(|error| Error::Unavailable(error.to_string()))
    }

    /// What the operating system has of the journal is on the disk. A file that the database has
    /// begun since is newer than that; one that it has left was forced by it.
    fn force_journal(&self) -> Result<()> {
        let forced = self.journals.force(&self.directory.store());
        forced.map_err(|error| {
            // What the disk has is not known any more.
            let reason = format!("the data directory cannot be written: {error}");
            self.failed.get_or_init(|| reason.clone());
            Error::Unavailable(reason)
        })
    }

    fn hand_over_memtables(&self) -> Result<()> {
        let large = |keyspace: &&_| is_large(keyspace);
        let grown: Vec<_> = self.keyspaces().into_iter().filter(large).collect();
        if grown.is_empty() {
            return Ok(());
        }
        self.force_journal()?;
        for keyspace in grown {
            keyspace.rotate_memtable().map_err(unwritable)?;
        }
        Ok(())
    }
}

fn is_large(keyspace: &fjall::Keyspace) -> bool {
    keyspace.tree.active_memtable().size() > MEMTABLE_BYTES
}

impl JournalFiles {
    fn force(&self, store: &std::path::Path) -> io::Result<()> {
        let mut open = self.0.locked();
        let paths = directory::journals(store)?;
        open.retain(|path, _| paths.contains(path));
        for path in paths {
            if !open.contains_key(&path) {
                match File::open(&path) {
                    Ok(file) => drop(open.insert(path.clone(), file)),
                    // All that was in it is in tables.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                }
            }
            open[&path].sync_data()?;
        }
        Ok(())
    }
}
