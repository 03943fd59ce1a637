//! The state that a new connection has to know about: requests without an answer, requests of the
//! agent, and open sessions.

use std::collections::{BTreeMap, HashMap};

use baton_protocol::envelope::MessageKind;
use baton_protocol::method::SessionEffect;
use baton_protocol::{Envelope, Method};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::agent_requests::{AgentRequests, RequestStatus};

#[derive(Default)]
pub struct InFlightState {
    /// By their ids, as they were written.
    requests: HashMap<String, PendingRequest>,
    agent_requests: AgentRequests,
    /// With their working directories.
    sessions: BTreeMap<String, String>,
}

struct PendingRequest {
    method: Method,
    about: About,
    /// The server has it.
    accepted: bool,
    /// The driver's own request, not the user's.
    own: bool,
}

/// A request that will not be answered.
pub struct UnansweredRequest {
    pub id: String,
    /// The server has it, and may carry it out.
    pub accepted: bool,
}

/// How the driver handles a message from the server.
#[derive(Debug, PartialEq, Eq)]
pub enum InboundAction {
    Pass,
    Drop,
    /// The answer is known; it is sent without asking the user.
    Answer(Bytes),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CancelParams {
    request_id: Box<RawValue>,
}

/// The fields of params and results that a client follows.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct About {
    session_id: Option<String>,
    cwd: Option<String>,
}

/// Nothing, if it is of another shape: the server says what is wrong with it.
fn about(part: Option<&RawValue>) -> About {
    let read = part.and_then(|part| serde_json::from_str(part.get()).ok());
    read.unwrap_or_default()
}

impl InFlightState {
    /// Records a message to the server.
    pub fn record_outgoing(&mut self, message: &Bytes, envelope: &Envelope, own: bool) {
        match envelope.kind() {
            MessageKind::Request(id) => {
                let request = PendingRequest {
                    method: Method::of(envelope.method.as_deref().unwrap_or_default()),
                    about: about(envelope.params),
                    accepted: false,
                    own,
                };
                self.requests.insert(id.to_owned(), request);
            }
            MessageKind::Answer(id) => self.agent_requests.answered(id, message),
            MessageKind::Notification => {}
        }
    }

    /// Records a message from the server. Answers to abandoned requests are dropped, and an agent's
    /// request is shown once.
    pub fn accept_incoming(&mut self, envelope: &Envelope) -> InboundAction {
        let passes = match envelope.kind() {
            MessageKind::Answer("null") => true,
            MessageKind::Answer(id) => match self.requests.remove(id) {
                Some(request) => self.answered(&request, envelope),
                None => false,
            },
            MessageKind::Request(id) => match self.agent_requests.asked(id) {
                RequestStatus::New => true,
                RequestStatus::Open => false,
                RequestStatus::Answered(answer) => return InboundAction::Answer(answer),
            },
            MessageKind::Notification if envelope.is(Method::CancelRequest) => {
                let named = serde_json::from_str::<CancelParams>(envelope.params().get());
                if let Ok(named) = named {
                    self.agent_requests.withdrawn(named.request_id.get());
                }
                true
            }
            MessageKind::Notification => true,
        };
        if passes {
            InboundAction::Pass
        } else {
            InboundAction::Drop
        }
    }

    fn answered(&mut self, request: &PendingRequest, answer: &Envelope) -> bool {
        let About { session_id, cwd } = &request.about;
        if answer.error.is_some() {
            if let (true, Some(session)) = (request.own, session_id) {
                let why = answer.error.map_or("", |error| error.get());
                tracing::error!(session.id = session, why, "a session could not be resumed");
                self.sessions.remove(session);
            }
            return !request.own;
        }
        let opened = match request.method.rules().effect {
            SessionEffect::Creates => about(answer.result).session_id,
            SessionEffect::Opens => session_id.clone(),
            SessionEffect::Ends => {
                session_id
                    .as_ref()
                    .map(|session| self.sessions.remove(session));
                None
            }
            SessionEffect::None => None,
        };
        if let (Some(session), Some(cwd)) = (opened, cwd) {
            self.sessions.insert(session, cwd.clone());
        }
        !request.own
    }

    pub fn accepted(&mut self, id: &str) {
        if let Some(request) = self.requests.get_mut(id) {
            request.accepted = true;
        }
    }

    /// Whether there are requests that a new connection would lose.
    pub fn has_open_requests(&self) -> bool {
        !self.requests.is_empty() || self.agent_requests.are_open()
    }

