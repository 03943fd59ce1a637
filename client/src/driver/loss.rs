//! How a driver handles requests that will not be answered.

use bytes::Bytes;

use super::ConnectionDriver;
use crate::in_flight::UnansweredRequest;
use crate::job::OutgoingMessage;
use crate::resume;

/// Cancels and answers that are kept for a server that is away; requests are not.
const MAX_KEPT_MESSAGES: usize = 64;

impl ConnectionDriver {
    /// The connection is over, or its stream has lost its place: those who wait are told.
    pub(super) fn drop_connection(&mut self, why: &str) {
        if let Some(connection) = self.connection.take() {
            tracing::warn!(why, "the connection is over; opening another");
            self.old = Some(connection.token);
        }
        // The next connection has its own.
        self.first.retain(|outgoing| !outgoing.own);
        for request in self.in_flight.take_accepted() {
            self.local_answers
                .push_back(resume::interrupted(&request, why));
        }
    }

    pub(super) fn interrupt(&mut self, outgoing: OutgoingMessage, why: &str) {
        let id = outgoing.request.as_deref();
        let waiting = id.and_then(|id| self.in_flight.take_unanswered(id));
        self.local_answers
            .extend(waiting.map(|waiting| resume::interrupted(&waiting, why)));
    }

    /// The server has been unreachable for too long: all waiting requests get an error.
    pub(super) fn fail_waiting_requests(&mut self) {
        let mut unanswered = self.in_flight.take_accepted();
        self.first.retain(|outgoing| match &outgoing.request {
            Some(id) if !outgoing.own => {
                unanswered.extend(self.in_flight.take_unanswered(id));
                false
            }
            _ => true,
        });
        for request in unanswered {
            self.local_answers.push_back(self.unreachable(&request));
        }
    }

    fn unreachable(&self, request: &UnansweredRequest) -> Bytes {
        let why = self
            .last_failure
            .as_deref()
            .unwrap_or("its streams cannot be opened");
        resume::unreachable(request, self.reachability.away().max(self.give_up), why)
    }

    /// A request is answered with an error. Other messages are kept until the server is back, since
    /// an agent may wait for them.
    pub(super) fn fail_or_keep(&mut self, outgoing: OutgoingMessage) {
        match outgoing.request.as_deref() {
            _ if outgoing.own => self.first.push_front(outgoing),
            Some(id) => {
                let waiting = self.in_flight.take_unanswered(id);
                let local_answers = waiting.map(|waiting| self.unreachable(&waiting));
                self.local_answers.extend(local_answers);
            }
            None if self.first.len() < MAX_KEPT_MESSAGES => self.first.push_back(outgoing),
            None => tracing::error!(
                "message dropped: the server is unreachable and too many messages are queued"
            ),
        }
    }
}
