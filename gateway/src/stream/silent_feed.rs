//! The stream of a session that does not exist.

use std::sync::Arc;

use baton_session::store;
use tokio::sync::Notify;

use super::feed::{GatherOutcome, MessageFeed, OutgoingMessage, StartPosition};

/// Nothing, for as long as the client likes.
#[derive(Default)]
pub struct SilentFeed {
    wake: Arc<Notify>,
}

impl MessageFeed for SilentFeed {
    const KIND: &'static str = "session";

    fn start(&self) -> StartPosition {
        StartPosition {
            cursor: "0".into(),
            reset: None,
        }
    }

    async fn gather(&mut self, _: &mut Vec<OutgoingMessage>) -> store::Result<GatherOutcome> {
        Ok(GatherOutcome::Open)
    }

    fn wake(&self) -> &Arc<Notify> {
        &self.wake
    }

    fn seems_busy(&self) -> bool {
        false
    }

    async fn is_busy(&mut self) -> store::Result<bool> {
        Ok(false)
    }
}
