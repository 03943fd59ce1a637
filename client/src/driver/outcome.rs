//! How a driver handles finished jobs.

use std::time::SystemTime;

use baton_protocol::Envelope;
use baton_protocol::compose::{error, one_line};
use bytes::Bytes;
use http::HeaderValue;

use super::{ConnectionDriver, OpenConnection};
use crate::delivery::DeliveryResult;
use crate::endpoint::OpenedConnection;
use crate::error::RequestFailure;
use crate::job::{JobOutcome, OutgoingMessage};
use crate::resume;
use crate::stream::StreamHandle;

impl ConnectionDriver {
    pub(super) fn finish(&mut self, done: JobOutcome) {
        match done {
            JobOutcome::Opened { message, outcome } => self.opened(message, outcome),
            JobOutcome::Reopened(outcome) => self.reopened(outcome),
            JobOutcome::Posted(outgoing, delivery) => self.posted(outgoing, delivery),
        }
    }

    fn opened(&mut self, message: Bytes, outcome: Result<OpenedConnection, RequestFailure>) {
        let id = Envelope::read(&message).ok();
        let id = id.as_ref().and_then(Envelope::request_id);
        let waiting = id.and_then(|id| self.in_flight.take_unanswered(id));
        match (outcome, waiting) {
            (Ok(opened), _) => {
                if !is_error(&opened.answer) {
                    self.initialize = Some(message);
                    self.connection(opened.token);
                }
                self.local_answers.push_back(one_line(opened.answer));
            }
            (Err(RequestFailure::Refused { code, text }), Some(waiting)) => {
                self.local_answers
                    .push_back(error(&waiting.id, code, &text));
            }
            (Err(failure), Some(waiting)) => {
                let away = self.reachability.away();
                let local_answers = resume::unreachable(&waiting, away, &failure.to_string());
                self.local_answers.push_back(local_answers);
            }
            (Err(failure), None) => tracing::error!(why = %failure, "no connection"),
        }
    }

    fn connection(&mut self, token: HeaderValue) {
        self.mark_reachable();
        let (endpoint, reachability) = (self.endpoint.clone(), self.reachability.clone());
        self.connection = Some(OpenConnection {
            stream: StreamHandle::start(endpoint, self.transport, token.clone(), reachability),
            since: SystemTime::now(),
            token,
        });
    }

    fn mark_reachable(&mut self) {
        self.reachability.mark_answered();
        self.last_failure = None;
        self.backoff.reset();
    }

    fn reopened(&mut self, outcome: Result<OpenedConnection, RequestFailure>) {
        match outcome {
            Ok(opened) if !is_error(&opened.answer) => {
                self.connection(opened.token);
                for message in resume::resumes(&self.in_flight).into_iter().rev() {
                    let outgoing = self.own(message);
                    self.first.push_front(outgoing);
                }
                let count = self.in_flight.sessions().len();
                tracing::info!(sessions = count, "another connection was opened");
            }
            outcome => {
                let why = match outcome {
                    Ok(opened) => String::from_utf8_lossy(&opened.answer).into_owned(),
                    Err(failure) => failure.to_string(),
                };
                tracing::warn!(why, "could not open a new connection yet");
                self.last_failure = Some(why);
                if self.is_away() {
                    self.fail_waiting_requests();
                }
            }
        }
    }

    fn own(&mut self, message: Bytes) -> OutgoingMessage {
        let mut request = None;
        if let Ok(envelope) = Envelope::read(&message) {
            self.in_flight.record_outgoing(&message, &envelope, true);
            request = envelope.request_id().map(str::to_owned);
        }
        OutgoingMessage {
            message,
            request,
            own: true,
        }
    }

    fn posted(&mut self, outgoing: OutgoingMessage, delivery: DeliveryResult) {
        let id = outgoing.request.as_deref();
        match delivery.outcome {
            Ok(()) if self.connection.is_some() => {
                self.mark_reachable();
                if let Some(id) = id {
                    self.in_flight.accepted(id);
                }
            }
            // The connection was lost meanwhile, and the answer with it.
            Ok(()) => self.interrupt(outgoing, "it was lost"),
            Err(RequestFailure::Lost) => {
                self.drop_connection("it has expired or was revoked");
                if delivery.doubtful && id.is_some() {
                    self.interrupt(outgoing, "it was lost")
                } else {
                    self.first.push_front(outgoing)
                }
            }
            Err(RequestFailure::Refused { code, text }) => {
                let waiting = id.and_then(|id| self.in_flight.take_unanswered(id));
                match waiting {
                    Some(waiting) => self
                        .local_answers
                        .push_back(error(&waiting.id, code, &text)),
                    None => tracing::error!(code, text, "the server refused a message"),
                }
            }
            Err(RequestFailure::Away { why, .. }) => {
                self.last_failure = Some(why);
                self.fail_or_keep(outgoing);
                if self.is_away() {
                    self.fail_waiting_requests();
                }
            }
        }
    }
}

fn is_error(answer: &[u8]) -> bool {
    Envelope::read(answer).map_or(true, |answer| answer.error.is_some())
}
