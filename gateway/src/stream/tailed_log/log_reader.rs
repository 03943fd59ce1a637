//! Wakes a reader when something concerns it. A connection stream reads many sessions whose events
//! come on streams of their own, and must not be woken by those.

use baton_session::event::{Event, Frame};
use baton_session::id::{ConnectionId, Nonce};
use baton_session::route::DeliveryPath;

use crate::stream::wake::StreamWake;

/// A reader of a tailed log, as the log knows it.
pub(super) struct LogReader {
    pub number: u64,
    pub wake: StreamWake,
    /// Wants to know only of what is addressed to this connection, by its connection stream.
    pub muted_for: Option<ConnectionId>,
    /// Where a muted reader has to go on.
    pub resume_at: Option<u64>,
}

pub enum MuteState {
    /// Nothing up to this event concerned it.
    Still(Option<(u64, Nonce)>),
    ResumeAt(u64),
    Unsure,
}

impl LogReader {
    pub fn is_concerned_by(&mut self, frame: &Frame) -> bool {
        let Some(connection) = &self.muted_for else {
            return true;
        };
        if self.resume_at.is_some() {
            return true;
        }
        let addressed = |event: &Event| match event {
            Event::Begin(begin) => {
                begin.connection == *connection && begin.via == DeliveryPath::Connection
            }
            Event::Control { by, via, .. } => by == connection && *via == DeliveryPath::Connection,
            // It may be the answer to a close, after which there is nothing to watch.
            Event::Response { to, turn, .. } => {
                to.connection == *connection && (to.via == DeliveryPath::Connection || !turn)
            }
            _ => false,
        };
        self.resume_at = frame
            .numbered()
            .find(|(_, event)| addressed(event))
            .map(|(seq, _)| seq);
        self.resume_at.is_some()
    }
}
