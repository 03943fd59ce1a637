//! The backend in files: an LSM tree (fjall) in a directory of its own. Every step is part of one
//! atomic batch that is handed to the operating system before the step is acknowledged, so a killed
//! process loses nothing; once a second all of it is forced to the disk, so a power cut loses a
//! second at most.

use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use fjall::compaction::Leveled;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, Slice};

use self::directory::DataDirectory;
use self::pending::PendingBatch;
use self::upkeep::JournalFiles;
use self::values::{decode_command, encode_command, record, slice, spoiled, unrecord};
use super::FileStore;
use super::backend::{ExpiryKind, StorageBackend, StoreChange};
use super::lineage::LineageSegment;
use super::list::ListKey;
use super::outbox::Outbox;
use super::session::StoredSession;
use crate::command::QueuedCommand;
use crate::event::Frame;
use crate::format::DIRECTORY;
use crate::id::{ConnectionId, LogId, Nonce, SessionId};
use crate::revocation::Revocation;
use crate::store::{Error, ListPosition, Result, page};
use crate::sync::MutexExt as _;

mod backup;
mod directory;
mod keys;
mod pending;
mod restore;
mod sharing;
mod upkeep;
mod values;

pub use self::backup::{BackupSnapshot, identity};
pub use self::directory::{DirectoryError, admin_of};
pub use self::restore::{RestoreError, restore};

/// Recently written frames are mostly read from the gateway's own memory.
const CACHE_BYTES: u64 = 16 << 20;
/// The database hands a memtable over by itself when it is larger than this: one that grew faster
/// than `upkeep` looks.
const MEMTABLE_BYTES: u64 = 16 << 20;
/// As memtables are written out when they are small, more of their tables are merged at once.
const TABLES_BEFORE_MERGE: u8 = 8;
/// What a start reads at most. Then memtables are written to tables that hold old journals back.
const JOURNAL_BYTES: u64 = 128 << 20;
const COMMITS: &str = "commits";
const RESTORED: &str = "restored";

#[derive(Clone)]
pub struct FileBackend(Arc<DatabaseFiles>);

struct DatabaseFiles {
    sessions: Keyspace,
    outboxes: Keyspace,
    frames: Keyspace,
    commands: Keyspace,
    /// By when they were last used.
    used: Keyspace,
    /// Sessions under their headings, by when they were last changed.
    listed: Keyspace,
    /// The bytes that are kept of sessions, by principal.
    stored: Keyspace,
    /// Lineages, by fork.
    lineages: Keyspace,
    /// The same by who is shared: the forks, and up to where they need its log.
    sharers: Keyspace,
    /// Revocations by their subject.
    revoked: Keyspace,
    /// Used single-use names: until when they are refused.
    spent: Keyspace,
    /// How often the data was forced to the disk, and what was drawn when it was restored.
    meta: Keyspace,
    database: Database,
    journals: JournalFiles,
    /// Saved changes that are not in the database yet.
    pending: Mutex<PendingBatch>,
    /// Held while pending changes are moved into the database.
    write_lock: Mutex<()>,
    /// Why that cannot be done any more.
    failed: OnceLock<String>,
    /// Something was saved since then.
    dirty: AtomicBool,
    directory: Arc<DataDirectory>,
}

// A directory of an older format would have to be converted, and get its new number last.
const _: () = assert!(DIRECTORY.oldest == DIRECTORY.writes);

impl FileStore {
    /// Opens the directory, or makes it if it is not there. One process at a time; a directory that
    /// is damaged, of a newer format, or not ours is refused and left as it is.
    pub fn open(path: &Path) -> std::result::Result<Self, DirectoryError> {
        let files = Arc::new(DatabaseFiles::open(DataDirectory::enter(path)?)?);
        let store = Self::with_backend(FileBackend(files.clone()));
        let store = store.map_err(|error| files.directory.damaged(error))?;
        let files = Arc::downgrade(&files);
        std::thread::spawn(move || upkeep::keep(&files));
        Ok(store)
    }

    /// Where the keys that sign tokens belong.
    pub fn key_file(&self) -> PathBuf {
        self.backend.0.directory.key_file()
    }

    /// For `baton store backup`, which asks this process: where it is heard, if it is.
    pub fn note_admin(&self, address: Option<&str>) -> std::result::Result<(), DirectoryError> {
        let directory = &self.backend.0.directory;
        let noted = directory.note_admin(address);
        noted.map_err(|error| directory.io(error))
    }
}

