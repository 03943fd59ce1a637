//! The messages of the sessions: each that has called is looked at, one after the other.

use baton_session::store;

use super::ConnectionFeed;
use crate::stream::feed::{OutgoingMessage, is_enough};

impl ConnectionFeed {
    pub(super) async fn read_sessions(
        &mut self,
        out: &mut Vec<OutgoingMessage>,
    ) -> store::Result<()> {
        // Those that found no room the last time come first now.
        let later = self.due.range(..=self.served);
        let sooner = self.due.range(self.served + 1..);
        let watches: Vec<u64> = sooner.chain(later).copied().collect();
        // One session that cannot be read must not hold up the others.
        let mut failed = Ok(());
        for watch in watches {
            if is_enough(out, OutgoingMessage::size) {
                break;
            }
            self.shorten_cursor().await?;
            self.served = watch;
            failed = failed.and(self.read_session(watch, out).await);
        }
        failed
    }

    async fn read_session(
        &mut self,
        watch: u64,
        out: &mut Vec<OutgoingMessage>,
    ) -> store::Result<()> {
        let Some(watched) = self.sessions.get_mut(&watch) else {
            self.due.remove(&watch);
            return Ok(());
        };
        if watched.resting && !watched.feed.rouse() {
            self.due.remove(&watch);
            return Ok(());
        }
        let mut collected = Vec::new();
        let outcome = watched.feed.collect(&mut collected).await;
        watched.resting = watched.feed.rest();
        let position = watched.feed.position();
        if outcome.is_ok() && collected.is_empty() && (watched.resting || watched.feed.is_idle()) {
            self.due.remove(&watch);
        }
        for (cursor, message) in collected {
            self.positions.set(watch, cursor);
            let cursor = self.cursor();
            out.push(OutgoingMessage { cursor, message });
        }
        self.positions.set(watch, position);
        outcome?;
        let Some(watched) = self.sessions.get_mut(&watch) else {
            return Ok(());
        };
        let ends_with_close = (watched.last_watch == watch).then_some(watch);
        let over = watched.feed.is_over(ends_with_close);
        match over.await {
            Ok(true) => self.leave(watch).await,
            Ok(false) => {}
            Err(error) => {
                // It is asked once more.
                self.due.insert(watch);
                return Err(error);
            }
        }
        Ok(())
    }
}
