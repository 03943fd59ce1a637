//! The administration interface, on a listener of its own: see `listener.rs` for how administrators
//! are recognised.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Extension, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use axum::{Router, middleware};
use baton_session::audit::{AuditActor, Decision, DecisionOutcome};
use baton_session::id::{ConnectionId, SessionId};
use baton_session::revocation::{Revocation, RevocationSubject};
use serde::Deserialize;
use serde_json::{Value, json};

use self::backup::BackupService;
pub use self::backup::DIRECTORY;
use self::listener::AdminPeer;
pub use self::listener::{AdminListener, AdminSecret, AdminSocket, MIN_SECRET};
use crate::app::App;
use crate::error::GatewayError;
use crate::handlers::probe;
use crate::http::hardening::harden;
use crate::http::headers;
use crate::middleware::{check_origin, preflight};
use crate::trace;

mod backup;
mod listener;

const MAX_BODY: usize = 16 << 10;
const MAX_PRINCIPAL: usize = 256;

/// Serves until the gateway stops.
pub async fn serve(listener: AdminListener, app: Arc<App>) -> std::io::Result<()> {
    let stop = app.stop.clone().cancelled_owned();
    let router = router(app, listener.secret, BackupService::of(listener.files));
    match listener.socket {
        AdminSocket::Tcp(listener) => {
            let served = axum::serve(listener, router);
            served.with_graceful_shutdown(stop).await
        }
        AdminSocket::Unix(listener, path) => {
            let service = router.into_make_service_with_connect_info::<AdminPeer>();
            let served = axum::serve(listener, service);
            let served = served.with_graceful_shutdown(stop).await;
            let _ = std::fs::remove_file(path);
            served
        }
    }
}

fn router(app: Arc<App>, secret: Option<AdminSecret>, backups: BackupService) -> Router {
    let revocations = get(list)
        .post(revoke)
        .fallback(|| async { GatewayError::Method });
    let backup = get(backup::take).fallback(|| async { GatewayError::Method });
    Router::new()
        .route("/revocations", revocations)
        .route("/backup", backup.layer(Extension(backups)))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        // Pages that the operator's browser shows are not the operator.
        .layer(middleware::from_fn_with_state(app.clone(), checked_origin))
        .layer(middleware::from_fn_with_state(
            (app.clone(), secret),
            check_administrator,
        ))
        .route("/healthz", get(probe::healthz))
        .fallback(any(|| async { GatewayError::NothingToAdminister }))
        .layer(middleware::map_response(hardened))
        .with_state(app)
}

/// Nobody is told more than that it is not for them. The audit log tells of it as of other
/// refusals, not of each.
async fn check_administrator(
    State((app, secret)): State<(Arc<App>, Option<AdminSecret>)>,
    request: Request,
    next: Next,
) -> Response {
    let peer = request.extensions().get::<ConnectInfo<AdminPeer>>();
    let is_agent = peer.is_some_and(|ConnectInfo(peer)| peer.is_an_agent());
    let brings = |secret: AdminSecret| secret.is_presented(request.headers());
    if is_agent || !secret.is_none_or(brings) {
        let audited = app.audit.watch(&request);
        let response = GatewayError::NoAdministrator.into_response();
        app.audit.record_refusal(audited, &response);
        return response;
    }
    next.run(request).await
}

async fn checked_origin(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let response = from_allowed_page(&app, request, next).await;
    let status = response.status();
    let outcome = if status.is_success() {
        DecisionOutcome::Done
    } else {
        DecisionOutcome::Refused
    };
    let decision = Decision::AdminCall {
        method: trace::method(&method).into(),
        path: uri.path().into(),
        status: status.as_u16(),
    };
    app.config
        .audit
        .record(&decision, outcome, &AuditActor::default());
    response
}

async fn from_allowed_page(app: &App, request: Request, next: Next) -> Response {
    let page = match check_origin(app, &request) {
        Ok(page) => page,
        Err(error) => return error.into_response(),
    };
    let mut response = match preflight(app, page.as_ref(), &request) {
        Some(answer) => answer,
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    app.config.origins.stamp(page.as_ref(), headers);
    response
}

async fn hardened(mut response: Response) -> Response {
    harden(response.headers_mut(), false);
    response
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum RevocationTarget {
    Session(String),
    Connection(String),
    Principal(String),
}

impl RevocationTarget {
    fn subject(self, app: &App) -> Result<RevocationSubject, &'static str> {
        match self {
            Self::Session(id) => SessionId::parse(&id)
                .map(RevocationSubject::Session)
                .ok_or("not a session id"),
            Self::Connection(name) => ConnectionId::parse(&name)
                .or_else(|| {
                    app.issuer
                        .keys
                        .ring()
                        .verify_connection(&name)
                        .ok()
                        .map(|token| token.id)
                })
                .map(RevocationSubject::Connection)
                .ok_or("neither a connection id nor a valid connection token"),
            Self::Principal(name) => {
                let fits = !name.is_empty()
                    && name.len() <= MAX_PRINCIPAL
                    && !name.chars().any(char::is_control);
                fits.then_some(RevocationSubject::Principal(name))
                    .ok_or("a principal has 1 to 256 bytes without control characters")
            }
        }
    }
}

async fn revoke(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<StatusCode, GatewayError> {
    // A web page cannot send this content type without a preflight.
    if !headers::is_json(&headers) {
        return Err(GatewayError::ContentType(headers::JSON));
    }
    let named: RevocationTarget = serde_json::from_slice(&body).map_err(|_| {
        GatewayError::Revocation(
            "send one of {\"session\": ID}, {\"connection\": ID or token} and {\"principal\": \
             NAME}",
        )
    })?;
    let subject = named.subject(&app).map_err(GatewayError::Revocation)?;
    let revocation = Revocation::at_once(subject);
    app.store.revoke(&revocation).await?;
    tracing::info!(subject = %revocation.subject, "revoked");
    let decision = Decision::Revoked {
        subject: revocation.subject.to_string().into(),
    };
    let who = AuditActor::default();
    app.config
        .audit
        .record(&decision, DecisionOutcome::Done, &who);
    app.issuer.revocations.add(revocation);
    Ok(StatusCode::NO_CONTENT)
}

async fn list(State(app): State<Arc<App>>) -> Result<impl IntoResponse, GatewayError> {
    let all = app.store.revocations().await?;
    let all: Vec<Value> = all.iter().map(shown).collect();
    let body = json!({ "revocations": all }).to_string();
    Ok(([(header::CONTENT_TYPE, "application/json")], body))
}

fn shown(revocation: &Revocation) -> Value {
    let mut shown = match &revocation.subject {
        RevocationSubject::Session(id) => json!({ "session": id }),
        RevocationSubject::Connection(id) => json!({ "connection": id }),
        RevocationSubject::Principal(name) => json!({ "principal": name }),
        RevocationSubject::Family { family, below } => json!({ "family": family, "below": below }),
        RevocationSubject::Logins(name) => json!({ "logins": name }),
        RevocationSubject::Everybody => json!({ "everybody": true }),
    };
    shown["before"] = json!(revocation.before);
    shown["from"] = json!(revocation.from);
    shown["until"] = json!(revocation.until);
    shown
}
