//! The storage of an embedded store: in memory, or in files.

use std::sync::Arc;

use super::lineage::LineageSegment;
use super::list::ListKey;
use super::outbox::Outbox;
use super::session::StoredSession;
use crate::clock::unix_millis;
use crate::command::QueuedCommand;
use crate::event::Frame;
use crate::id::{ConnectionId, LogId, Nonce, SessionId};
use crate::revocation::{Revocation, RevocationSubject};
use crate::store::{ListPosition, Result};

/// One change that a step makes. All changes of a step are saved together.
pub enum StoreChange<'a> {
    Frame(&'a LogId, &'a Arc<Frame>),
    /// The session without its frames and its inbox.
    Session(&'a SessionId, &'a StoredSession),
    Queued(&'a SessionId, &'a QueuedCommand),
    /// The command with this number left the inbox.
    Done(&'a SessionId, u64),
    Outbox(&'a ConnectionId, &'a Outbox),
    /// So many bytes are kept of the session, on the account of its principal; `None`: nothing any
    /// more.
    Stored(&'a str, &'a SessionId, Option<u64>),
    /// Entries of an outbox left it: the first and the last of them.
    Trimmed(&'a LogId, u64, u64),
    /// When it was last used: first what was noted before, then what is noted now.
    Used(ExpiryKind, &'a LogId, Option<u64>, Option<u64>),
    /// The session's place in lists: first where it was, then where it is.
    Listed(
        &'a StoredSession,
        Option<ListPosition>,
        Option<ListPosition>,
    ),
    /// The session is a fork, and this is the log it shares: from here on, that is kept for it.
    Shares(&'a SessionId, &'a [LineageSegment]),
    /// The session or outbox is gone, with all that belongs to it; but its log stays as far as
    /// forks share it.
    Forget(&'a LogId),
    Revoked(&'a Revocation),
    /// Nothing of what it refused is good any longer.
    Unrevoked(&'a RevocationSubject),
    /// A used single-use name, and when it expires, in milliseconds since 1970.
    Spent(&'a str, u64),
    Unspent(&'a str),
}

/// The kinds of entries that expire when they were not used for long enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExpiryKind {
    Session,
    /// Sessions that nobody sees: deleted ones, and those that are being taken in.
    Unseen,
    Outbox,
}

/// Clones share their data. Logs are read without the store's lock; everything else is read and
/// saved under it.
pub trait StorageBackend: Clone + Send + Sync + 'static {
    /// Whether sessions and outboxes that nobody uses may leave the memory, to be found here again.
    const FINDS_AGAIN: bool;
    /// Whether `write` takes time.
    const WRITES: bool;

    /// Saves all changes of a step or, with an error, none; and then the store takes no further
    /// steps. Later reads find them.
    fn save(&self, changes: &[StoreChange<'_>]) -> Result<()>;

    /// Saved changes outlast the process after this.
    fn write(&self) -> Result<()>;

    fn session(&self, id: &SessionId) -> Result<Option<StoredSession>>;

    fn outbox(&self, id: &ConnectionId) -> Result<Option<Outbox>>;

    /// Only the log's own frames: a page of them, see `store/page.rs`.
    fn read(&self, log: &LogId, from: u64, limit: usize) -> Result<Vec<Arc<Frame>>>;

    /// All of them from one on, a page at a time.
    fn each_page(
        &self,
        log: &LogId,
        mut from: u64,
        mut see: impl FnMut(&[Arc<Frame>]),
    ) -> Result<()> {
        loop {
            let page = self.read(log, from, usize::MAX)?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            from = last.last() + 1;
            see(&page);
        }
    }

    /// The parts of other logs that this session's log begins with, in order.
    fn lineage(&self, id: &SessionId) -> Result<Arc<[LineageSegment]>>;

    /// Up to where the session's log is shared by forks other than this one; 0 if by none.
    fn shared_upto(&self, id: &SessionId, but_not: &SessionId) -> Result<u64>;

    /// The account of a principal, by session.
    fn stored(&self, principal: &str) -> Result<Vec<(SessionId, u64)>>;

    /// The entries of a list after a position, at most `limit`.
    fn listed(
        &self,
        under: &ListKey,
        after: Option<&ListPosition>,
        limit: usize,
    ) -> Result<Vec<ListPosition>>;

    /// Sessions that had commands waiting when the store was opened.
    fn waiting(&self) -> Result<Vec<SessionId>>;

    /// The nonce drawn when the store was last restored from a backup.
    fn restored(&self) -> Result<Option<Nonce>> {
        Ok(None)
    }

    /// The revocations when the store was opened.
    fn revoked(&self) -> Result<Vec<Revocation>>;

    /// The used single-use names when the store was opened, with when they expire.
    fn spent(&self) -> Result<Vec<(String, u64)>>;

    /// Those of a kind that were last used before `time`, longest unused first, with when that
    /// was; at most `limit`.
    fn unused_since(&self, kind: ExpiryKind, time: u64, limit: usize) -> Result<Vec<(u64, LogId)>>;
}

/// Nothing here expires by the minute: a use is noted only if the last note is older than this.
const NOTE_EVERY: u64 = 60_000;

/// Records a use; returns the time recorded before, if that was too long ago.
pub fn note_use(used: &mut u64) -> Option<u64> {
    let now = unix_millis();
    let stands = *used > 0 && now.abs_diff(*used) < NOTE_EVERY;
    (!stands).then(|| std::mem::replace(used, now))
}
