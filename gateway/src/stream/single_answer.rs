//! The body of a POST whose answer is known at once.

use std::sync::Arc;

use baton_session::store;
use bytes::Bytes;
use tokio::sync::Notify;

use super::feed::{GatherOutcome, MessageFeed, OutgoingMessage, StartPosition};

/// A single answer that is known already.
pub struct SingleAnswer {
    message: Option<Bytes>,
    wake: Arc<Notify>,
}

impl SingleAnswer {
    pub fn new(message: Bytes) -> Self {
        Self {
            message: Some(message),
            wake: Arc::new(Notify::new()),
        }
    }
}

impl MessageFeed for SingleAnswer {
    const KIND: &'static str = "one_shot";

    fn start(&self) -> StartPosition {
        StartPosition {
            cursor: "0".into(),
            reset: None,
        }
    }

    async fn gather(&mut self, out: &mut Vec<OutgoingMessage>) -> store::Result<GatherOutcome> {
        let Some(message) = self.message.take() else {
            return Ok(GatherOutcome::Ended);
        };
        out.push(OutgoingMessage {
            cursor: "0".into(),
            message,
        });
        Ok(GatherOutcome::Open)
    }

    fn wake(&self) -> &Arc<Notify> {
        &self.wake
    }

    fn seems_busy(&self) -> bool {
        true
    }

    async fn is_busy(&mut self) -> store::Result<bool> {
        Ok(true)
    }
}