    /// Whether the user waits for an accepted request.
    pub fn awaits_answer(&self) -> bool {
        let mut requests = self.requests.values();
        requests.any(|request| request.accepted && !request.own)
    }

    /// Removes a request; `None` if nobody waits for it.
    pub fn take_unanswered(&mut self, id: &str) -> Option<UnansweredRequest> {
        let request = self.requests.remove(id)?;
        (!request.own).then(|| UnansweredRequest {
            id: id.to_owned(),
            accepted: request.accepted,
        })
    }

    /// Removes all requests that the server has accepted.
    pub fn take_accepted(&mut self) -> Vec<UnansweredRequest> {
        let accepted = self.requests.iter().filter(|(_, request)| request.accepted);
        let ids: Vec<String> = accepted.map(|(id, _)| id.clone()).collect();
        ids.iter()
            .filter_map(|id| self.take_unanswered(id))
            .collect()
    }

    pub fn sessions(&self) -> &BTreeMap<String, String> {
        &self.sessions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sends(in_flight: &mut InFlightState, text: &str) {
        let message = Bytes::copy_from_slice(text.as_bytes());
        in_flight.record_outgoing(&message, &Envelope::read(&message).unwrap(), false);
    }

    fn hears(in_flight: &mut InFlightState, text: &str) -> bool {
        in_flight.accept_incoming(&Envelope::read(text.as_bytes()).unwrap()) == InboundAction::Pass
    }

    #[test]
    fn sessions_are_those_that_were_opened_and_not_closed() {
        let mut in_flight = InFlightState::default();
        sends(
            &mut in_flight,
            r#"{"id":1,"method":"session/new","params":{"cwd":"/a"}}"#,
        );
        assert!(in_flight.sessions().is_empty());
        assert!(hears(
            &mut in_flight,
            r#"{"id":1,"result":{"sessionId":"s1"}}"#
        ));
        sends(
            &mut in_flight,
            r#"{"id":2,"method":"session/load","params":{"sessionId":"s2","cwd":"/b"}}"#,
        );
        assert!(hears(&mut in_flight, r#"{"id":2,"result":{}}"#));
        sends(
            &mut in_flight,
            r#"{"id":3,"method":"session/load","params":{"sessionId":"s3","cwd":"/c"}}"#,
        );
        assert!(hears(
            &mut in_flight,
            r#"{"id":3,"error":{"code":-32002,"message":"none"}}"#
        ));
        let open: Vec<&String> = in_flight.sessions().values().collect();
        assert_eq!(open, ["/a", "/b"]);
        sends(
            &mut in_flight,
            r#"{"id":4,"method":"session/close","params":{"sessionId":"s1"}}"#,
        );
        assert!(hears(&mut in_flight, r#"{"id":4,"result":{}}"#));
        assert_eq!(in_flight.sessions().len(), 1);
        assert!(!in_flight.has_open_requests());
    }

    #[test]
    fn an_answer_that_nobody_waits_for_stays_here() {
        let mut in_flight = InFlightState::default();
        sends(&mut in_flight, r#"{"id":"a","method":"session/prompt"}"#);
        in_flight.accepted("\"a\"");
        let struck = in_flight.take_accepted();
        assert_eq!((struck.len(), struck[0].accepted), (1, true));
        assert!(!hears(&mut in_flight, r#"{"id":"a","result":{}}"#));
        assert!(hears(&mut in_flight, r#"{"id":null,"error":{}}"#));
    }

    #[test]
    fn a_question_is_asked_once() {
        let mut in_flight = InFlightState::default();
        let question = r#"{"id":"s:1","method":"session/request_permission","params":{}}"#;
        assert!(hears(&mut in_flight, question));
        assert!(!hears(&mut in_flight, question));
        assert!(in_flight.has_open_requests());
        let answer = r#"{"id":"s:1","result":{}}"#;
        sends(&mut in_flight, answer);
        assert!(!in_flight.has_open_requests());
        let again = in_flight.accept_incoming(&Envelope::read(question.as_bytes()).unwrap());
        assert_eq!(again, InboundAction::Answer(answer.into()));
        let cancel = r#"{"method":"$/cancel_request","params":{"requestId":"s:1"}}"#;
        assert!(hears(&mut in_flight, cancel));
        assert!(hears(&mut in_flight, question));
    }
}
