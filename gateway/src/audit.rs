//! The gateway's lines in the audit log.

use std::net::IpAddr;

use axum::extract::{MatchedPath, Request};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use baton_protocol::{ErrorCode, PROTOCOL_VERSION};
use baton_session::audit::{AuditActor, AuditLog, Decision, DecisionOutcome};
use baton_session::id::ConnectionId;
use baton_session::token::ConnectionToken;
use baton_session::trace::TraceContext;

use crate::auth::Caller;
use crate::error::RefusalReason;
use crate::http::paths;
use crate::net::peer::ClientPeer;
use crate::trace::{self, TraceSampling};

/// Writes decisions and refusals, each with its actor.
#[derive(Clone)]
pub struct AuditTrail {
    pub log: AuditLog,
    /// An entry names the trace that it belongs to.
    pub traces: TraceSampling,
}

impl AuditTrail {
    /// A decision that was carried out.
    pub fn record_done(
        &self,
        caller: &Caller,
        connection: Option<&ConnectionId>,
        decision: impl FnOnce() -> Decision,
    ) {
        self.record_outcome(caller, connection, DecisionOutcome::Done, decision);
    }

    pub fn record_outcome(
        &self,
        caller: &Caller,
        connection: Option<&ConnectionId>,
        outcome: DecisionOutcome,
        decision: impl FnOnce() -> Decision,
    ) {
        if self.log.is_on() {
            let actor = self.actor(Some(caller), connection);
            self.log.record(&decision(), outcome, &actor);
        }
    }

    fn actor(&self, caller: Option<&Caller>, connection: Option<&ConnectionId>) -> AuditActor {
        let trace = TraceContext::of(&trace::current(self.traces));
        let credential = caller.map(|caller| caller.credential.name.as_str());
        AuditActor {
            principal: caller.map(|caller| (&*caller.principal).into()),
            address: caller.and_then(|caller| caller.address),
            credential: credential.filter(|name| !name.is_empty()).map(Into::into),
            connection: connection.cloned(),
            trace: trace.and_then(|trace| Some(trace.place()?.0.into())),
        }
    }

    /// To be called before anything may refuse the request. `None` if the audit log is off.
    pub fn watch(&self, request: &Request) -> Option<AuditedRequest> {
        if !self.log.is_on() {
            return None;
        }
        let extensions = request.extensions();
        let peer = extensions.get::<ClientPeer>();
        Some(AuditedRequest {
            method: request.method().clone(),
            route: extensions.get().cloned(),
            address: peer.map(|peer| peer.address),
        })
    }

    /// Records the answer if it is a refusal. The path of a request may contain anything, secrets
    /// included, so only the route is recorded.
    pub fn record_refusal(&self, request: Option<AuditedRequest>, response: &Response) {
        let (Some(request), Some(RefusalReason(reason))) = (request, response.extensions().get())
        else {
            return;
        };
        let status = response.status();
        if !status.is_client_error() || status == StatusCode::METHOD_NOT_ALLOWED {
            return;
        }
        let route = request.route.as_ref().map_or("", MatchedPath::as_str);
        let decision = |skipped| Decision::Refused {
            status: status.as_u16(),
            reason: (*reason).into(),
            method: trace::method(&request.method).into(),
            path: route.into(),
            skipped,
        };
        let actor = || AuditActor {
            address: request.address,
            ..self.actor(response.extensions().get(), None)
        };
        self.log.refused(decision, actor);
    }

    /// Records a message that was answered with an error which says that this caller may not.
    pub fn refused_message(
        &self,
        caller: &Caller,
        connection: &ConnectionToken,
        method: Option<baton_protocol::Method>,
        code: ErrorCode,
    ) {
        let reason = match code {
            ErrorCode::ObserveOnly => "observe_only",
            ErrorCode::ResourceNotFound => "no_such_session",
            ErrorCode::NoAgent => "no_such_agent",
            ErrorCode::LimitReached => "limit",
            _ => return,
        };
        let decision = |skipped| Decision::Refused {
            status: 0,
            reason: reason.into(),
            method: method
                .unwrap_or(baton_protocol::Method::Unknown)
                .label()
                .into(),
            path: if connection.protocol_version == PROTOCOL_VERSION {
                paths::ACP.into()
            } else {
                paths::MCP.into()
            },
            skipped,
        };
        let actor = || self.actor(Some(caller), Some(&connection.id));
        self.log.refused(decision, actor);
    }
}

/// A request under way, as far as a line about its refusal needs it.
pub struct AuditedRequest {
    method: Method,
    route: Option<MatchedPath>,
    address: Option<IpAddr>,
}
