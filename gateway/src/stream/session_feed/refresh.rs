//! What the store knows of the connection in this session, read again when it may have changed.

use baton_session::store::{self, Attachment};

use super::SessionFeed;
use crate::stream::log_tail::LogPage;
use crate::stream::tailed_log::LogNotice;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum RefreshOutcome {
    Done,
    /// There is no such session, or not yet.
    NoSession,
    /// The store has lost the end of the log.
    TooShort,
}

impl SessionFeed {
    /// Some of these came after the attachment was read, and are not for this stream as far as that
    /// knows.
    pub(super) fn would_pass_over(&self, page: &LogPage) -> bool {
        let from = self.tail.next().max(self.attachment.head + 1);
        let route = &self.attachment.route;
        (from..=page.last()).any(|seq| route.at(seq) != Some(self.via))
    }

    /// False if another holder took this stream over.
    pub(super) fn apply_notices(&mut self) -> bool {
        for notice in self.tail.notices() {
            if self.takeover.is_taken(&notice) {
                return false;
            }
            self.stale |= matches!(notice, LogNotice::Attached(_) | LogNotice::Resync);
        }
        true
    }

    pub(super) async fn read_attachment(&self) -> store::Result<Option<Attachment>> {
        let of = (&self.session, &self.connection, &self.principal);
        self.store.attachment(of.0, of.1, of.2).await
    }

    /// Reads the attachment again. A log that ends before the last event that was delivered has
    /// lost its end, and the route with it: until its writer has brought both back, the attachment
    /// that is known counts.
    pub(super) async fn refresh(&mut self) -> store::Result<RefreshOutcome> {
        let Some(attachment) = self.read_attachment().await? else {
            self.stale = false;
            return Ok(RefreshOutcome::NoSession);
        };
        if attachment.head + 1 < self.tail.next() && !attachment.deleted {
            self.tail.doubt();
            self.tail.wake().wake_up();
            return Ok(RefreshOutcome::TooShort);
        }
        self.adopt(attachment);
        Ok(RefreshOutcome::Done)
    }

    pub(super) fn adopt(&mut self, attachment: Attachment) {
        self.stale = false;
        self.tail.grow(attachment.head);
        self.attachment = attachment;
    }

    /// Its position is certain, or does not matter any more.
    pub(super) fn is_certain(&self) -> bool {
        self.tail.is_intact() || self.attachment.deleted
    }
}
