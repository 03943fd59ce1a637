//! `/v1/operator/…`: the whole cluster, for administrators among the callers. Any gateway answers
//! for all processes, by what they say of themselves in the store. For everybody else there is
//! nothing here.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse as _;
use baton_protocol::limits::echo;
use baton_protocol::{Inbound, PROTOCOL_VERSION};
use baton_session::audit::Decision;
use baton_session::id::{ConnectionId, SessionId};
use baton_session::report::DRAIN;
use baton_session::revocation::{Revocation, RevocationSubject};
use baton_session::token::{ConnectionToken, MAX_PRINCIPAL, TokenScope};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::message::{self, MessageCarrier, MessageSource};
use crate::access::PresentedToken;
use crate::app::App;
use crate::auth::Caller;
use crate::error::GatewayError;
use crate::http::headers;

const MAX_BODY: usize = 4 << 10;
/// How long a process that reports every few seconds has to hear of an order.
const ORDER_LASTS: Duration = Duration::from_secs(60);
const MAX_PROCESS: usize = 64;

/// Nobody else learns that there is anything.
fn administrator(app: &App, caller: &Caller) -> Result<(), GatewayError> {
    if caller.rights().admin || app.config.demo.is_some() {
        caller.count_request()
    } else {
        Err(GatewayError::NotFound)
    }
}

pub async fn cluster(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Result<Response<Body>, GatewayError> {
    administrator(&app, &caller)?;
    let reports = app.store.reports().await?;
    let processes = reports.iter().filter_map(|(process, report)| {
        let report: &RawValue = serde_json::from_slice(report).ok()?;
        Some(json!({ "process": process, "report": report }))
    });
    let processes: Vec<Value> = processes.collect();
    let mut agents = Vec::new();
    for (card, workers) in app.store.agents().await? {
        let waiting = app.store.waiting(&card.name).await?;
        agents.push(json!({
            "name": card.name, "version": card.version, "workers": workers, "waiting": waiting,
        }));
    }
    // A store that does not say is still one that works.
    let memory = app.store.memory().await.unwrap_or_default();
    let memory = memory
        .iter()
        .map(|of| json!({ "server": of.server, "used": of.used, "limit": of.limit }));
    let body = json!({
        "gateway": &*app.config.name,
        "processes": processes,
        "agents": agents,
        "memory": memory.collect::<Vec<_>>(),
        "revocations": app.store.revocations().await?.len(),
    });
    let kind = HeaderValue::from_static(headers::JSON);
    Ok(([(header::CONTENT_TYPE, kind)], body.to_string()).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DrainRequest {
    process: String,
}

pub async fn drain(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<StatusCode, GatewayError> {
    administrator(&app, &caller)?;
    let DrainRequest { process } = body(request).await?;
    let is_known =
        process.len() <= MAX_PROCESS && app.store.order(&process, DRAIN, ORDER_LASTS).await?;
    if !is_known {
        return Err(GatewayError::Operator("there is no such process"));
    }
    app.audit
        .record_done(&caller, None, || Decision::ProcessDrained {
            process: process.as_str().into(),
        });
    Ok(StatusCode::ACCEPTED)
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum RevokedThing {
    Session(String),
    Connection(String),
    Principal(String),
}

impl RevokedThing {
    fn subject(self) -> Option<RevocationSubject> {
        match self {
            Self::Session(id) => SessionId::parse(&id).map(RevocationSubject::Session),
            Self::Connection(id) => ConnectionId::parse(&id).map(RevocationSubject::Connection),
            Self::Principal(name) => {
                let fits = !name.is_empty()
                    && name.len() <= MAX_PRINCIPAL
                    && !name.chars().any(char::is_control);
                fits.then_some(RevocationSubject::Principal(name))
            }
        }
    }
}

pub async fn revoke(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<StatusCode, GatewayError> {
    administrator(&app, &caller)?;
    let thing: RevokedThing = body(request).await?;
    let subject = thing.subject();
    let subject = subject.ok_or(GatewayError::Operator("nothing that can be revoked"))?;
    let revocation = Revocation::at_once(subject);
    app.store.revoke(&revocation).await?;
    tracing::info!(subject = %revocation.subject, "revoked");
    app.audit.record_done(&caller, None, || Decision::Revoked {
        subject: revocation.subject.to_string().into(),
    });
    app.issuer.revocations.add(revocation);
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CloseRequest {
    session: String,
    /// Its owner.
    caller: String,
}

/// As its owner would, on the same way.
pub async fn close(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<StatusCode, GatewayError> {
    administrator(&app, &caller)?;
    let CloseRequest {
        session,
        caller: owner,
    } = body(request).await?;
    let session = SessionId::parse(&session).ok_or(GatewayError::NoSession)?;
    if app.store.record(&session, &owner).await?.is_none() {
        return Err(GatewayError::NoSession);
    }
    let grant = app.issuer.grant(&session, &owner, TokenScope::Control);
    let connection = ConnectionToken {
        id: ConnectionId::mint(session.partition()),
        principal: owner.clone(),
        protocol_version: PROTOCOL_VERSION,
        client: Default::default(),
        agent: None,
        rights: None,
        issued: grant.issued,
        expires: grant.expires,
    };
    let grant = PresentedToken::Valid(Box::new(grant));
    let closing = json!({
        "jsonrpc": "2.0", "id": "close", "method": "session/close",
        "params": { "sessionId": session },
    });
    let closing = Bytes::from(closing.to_string());
    let mut inbound = Inbound::read(closing).map_err(GatewayError::from)?;
    let source = MessageSource {
        caller: &Caller::new(owner.into(), None),
        agent: None,
        over_bytes: None,
        carrier: MessageCarrier::Socket {
            connection: &connection,
            grant: &grant,
        },
    };
    message::handle(&app, source, &mut inbound).await?;
    app.audit
        .record_done(&caller, None, || Decision::SessionClosed { session });
    Ok(StatusCode::ACCEPTED)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KillRequest {
    session: String,
}

/// Of a demonstration: kill -9 for the worker that holds this session.
pub async fn kill(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response<Body>, GatewayError> {
    let killer = app.config.demo.as_ref().ok_or(GatewayError::NotFound)?;
    caller.count_request()?;
    let KillRequest { session } = body(request).await?;
    let session = SessionId::parse(&session).ok_or(GatewayError::NoSession)?;
    let worker = app.store.worker_of(&session, &caller.principal).await?;
    let worker = worker.ok_or(GatewayError::Operator("no worker holds this session now"))?;
    if !(killer.0)(&worker.0) {
        return Err(GatewayError::Operator(
            "that worker is none of this demonstration",
        ));
    }
    let kind = HeaderValue::from_static(headers::JSON);
    let body = json!({ "worker": worker.0 }).to_string();
    Ok(([(header::CONTENT_TYPE, kind)], body).into_response())
}

async fn body<T: DeserializeOwned>(request: Request) -> Result<T, GatewayError> {
    headers::require(request.headers(), headers::JSON)?;
    let body = to_bytes(request.into_body(), MAX_BODY).await;
    let body = body.map_err(|_| GatewayError::TooLarge)?;
    serde_json::from_slice(&body).map_err(|error| GatewayError::NotJson(echo(&error.to_string())))
}
