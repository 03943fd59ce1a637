//! The one task behind a connection. It takes a message when the one before is handed over, passes
//! on what comes, and knows what to do when the connection is over or the server is away.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use baton_protocol::envelope::EnvelopeError;
use baton_protocol::limits::{MAX_MESSAGE, MAX_MESSAGE_TEXT};
use baton_protocol::{Envelope, ErrorCode, Method, compose};
use bytes::Bytes;
use http::HeaderValue;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::backoff::Backoff;
use crate::endpoint::Endpoint;
use crate::error::SetupError;
use crate::in_flight::{InFlightState, InboundAction};
use crate::job::{self, DriverJob, JobOutcome, OutgoingMessage};
use crate::options::{ClientOptions, StreamTransport};
use crate::reachability::ServerReachability;
use crate::stream::{StreamEvent, StreamHandle};

mod loss;
mod outcome;

/// After the end of input, pending messages have this long to be delivered.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

pub struct ConnectionDriver {
    endpoint: Arc<Endpoint>,
    transport: StreamTransport,
    give_up: Duration,
    renew_after: Duration,
    reachability: Arc<ServerReachability>,
    outgoing: mpsc::Receiver<Bytes>,
    incoming: mpsc::Sender<Bytes>,
    in_flight: InFlightState,
    /// To be sent before anything else.
    first: VecDeque<OutgoingMessage>,
    /// To be passed on before anything else: one error at most for each request.
    local_answers: VecDeque<Bytes>,
    /// The `initialize` message, sent again when the connection is replaced.
    initialize: Option<Bytes>,
    connection: Option<OpenConnection>,
    /// A connection that was left and may still be there.
    old: Option<HeaderValue>,
    backoff: Backoff,
    /// The last failure, until a request succeeds again.
    last_failure: Option<String>,
}

/// A connection that is open.
struct OpenConnection {
    token: HeaderValue,
    since: SystemTime,
    stream: StreamHandle,
}

enum InboundOutcome {
    /// The message was passed on or dropped.
    Message,
    /// It was a question, and this is the answer.
    Answered(Bytes),
    /// The connection is of no use any more.
    Loss(String),
    /// The receiver is gone.
    Nobody,
}

impl ConnectionDriver {
    pub fn new(
        options: ClientOptions,
        outgoing: mpsc::Receiver<Bytes>,
        incoming: mpsc::Sender<Bytes>,
    ) -> Result<Self, SetupError> {
        Ok(Self {
            transport: options.transport,
            give_up: options.give_up,
            renew_after: options.renew_after,
            endpoint: Arc::new(Endpoint::new(options)?),
            reachability: Arc::new(ServerReachability::new()),
            outgoing,
            incoming,
            in_flight: InFlightState::default(),
            first: VecDeque::new(),
            local_answers: VecDeque::new(),
            initialize: None,
            connection: None,
            old: None,
            backoff: Backoff::default(),
            last_failure: None,
        })
    }

    pub fn reachability(&self) -> Arc<ServerReachability> {
        self.reachability.clone()
    }

    pub async fn run(mut self) {
        let mut job: Option<DriverJob> = None;
        let mut end: Option<Instant> = None;
        loop {
            job = job.or_else(|| self.next_job());
            if end.is_some() && job.is_none() && self.local_answers.is_empty() {
                break;
            }
            let gives_up_at =
                Instant::now() + self.give_up.saturating_sub(self.reachability.away());
            let takes = end.is_none() && (job.is_none() || self.is_away());
            tokio::select! {
                done = job_outcome(&mut job), if job.is_some() => {
                    job = None;
                    self.finish(done);
                }
                message = self.outgoing.recv(), if takes => match message {
                    Some(message) => job = self.take(message, job),
                    None => end = Some(Instant::now() + FLUSH_TIMEOUT),
                },
                heard = next_inbound(
                    &self.incoming,
                    &mut self.local_answers,
                    &mut self.connection,
                    &mut self.in_flight,
                ) => match heard {
                    InboundOutcome::Message => {}
                    InboundOutcome::Answered(answer) => {
                        self.first.push_back(OutgoingMessage::answer(answer));
                    }
                    InboundOutcome::Loss(why) => self.drop_connection(&why),
                    InboundOutcome::Nobody => break,
                },
                _ = sleep_until(gives_up_at), if self.in_flight.awaits_answer() => {
                    if self.is_away() {
                        self.fail_waiting_requests();
                    }
                }
                _ = sleep_until(end.unwrap_or(gives_up_at)), if end.is_some() => break,
            }
        }
        if let Some(connection) = self.connection {
            job::detach(&self.endpoint, &connection.token).await;
        }
    }

    fn is_away(&self) -> bool {
        self.reachability.away() >= self.give_up
    }

    /// The next job that does not come from the user.
    fn next_job(&mut self) -> Option<DriverJob> {
        match (&self.initialize, &self.connection) {
            (Some(_), None) => Some(self.reopen()),
            (_, Some(_)) => {
                let outgoing = self.first.pop_front()?;
                self.post(outgoing)
            }
            (None, None) => None,
        }
    }

