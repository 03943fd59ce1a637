//! Whether what a stream has delivered is still part of the log. A store that failed over may have
//! lost the end of a log; then a client holds events that don't exist any more, and others may get
//! their numbers. It must be told, never be sent a mixture.

#[cfg(test)]
mod tests;

use std::time::Duration;

use baton_session::id::{LogId, Nonce};
use baton_session::store::{self, Store};
use tokio::time::{Instant, sleep};

use super::wake::StreamWake;

/// The writer may still have what the store lost, and write the very same again.
const HEALING: Duration = Duration::from_secs(5);

pub const LOST_TAIL: &str =
    "the store lost the end of the log that this stream had sent: load the session again";

/// How far a log was read, and whether that is still part of it.
#[derive(Default)]
pub struct TruncationCheck {
    /// The last event that was delivered or passed over, and whose claim wrote it, if that is
    /// known.
    seq: u64,
    nonce: Option<Nonce>,
    doubt: Option<TruncationDoubt>,
}

#[derive(Default)]
struct TruncationDoubt {
    /// Since when the log is known to be too short.
    short_since: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogCheck {
    Intact,
    /// Nothing may be delivered until this is settled.
    Pending,
    Lost,
}

impl TruncationCheck {
    pub fn last(&self) -> (u64, Option<Nonce>) {
        (self.seq, self.nonce)
    }

    pub fn set(&mut self, seq: u64, nonce: Option<Nonce>) {
        (self.seq, self.nonce) = (seq, nonce);
    }

    /// Stands somewhere else now, on what the log holds.
    pub fn move_to(&mut self, seq: u64, nonce: Option<Nonce>) {
        self.set(seq, nonce);
        self.doubt = None;
    }

    /// Something suggests that the log is not what it was.
    pub fn doubt(&mut self) {
        self.doubt.get_or_insert_default();
    }

    pub fn is_intact(&self) -> bool {
        self.doubt.is_none()
    }

    /// Looks at the log if there is any doubt. A check that is pending wakes the reader again.
    pub async fn check(
        &mut self,
        store: &dyn Store,
        log: &LogId,
        wake: &StreamWake,
    ) -> store::Result<LogCheck> {
        let Some(doubt) = &mut self.doubt else {
            return Ok(LogCheck::Intact);
        };
        if self.seq > 0 {
            match nonce_of(store, log, self.seq).await? {
                Some(found) if self.nonce.is_none_or(|nonce| nonce == found) => {}
                Some(_) => return Ok(LogCheck::Lost),
                None if !may_heal(log) => return Ok(LogCheck::Lost),
                None => match doubt.short_since {
                    Some(since) if since.elapsed() >= HEALING => return Ok(LogCheck::Lost),
                    Some(_) => return Ok(LogCheck::Pending),
                    None => {
                        doubt.short_since = Some(Instant::now());
                        tokio::spawn(remind(wake.clone()));
                        return Ok(LogCheck::Pending);
                    }
                },
            }
        }
        self.doubt = None;
        Ok(LogCheck::Intact)
    }
}

/// An outbox has no writer that keeps what it wrote.
fn may_heal(log: &LogId) -> bool {
    matches!(log, LogId::Session(_))
}

async fn remind(wake: StreamWake) {
    sleep(HEALING).await;
    wake.wake_up();
}

/// The nonce of the claim that wrote this event; `None` if the log does not reach so far.
pub async fn nonce_of(store: &dyn Store, log: &LogId, seq: u64) -> store::Result<Option<Nonce>> {
    let frames = store.read(log, seq, 1).await?;
    let frame = frames.first().filter(|frame| frame.first <= seq);
    Ok(frame.map(|frame| frame.nonce))
}
