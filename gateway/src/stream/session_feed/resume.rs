//! Where a session's events begin for a client: at its cursor, or where its history and the log
//! part.

use baton_session::cursor::{Cursor, CursorPhase};
use baton_session::event::Event;
use baton_session::route::DeliveryPath;
use baton_session::store;

use super::SessionFeed;
use crate::stream::feed::StartPosition;
use crate::stream::truncation::{LOST_TAIL, LogCheck};

/// So many events are searched for the last one that a client has in common with the log.
const LOOKED_BACK: u64 = 4096;
/// A cursor that is further beyond the log's end is not of this session.
const MAY_COME_BACK: u64 = 100_000;

impl SessionFeed {
    /// Goes on after a client's cursor. Returns why it can't, if it can't.
    pub(super) async fn resume(&mut self, cursor: Cursor) -> store::Result<Option<&'static str>> {
        const GONE: &str = "the cursor is not part of what this connection gets of the session: \
            load the session again";
        let directives = self.attachment.directives.clone();
        let head = self.attachment.head;
        let found = match cursor.seq {
            0 => Some(cursor.nonce),
            seq if seq > head => None,
            seq => self.tail.nonce_of(seq).await?,
        };
        // A store that has failed over may lack the end of the log, and its writer may still bring
        // it.
        let beyond = found.is_none()
            && cursor.phase == CursorPhase::Live
            && cursor.seq.saturating_sub(head) <= MAY_COME_BACK;
        let known = found == Some(cursor.nonce) || beyond;
        if found != Some(cursor.nonce) {
            // The log is not what it was, so what is kept of it here may not be part of it.
            self.tail.announce_resync();
        }
        let replaying = match cursor.phase {
            CursorPhase::Replaying(number) => directives
                .iter()
                .find(|directive| directive.number == number),
            _ => None,
        };
        let joined = self
            .attachment
            .route
            .joined()
            .is_some_and(|joined| joined <= cursor.seq.saturating_add(1));
        let ours = match cursor.phase {
            CursorPhase::Replaying(_) => replaying.is_some(),
            // A connection stream's cursor was made here, before the connection joined perhaps.
            _ => joined || self.via == DeliveryPath::Connection || cursor.seq == 0,
        };
        if !known || !ours {
            self.answered = directives.last().map_or(0, |directive| directive.number);
            let next = if ours {
                self.after_last_common(cursor, head).await?
            } else {
                head + 1
            };
            self.go_to(next).await?;
            return Ok(Some(GONE));
        }
        self.position = cursor;
        // It may have been said before the stream was cut.
        self.close_answered = self.attachment.closed;
        self.tail.advance(cursor.seq, cursor.nonce);
        if beyond {
            self.tail.doubt();
        }
        self.recall_questions().await?;
        match cursor.phase {
            CursorPhase::Replaying(number) => {
                self.answered = number - 1;
                self.replayed = Some(cursor.seq);
                let next = replaying.map_or(self.tail.next(), |directive| directive.upto + 1);
                self.tail.skip_to(next);
            }
            CursorPhase::Answered(number) => {
                self.answered = number;
                self.ask_after = Some(0);
            }
            CursorPhase::Asked(number, question) => {
                self.answered = number;
                self.ask_after = Some(question);
            }
            CursorPhase::Live => {
                self.last_delivered = cursor.seq;
                let before = directives
                    .iter()
                    .filter(|directive| directive.upto < cursor.seq);
                self.answered = before.map(|directive| directive.number).max().unwrap_or(0);
            }
        }
        Ok(None)
    }

    /// Where a client goes on that saw events which are lost: a claim writes without a break, so
    /// what the log has of its last claim was seen, and what comes after that is new. If the log
    /// has nothing of that claim, the client is told the last two turns again: something twice is
    /// better than an answer never.
    async fn after_last_common(&self, seen: Cursor, head: u64) -> store::Result<u64> {
        let upto = seen.seq.min(head);
        let joined = self.attachment.route.joined();
        let mut from = upto.saturating_sub(LOOKED_BACK).max(1);
        let (mut last, mut begun) = (None, [head + 1; 2]);
        let is_near = seen.seq.saturating_sub(head) <= MAY_COME_BACK;
        while is_near && seen.phase == CursorPhase::Live && from <= upto {
            let frames = self.tail.read(from).await?;
            let Some(end) = frames.last().map(|frame| frame.last()) else {
                break;
            };
            let of_claim = frames.iter().filter(|frame| frame.nonce == seen.nonce);
            last = of_claim.map(|frame| frame.last().min(upto)).max().or(last);
            for (seq, event) in frames.iter().flat_map(|frame| frame.numbered()) {
                if matches!(event, Event::Begin(_)) && seq <= upto {
                    begun = [begun[1], seq];
                }
            }
            from = end + 1;
        }
        let next = last.map_or(begun[0].min(begun[1]), |last| last + 1);
        Ok(joined.map_or(head + 1, |joined| next.max(joined)))
    }

    pub(super) async fn go_to(&mut self, next: u64) -> store::Result<()> {
        let nonce = if next > 1 {
            self.tail.nonce_of(next - 1).await?
        } else {
            None
        };
        self.position = Cursor::live(next - 1, nonce.unwrap_or_default());
        self.tail.move_to(next - 1, nonce);
        Ok(())
    }

    /// To be asked before anything is collected. True if what was delivered is not part of the log
    /// any more; the feed then goes on from the log's end.
    pub async fn was_truncated(&mut self) -> store::Result<bool> {
        self.ended |= !self.apply_notices();
        // A deleted session is forgotten before long, and that is no loss.
        if self.attachment.deleted || self.tail.check().await? != LogCheck::Lost {
            return Ok(false);
        }
        self.tail.announce_resync();
        let head = self.tail.head().await?;
        match self.read_attachment().await? {
            Some(attachment) => self.adopt(attachment),
            None => self.gone = head == 0,
        }
        self.stale = false;
        self.attachment.head = head;
        self.answered = self.attachment.latest().map_or(0, |last| last.number);
        (self.replayed, self.ask_after) = (None, None);
        let next = self.after_last_common(self.position, head).await?;
        self.go_to(next).await?;
        self.start = StartPosition {
            cursor: self.position.to_string(),
            reset: Some(LOST_TAIL),
        };
        // A load or resume cannot be answered twice; its POST may be sent again.
        self.ended |= self.only.is_some();
        Ok(true)
    }
}