    /// Handles a message of the user. If there is a job, the server has been unreachable for so
    /// long that requests fail at once.
    fn take(&mut self, message: Bytes, job: Option<DriverJob>) -> Option<DriverJob> {
        let envelope = match Envelope::read(&message) {
            Ok(envelope) => envelope,
            Err(error) => {
                let (code, text) = unreadable(&error);
                self.local_answers
                    .push_back(compose::error("null", code, &text));
                return job;
            }
        };
        let request = envelope.request_id().map(str::to_owned);
        let begins = envelope.is(Method::Initialize);
        if begins == (self.initialize.is_some() || job.is_some()) {
            self.refuse(
                request,
                if begins {
                    "the connection is initialized already"
                } else {
                    "the first message must be initialize"
                },
            );
            return job;
        }
        if message.len() > MAX_MESSAGE {
            self.refuse(request, MAX_MESSAGE_TEXT);
            return job;
        }
        let is_due = request.is_some() && self.is_due();
        self.in_flight.record_outgoing(&message, &envelope, false);
        if begins {
            return Some(job::open(self.endpoint.clone(), message, self.give_up));
        }
        let outgoing = OutgoingMessage {
            message,
            request,
            own: false,
        };
        if job.is_some() {
            self.fail_or_keep(outgoing);
            return job;
        }
        if is_due {
            self.first.push_back(outgoing);
            self.old = self.connection.take().map(|connection| connection.token);
            return Some(self.reopen());
        }
        self.post(outgoing)
    }

    fn refuse(&mut self, request: Option<String>, why: &str) {
        let refusal = request.map(|id| compose::error(&id, ErrorCode::InvalidRequest, why));
        self.local_answers.extend(refusal);
    }

    /// The connection is past half of its life, and nothing is under way that would miss it.
    fn is_due(&self) -> bool {
        let age = self
            .connection
            .as_ref()
            .map(|connection| connection.since.elapsed());
        let age = age.and_then(Result::ok).unwrap_or_default();
        age > self.renew_after && !self.in_flight.has_open_requests()
    }

    fn reopen(&mut self) -> DriverJob {
        let message = self.initialize.clone().unwrap_or_default();
        let (old, pause) = (self.old.take(), self.pause());
        job::reopen(self.endpoint.clone(), message, old, pause)
    }

    fn post(&mut self, outgoing: OutgoingMessage) -> Option<DriverJob> {
        let Some(connection) = &self.connection else {
            self.first.push_front(outgoing);
            return None;
        };
        let (token, reachability) = (connection.token.clone(), self.reachability.clone());
        let (endpoint, pause) = (self.endpoint.clone(), self.pause());
        Some(job::post(
            endpoint,
            token,
            outgoing,
            reachability,
            self.give_up,
            pause,
        ))
    }

    /// Before the next attempt.
    fn pause(&mut self) -> Duration {
        match self.last_failure {
            None => Duration::ZERO,
            Some(_) => self.backoff.next(None),
        }
    }
}

fn unreadable(error: &EnvelopeError) -> (ErrorCode, String) {
    match error {
        EnvelopeError::List => (
            ErrorCode::InvalidRequest,
            "a message at a time: batches are not part of this protocol".into(),
        ),
        EnvelopeError::Field(_) => (ErrorCode::InvalidRequest, "not a JSON-RPC message".into()),
        EnvelopeError::NotJson(error) => (ErrorCode::ParseError, format!("not JSON: {error}")),
    }
}

async fn job_outcome(job: &mut Option<DriverJob>) -> JobOutcome {
    match job {
        Some(job) => job.await,
        None => std::future::pending().await,
    }
}

/// Passes on what is next, once there is room for it. May be dropped and called again: nothing is
/// taken before there is a place for it.
async fn next_inbound(
    incoming: &mpsc::Sender<Bytes>,
    local_answers: &mut VecDeque<Bytes>,
    connection: &mut Option<OpenConnection>,
    in_flight: &mut InFlightState,
) -> InboundOutcome {
    let Ok(place) = incoming.reserve().await else {
        return InboundOutcome::Nobody;
    };
    let message = match (local_answers.pop_front(), connection) {
        (Some(message), _) => message,
        (None, None) => std::future::pending().await,
        (None, Some(connection)) => match connection.stream.next().await {
            StreamEvent::Lost => {
                return InboundOutcome::Loss("it has expired or was revoked".into());
            }
            StreamEvent::Reset(why) => return InboundOutcome::Loss(why),
            StreamEvent::Message(message) => match Envelope::read(&message) {
                Ok(envelope) => match in_flight.accept_incoming(&envelope) {
                    InboundAction::Pass => message,
                    InboundAction::Drop => return InboundOutcome::Message,
                    InboundAction::Answer(answer) => return InboundOutcome::Answered(answer),
                },
                // An unreadable message is passed on unchanged.
                Err(_) => message,
            },
        },
    };
    place.send(message);
    InboundOutcome::Message
}
