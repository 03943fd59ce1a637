//! Replaces a connection that is over: expired after a day, revoked, or with a stream that lost its
//! position. Sessions outlive connections, so they are resumed. Requests of the old connection are
//! answered only there, so their callers get an error.

use std::time::Duration;

use baton_protocol::compose::{self, error};
use baton_protocol::{ErrorCode, Method};
use bytes::Bytes;
use serde_json::json;

use crate::in_flight::{InFlightState, UnansweredRequest};

/// Messages that have all sessions followed on the new connection, without their histories.
pub fn resumes(in_flight: &InFlightState) -> Vec<Bytes> {
    let sessions = in_flight.sessions().iter().zip(1..);
    let messages = sessions.map(|((session, cwd), number)| {
        let params = json!({ "sessionId": session, "cwd": cwd });
        let id = format!("baton/resume/{number}");
        compose::request(id, Method::ResumeSession.name(), params)
    });
    messages.collect()
}

/// For a request that was made on a connection that is over.
pub fn interrupted(request: &UnansweredRequest, why: &str) -> Bytes {
    let state = if request.accepted {
        "The request was accepted before that and may still be carried out, but its answer cannot \
         be had. What the agent says from now on is shown; load the session to see all of it. \
         Before you send it again, look whether it was done"
    } else {
        "The request may have been accepted before that: before you send it again, look whether it \
         was done"
    };
    let text = format!("the connection to Baton had to be replaced: {why}. {state}");
    error(&request.id, ErrorCode::ConnectionReplaced, &text)
}

/// For a request while the server is away for too long.
pub fn unreachable(request: &UnansweredRequest, away: Duration, why: &str) -> Bytes {
    let state = if request.accepted {
        "The request was accepted before that and may still be carried out; what the agent says is \
         shown when Baton is back. Before you send it again, look whether it was done"
    } else {
        "The request may have arrived. When Baton is back, look whether it was done, or send it \
         again"
    };
    let away = humantime::format_duration(Duration::from_secs(away.as_secs()));
    let text = format!("Baton could not be reached for {away}: {why}. {state}");
    error(&request.id, ErrorCode::Unreachable, &text)
}