/// For tests that open a directory again: the thread that syncs may still be at it.
#[cfg(test)]
pub(super) fn open_when_free(path: &Path) -> Arc<dyn crate::store::Store> {
    loop {
        match FileStore::open(path) {
            Err(DirectoryError::InUse(_)) => std::thread::yield_now(),
            opened => return Arc::new(opened.expect("it opens")),
        }
    }
}

impl DatabaseFiles {
    fn open(directory: DataDirectory) -> std::result::Result<Self, DirectoryError> {
        directory.save_journals()?;
        let directory = Arc::new(directory);
        match Self::open_checked(&directory) {
            Ok(files) => {
                directory.forget_journals()?;
                Ok(files)
            }
            Err(damage) => {
                directory.restore_journals()?;
                Err(directory.damaged(damage))
            }
        }
    }

    fn open_checked(directory: &Arc<DataDirectory>) -> std::result::Result<Self, String> {
        let synced = directory.synced()?;
        // Some damage makes the database panic instead.
        let opened = catch_unwind(AssertUnwindSafe(|| Self::open_database(directory)));
        let opened = opened.map_err(|_| "the database cannot be read")?;
        let files = opened.map_err(|error| error.to_string())?;
        let found = files.commits().map_err(|error| error.to_string())?;
        if found < synced {
            return Err("the end of what was saved is missing or cannot be read".into());
        }
        Ok(files)
    }

    fn open_database(directory: &Arc<DataDirectory>) -> fjall::Result<Self> {
        let database = Database::builder(directory.store())
            .cache_size(CACHE_BYTES)
            .max_journaling_size(JOURNAL_BYTES)
            // One of them only writes memtables to tables, and does not wait while tables are
            // merged.
            .worker_threads(2)
            .open()?;
        let merging = Leveled::default().with_l0_threshold(TABLES_BEFORE_MERGE);
        let merging: Arc<Leveled> = Arc::new(merging);
        let options = || {
            let options = KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES);
            options.compaction_strategy(merging.clone())
        };
        let keyspace = |name| database.keyspace(name, options);
        Ok(Self {
            sessions: keyspace("sessions")?,
            outboxes: keyspace("outboxes")?,
            frames: keyspace("frames")?,
            commands: keyspace("commands")?,
            used: keyspace("used")?,
            listed: keyspace("listed")?,
            stored: keyspace("stored")?,
            lineages: keyspace("lineages")?,
            sharers: keyspace("sharers")?,
            revoked: keyspace("revoked")?,
            spent: keyspace("spent")?,
            meta: keyspace("meta")?,
            journals: JournalFiles::default(),
            pending: Mutex::default(),
            write_lock: Mutex::default(),
            failed: OnceLock::new(),
            dirty: AtomicBool::new(false),
            directory: directory.clone(),
            database,
        })
    }

    fn commits(&self) -> fjall::Result<u64> {
        let found = self.meta.get(COMMITS)?;
        Ok(found.and_then(|value| keys::number(&value)).unwrap_or(0))
    }

    /// Everything saved so far is in the database. With an error, some of it never will be.
    fn write(&self) -> Result<()> {
        let _pen = self
            .write_lock
            .lock()
            .expect("nobody panics while they write");
        if let Some(reason) = self.failed.get() {
            return Err(Error::Unavailable(reason.clone()));
        }
        let pending = std::mem::take(&mut *self.pending());
        if pending.is_empty() {
            return Ok(());
        }
        let committed = pending.commit(&self.database).map_err(unwritable);
        committed.inspect_err(|error| {
            self.failed.get_or_init(|| error.to_string());
        })
    }

    fn pending(&self) -> MutexGuard<'_, PendingBatch> {
        self.pending.locked()
    }

    fn last_frame(&self, log: &LogId) -> Result<u64> {
        let frames = self.frames.prefix(keys::log(log)).next_back();
        let key = frames.map(fjall::Guard::key).transpose();
        let key = key.map_err(unreadable)?;
        Ok(key.and_then(|key| keys::number(&key)).unwrap_or(0))
    }

    fn commands(&self, session: &SessionId) -> Result<Vec<QueuedCommand>> {
        let all = self.commands.prefix(session.as_str());
        all.map(|entry| {
            let (key, value) = entry.into_inner().map_err(unreadable)?;
            let number = keys::number(&key).ok_or_else(|| spoiled("command"))?;
            decode_command(number, value.into()).ok_or_else(|| spoiled("command"))
        })
        .collect()
    }
}

impl Drop for DatabaseFiles {
    fn drop(&mut self) {
        let _ = self.sync();
    }
}

impl StorageBackend for FileBackend {
    const FINDS_AGAIN: bool = true;
    const WRITES: bool = true;

