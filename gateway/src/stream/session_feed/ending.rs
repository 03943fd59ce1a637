//! When a connection stream has heard the last of a session.

use std::time::Duration;

use baton_session::store::{self, SeenPosition};
use tokio::time::sleep;

use super::SessionFeed;

/// So often is looked whether a deleted session has come to its end.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

impl SessionFeed {
    /// True if nothing will come any more: it was deleted and everybody has been answered, it is
    /// forgotten, or this connection has closed it. If it is opened again, the stream is told to
    /// watch it anew. `watch` is the entry that had told so, if that may end with a close.
    pub async fn is_over(&mut self, watch: Option<u64>) -> store::Result<bool> {
        if self.gone {
            return Ok(true);
        }
        if !self.is_idle() {
            return Ok(false);
        }
        if self.attachment.deleted {
            let over = !self.is_under_way().await?;
            if !over {
                let wake = self.tail.wake().clone();
                tokio::spawn(async move {
                    sleep(RECHECK_INTERVAL).await;
                    wake.wake_up();
                });
            }
            return Ok(over);
        }
        let Some(watch) = watch else {
            return Ok(false);
        };
        // The client came back before it got a cursor without it.
        if watch <= self.attachment.left {
            return Ok(true);
        }
        if !self.close_answered {
            return Ok(false);
        }
        let seen = SeenPosition {
            upto: self.tail.next() - 1,
            directive: self.answered,
        };
        let left = self
            .store
            .unwatch(&self.session, &self.connection, watch, seen)
            .await?;
        // If there is more to come, another close may be among it.
        self.close_answered = false;
        Ok(left)
    }
}

/// Whether this may be the answer to a `session/close`. It is no more than a hint: the store knows.
pub(super) fn is_close_answer(answer: &[u8]) -> bool {
    const SMALL: usize = 4096;
    const OVER: &[u8] = br#""baton/session":null"#;
    answer.len() <= SMALL && answer.windows(OVER.len()).any(|part| part == OVER)
}
