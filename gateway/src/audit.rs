//! The gateway's lines in the audit log.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::{Method, StatusCode, Uri};
use axum::response::Response;
use baton_protocol::ErrorCode;
use baton_session::audit::{AuditActor, Decision, DecisionOutcome};
use baton_session::id::ConnectionId;
use baton_session::trace::TraceContext;

use crate::app::App;
use crate::auth::Caller;
use crate::error::RefusalReason;
use crate::net::peer::ClientPeer;
use crate::trace;

/// A decision that was carried out.
pub fn record_done(
    app: &App,
    caller: &Caller,
    connection: Option<&ConnectionId>,
    decision: impl FnOnce() -> Decision,
) {
    record_outcome(app, caller, connection, DecisionOutcome::Done, decision);
}

pub fn record_outcome(
    app: &App,
    caller: &Caller,
    connection: Option<&ConnectionId>,
    outcome: DecisionOutcome,
    decision: impl FnOnce() -> Decision,
) {
    let audit = &app.config.audit;
    if audit.is_on() {
        audit.record(&decision(), outcome, &actor(app, Some(caller), connection));
    }
}

fn actor(app: &App, caller: Option<&Caller>, connection: Option<&ConnectionId>) -> AuditActor {
    let trace = TraceContext::of(&trace::current(app));
    let credential = caller.map(|caller| caller.credential.name.as_str());
    AuditActor {
        principal: caller.map(|caller| (&*caller.principal).into()),
        address: caller.and_then(|caller| caller.address),
        credential: credential.filter(|name| !name.is_empty()).map(Into::into),
        connection: connection.cloned(),
        trace: trace.and_then(|trace| Some(trace.place()?.0.into())),
    }
}

/// Logs a request that was refused. Its path may contain anything, secrets included, so only the
/// route is logged.
pub async fn record_refusals(
    app: &App,
    request: Request,
    next: impl AsyncFnOnce(Request) -> Response,
) -> Response {
    if !app.config.audit.is_on() {
        return next(request).await;
    }
    let peer = request.extensions().get::<ClientPeer>();
    let asking = AuditedRequest {
        method: request.method().clone(),
        uri: request.uri().clone(),
        address: peer.map(|peer| peer.address),
    };
    let response = next(request).await;
    asking.answered(app, &response);
    response
}

/// A request that is on its way, as far as a refusal would tell of it.
struct AuditedRequest {
    method: Method,
    uri: Uri,
    address: Option<IpAddr>,
}

impl AuditedRequest {
    fn answered(&self, app: &App, response: &Response) {
        let Some(RefusalReason(reason)) = response.extensions().get() else {
            return;
        };
        let status = response.status();
        if !status.is_client_error() || status == StatusCode::METHOD_NOT_ALLOWED {
            return;
        }
        let decision = |skipped| Decision::Refused {
            status: status.as_u16(),
            reason: (*reason).into(),
            method: trace::method(&self.method).into(),
            path: trace::route(self.uri.path()).into(),
            skipped,
        };
        let actor = || AuditActor {
            address: self.address,
            ..actor(app, response.extensions().get(), None)
        };
        app.config.audit.refused(decision, actor);
    }
}

/// A message that was answered with one of those errors that say: not you.
pub fn refused_message(
    app: &App,
    caller: &Caller,
    connection: &ConnectionId,
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
        path: "/acp".into(),
        skipped,
    };
    let actor = || actor(app, Some(caller), Some(connection));
    app.config.audit.refused(decision, actor);
}