    fn save(&self, changes: &[StoreChange<'_>]) -> Result<()> {
        let files = &*self.0;
        let mut batch = PendingBatch::default();
        for change in changes {
            match change {
                StoreChange::Frame(log, frame) => {
                    // Copied: the memtable would keep the room that was left for more.
                    let value = Slice::from(&*Frame::encode(frame.nonce, &frame.events));
                    batch.insert(&files.frames, keys::frame(log, frame.last()), value);
                }
                StoreChange::Session(id, session) => {
                    batch.insert(&files.sessions, id.as_str(), record(session)?);
                }
                StoreChange::Queued(id, queued) => {
                    let key = keys::command(id, queued.id.number);
                    batch.insert(&files.commands, key, slice(encode_command(queued)));
                }
                StoreChange::Done(id, number) => {
                    batch.remove(&files.commands, keys::command(id, *number));
                }
                StoreChange::Outbox(id, outbox) => {
                    batch.insert(&files.outboxes, id.as_str(), record(outbox)?);
                }
                StoreChange::Stored(principal, id, bytes) => {
                    let key = keys::stored(principal, id);
                    match bytes {
                        Some(bytes) => batch.insert(&files.stored, key, bytes.to_be_bytes()),
                        None => batch.remove(&files.stored, key),
                    }
                }
                StoreChange::Trimmed(log, first, last) => {
                    for number in *first..=*last {
                        batch.remove(&files.frames, keys::frame(log, number));
                    }
                }
                StoreChange::Used(kind, log, before, now) => {
                    if let Some(before) = before {
                        batch.remove(&files.used, keys::used(*kind, log, *before));
                    }
                    if let Some(now) = now {
                        batch.insert(&files.used, keys::used(*kind, log, *now), []);
                    }
                }
                StoreChange::Listed(session, before, now) => {
                    for under in ListKey::all_of(session) {
                        if let Some(before) = before {
                            batch.remove(&files.listed, keys::listed(&under, before));
                        }
                        if let Some(now) = now {
                            batch.insert(&files.listed, keys::listed(&under, now), []);
                        }
                    }
                }
                StoreChange::Shares(id, lineage) => files.share(&mut batch, id, lineage)?,
                StoreChange::Forget(LogId::Session(id)) => {
                    files.write()?;
                    files.forget(&mut batch, id)?;
                }
                StoreChange::Forget(LogId::Outbox(id)) => {
                    files.write()?;
                    files.cut_off(&mut batch, &LogId::Outbox(id.clone()), 0)?;
                    batch.remove(&files.outboxes, id.as_str());
                }
                StoreChange::Revoked(revocation) => {
                    let subject = revocation.subject.to_string();
                    batch.insert(&files.revoked, subject, revocation.text());
                }
                StoreChange::Unrevoked(subject) => {
                    batch.remove(&files.revoked, subject.to_string());
                }
                StoreChange::Spent(name, until) => {
                    batch.insert(&files.spent, *name, until.to_be_bytes());
                }
                StoreChange::Unspent(name) => batch.remove(&files.spent, *name),
            }
        }
        files.pending().add(batch);
        files.dirty.store(true, Ordering::SeqCst);
        Ok(())
    }

    fn write(&self) -> Result<()> {
        self.0.write()
    }

    fn session(&self, id: &SessionId) -> Result<Option<StoredSession>> {
        self.0.write()?;
        let Some(value) = self.0.sessions.get(id.as_str()).map_err(unreadable)? else {
            return Ok(None);
        };
        let mut session: StoredSession = unrecord(&value)?;
        // The log may be ahead of the record.
        let shared = session.origin.as_ref().map_or(0, |origin| origin.cut);
        let log = LogId::Session(id.clone());
        let last = self.0.last_frame(&log)?;
        if last > session.head {
            self.each_page(&log, session.head + 1, |page| session.wrote(page))?;
        }
        session.head = last.max(shared);
        Ok(Some(session.revive(self.0.commands(id)?)))
    }

    fn outbox(&self, id: &ConnectionId) -> Result<Option<Outbox>> {
        self.0.write()?;
        let value = self.0.outboxes.get(id.as_str()).map_err(unreadable)?;
        value.map(|value| unrecord(&value)).transpose()
    }

    fn read(&self, log: &LogId, from: u64, limit: usize) -> Result<Vec<Arc<Frame>>> {
        self.0.write()?;
        let frames = self
            .0
            .frames
            .range(keys::frame(log, from)..=keys::frame(log, u64::MAX));
        let decode = |entry: fjall::Guard| {
            let (key, value) = entry.into_inner().map_err(unreadable)?;
            let last = keys::number(&key).ok_or_else(|| spoiled("frame"))?;
            let frame = Frame::decode(last, value.into());
            frame
                .map(Arc::new)
                .map_err(|error| Error::Broken(error.to_string()))
        };
        page::fill(frames.take(limit).map(decode))
    }

    fn lineage(&self, id: &SessionId) -> Result<Arc<[LineageSegment]>> {
        self.0.write()?;
        self.0.lineage(id)
    }

    fn shared_upto(&self, id: &SessionId, but_not: &SessionId) -> Result<u64> {
        self.0.write()?;
        self.0.needed_by_others(id, but_not)
    }

    fn stored(&self, principal: &str) -> Result<Vec<(SessionId, u64)>> {
        self.0.write()?;
        let read = |entry: fjall::Guard| {
            let (key, value) = entry.into_inner().map_err(unreadable)?;
            let of = keys::stored_session(&key).zip(keys::number(&value));
            of.ok_or_else(|| spoiled("size"))
        };
        let account = self.0.stored.prefix(keys::account(principal));
        account.map(read).collect()
    }

    fn listed(
        &self,
        under: &ListKey,
        after: Option<&ListPosition>,
        limit: usize,
    ) -> Result<Vec<ListPosition>> {
        self.0.write()?;
        let end = match after {
            Some(place) => Bound::Excluded(keys::listed(under, place)),
            None => Bound::Included([&under.0[..], &[u8::MAX; 8]].concat()),
        };
        let start = Bound::Included(under.0.to_vec());
        let places = self.0.listed.range((start, end)).rev().take(limit);
        let read = |entry: fjall::Guard| {
            let key = entry.key().map_err(unreadable)?;
            keys::place(&key).ok_or_else(|| spoiled("place in a list"))
        };
        places.map(read).collect()
    }

    fn waiting(&self) -> Result<Vec<SessionId>> {
        let mut waiting: Vec<SessionId> = Vec::new();
        for command in self.0.commands.iter() {
            let key = command.key().map_err(unreadable)?;
            let session = keys::session_of(&key).ok_or_else(|| spoiled("command"))?;
            if waiting.last() != Some(&session) {
                waiting.push(session);
            }
        }
        Ok(waiting)
    }

    fn restored(&self) -> Result<Option<Nonce>> {
        let drawn = self.0.meta.get(RESTORED).map_err(unreadable)?;
        let read = |drawn: fjall::Slice| <[u8; 4]>::try_from(&*drawn).ok();
        Ok(drawn
            .and_then(read)
            .map(|drawn| Nonce(u32::from_be_bytes(drawn))))
    }

    fn revoked(&self) -> Result<Vec<Revocation>> {
        let mut found = Vec::new();
        for entry in self.0.revoked.iter() {
            let (_, value) = entry.into_inner().map_err(unreadable)?;
            let text = std::str::from_utf8(&value).map_err(|_| spoiled("revocation"))?;
            // Revocations of a newer version are ignored.
            found.extend(Revocation::from_text(text));
        }
        Ok(found)
    }

    fn spent(&self) -> Result<Vec<(String, u64)>> {
        let read = |entry: fjall::Guard| {
            let (key, value) = entry.into_inner().map_err(unreadable)?;
            let name = std::str::from_utf8(&key).ok().map(str::to_owned);
            let until = <[u8; 8]>::try_from(&*value).ok().map(u64::from_be_bytes);
            name.zip(until).ok_or_else(|| spoiled("name that was used"))
        };
        self.0.spent.iter().map(read).collect()
    }

    fn unused_since(&self, kind: ExpiryKind, time: u64, limit: usize) -> Result<Vec<(u64, LogId)>> {
        self.0.write()?;
        let old = self
            .0
            .used
            .range(keys::used_at(kind, 0)..keys::used_at(kind, time));
        let read = |entry: fjall::Guard| {
            let key = entry.key().map_err(unreadable)?;
            keys::user(&key).ok_or_else(|| spoiled("note of use"))
        };
        old.take(limit).map(read).collect()
    }
}

fn unreadable(error: fjall::Error) -> Error {
    Error::Broken(format!("the data directory cannot be read: {error}"))
}

fn unwritable(error: fjall::Error) -> Error {
    let reason = match &error {
        fjall::Error::Io(error) => error.to_string(),
        fjall::Error::Poisoned => "an earlier write failed, is the disk full?".into(),
        _ => error.to_string(),
    };
    Error::Unavailable(format!("the data directory cannot be written: {reason}"))
}
