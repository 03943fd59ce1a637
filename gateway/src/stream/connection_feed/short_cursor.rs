//! Keeps the cursor short: most of a long one is moved into the outbox.

use baton_session::command::IdempotencyKey;
use baton_session::event::Event;
use baton_session::store::{self, OutboxProgress, PostOutcome, StreamId, StreamTouch};
use bytes::Bytes;

use super::cursor_text::OutboxEntry;
use super::{ConnectionCursor, ConnectionFeed};

impl ConnectionFeed {
    /// To be called before anything changes that is part of the cursor: if that has become too
    /// long, most of it goes into the outbox.
    pub(super) async fn shorten_cursor(&mut self) -> store::Result<()> {
        let Some(mut draft) = self.positions.draft(self.outbox.last().0) else {
            return Ok(());
        };
        if draft.is_whole {
            self.catch_up_resting();
            draft.text = self.positions.whole();
        }
        let text = Bytes::from(draft.text.clone());
        let mut posted = self.post_positions(text.clone()).await?;
        if posted == PostOutcome::Full && !self.has_reported {
            self.has_reported = true;
            self.report_progress().await?;
            posted = self.post_positions(text).await?;
        }
        match posted {
            PostOutcome::New { number, nonce } => {
                self.positions.posted(&draft, OutboxEntry { number, nonce });
            }
            // A long cursor is better than none.
            PostOutcome::Full
            | PostOutcome::Known(_)
            | PostOutcome::Delivered
            | PostOutcome::Conflict => {
                let id = &self.connection.id;
                tracing::warn!(connection.id = %id, "the outbox does not take positions: cursors \
                    are long");
            }
        }
        Ok(())
    }

    async fn post_positions(&self, text: Bytes) -> store::Result<PostOutcome> {
        let id = &self.connection.id;
        let key = IdempotencyKey::of(id, None, b"");
        let positions = Event::Positions { text };
        self.services.store.post(id, positions, &key).await
    }

    /// Streams that come and go too fast tell the store nothing of how far the client is. It came
    /// with the cursor that this stream began with, and needs nothing before that. Later on the
    /// registry knows better.
    async fn report_progress(&self) -> store::Result<()> {
        let upto = ConnectionCursor::first_needed(&self.start.cursor).unwrap_or(0);
        let settled = 0;
        let touch = StreamTouch {
            stream: StreamId {
                connection: self.connection.id.clone(),
                session: None,
            },
            holder: self.holder.clone(),
            written: None,
            delivered: Some(OutboxProgress { upto, settled }),
        };
        self.services.store.touch_streams(&[touch]).await?;
        Ok(())
    }
}
