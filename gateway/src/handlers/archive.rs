//! Sessions that move between clusters: `GET /v1/sessions/ID/export`, `POST /v1/sessions/import`.
//!
//! An archive is in its caller's hands, who may write anything into it. Its id, the agent's state
//! and its bindings, which refer to things beyond the session, count only if this caller has
//! exported them so: see `token/archive.rs`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Path, Query, State};
use axum::http::{HeaderMap, Response, StatusCode, header};
use axum::response::IntoResponse;
use baton_protocol::limits;
use baton_session::archive::{self, LineDigest};
use baton_session::audit::Decision;
use baton_session::clock::unix_millis;
use baton_session::field;
use baton_session::id::{LogId, SessionId};
use baton_session::store;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use serde_json::json;

use self::histories::HistoryWish;
use self::import::{BoundFields, SessionImport};
use self::lines::BodyLines;
use crate::app::App;
use crate::auth::Caller;
use crate::error::GatewayError;
use crate::http::headers;
use crate::limits::StorageBudget;

mod histories;
mod import;
mod lines;
#[cfg(test)]
mod tests;

/// Frames per read; a slow reader holds no more than this.
const PAGE: usize = 64;
const CONTENT_TYPE: &str = "application/x-ndjson";

/// An export under way. Its seal is made of what was sent.
struct SessionExport {
    session: SessionId,
    principal: Arc<str>,
    head: u64,
    next: u64,
    digest: LineDigest,
    sealed: bool,
}

pub async fn export(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response<Body>, GatewayError> {
    let permit = match &caller.allowance {
        Some(allowance) => {
            allowance.request().map_or(Ok(()), Err)?;
            allowance.stream(|| None)?
        }
        None => None,
    };
    let permit = permit.map(Arc::new);
    // An archive can be taken in elsewhere.
    caller.require_control()?;
    let session = SessionId::parse(&id).ok_or(GatewayError::NoSession)?;
    let record = app.store.record(&session, &caller.principal).await?;
    let record = record.filter(|record| caller.rights().allow(&record.agent));
    let record = record.ok_or(GatewayError::NoSession)?;
    app.audit
        .record_done(&caller, None, || Decision::SessionExported {
            session: session.clone(),
        });
    let seal = app
        .issuer
        .keys
        .ring()
        .seal_head(&session, &caller.principal);
    let first = Bytes::from(archive::header(&session, &record, seal));
    let mut export = SessionExport {
        session,
        principal: caller.principal.clone(),
        head: record.head,
        next: 1,
        digest: LineDigest::default(),
        sealed: false,
    };
    export.digest.add(&first);
    let lines = stream::try_unfold(export, move |mut export| {
        // Held as long as there is something to read.
        let (app, held) = (app.clone(), permit.clone());
        async move {
            let _held = held;
            let lines = export.lines(&app).await?;
            Ok::<_, store::Error>(lines.map(|lines| (lines, export)))
        }
    });
    let body = stream::once(async { Ok(first) }).chain(lines);
    let headers = [(header::CONTENT_TYPE, CONTENT_TYPE)];
    Ok((headers, Body::from_stream(body)).into_response())
}

impl SessionExport {
    /// The next of them; the last is the seal.
    async fn lines(&mut self, app: &App) -> store::Result<Option<Bytes>> {
        if self.sealed {
            return Ok(None);
        }
        if self.next > self.head {
            self.sealed = true;
            let digest = std::mem::take(&mut self.digest).text();
            let ring = app.issuer.keys.ring();
            let seal = ring.seal_end(&self.session, &self.principal, &digest);
            return Ok(Some(archive::end(seal).into()));
        }
        let log = LogId::Session(self.session.clone());
        let frames = app.store.read(&log, self.next, PAGE).await?;
        let events = frames.iter().flat_map(|frame| frame.numbered());
        let (mut lines, wanted) = (String::new(), self.next..=self.head);
        let mut after = self.next;
        for (seq, event) in events.filter(|(seq, _)| wanted.contains(seq)) {
            after = seq + 1;
            lines.extend(archive::line(seq, event));
        }
        if after == self.next {
            // Better a body that breaks off than one that looks complete.
            let reason = format!("event {after} is missing");
            return Err(store::Error::Broken(reason));
        }
        self.next = after;
        self.digest.add(lines.as_bytes());
        Ok(Some(lines.into()))
    }
}

pub async fn import(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    wish: Result<Query<HistoryWish>, QueryRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response<Body>, GatewayError> {
    let reservation = app.inflight.of(&caller.principal);
    let mut lines = BodyLines::new(body, caller.allowance.clone(), reservation);
    let taken = if headers::is_type(&headers, baton_histories::CONTENT_TYPE) {
        histories::take_in(&app, &caller, wish, &mut lines).await
    } else {
        take_in(&app, &caller, &headers, &mut lines).await
    };
    if taken.is_err() {
        lines.discard();
    }
    taken
}

async fn take_in(
    app: &App,
    caller: &Caller,
    headers: &HeaderMap,
    lines: &mut BodyLines,
) -> Result<Response<Body>, GatewayError> {
    caller.require_control()?;
    headers::require(headers, CONTENT_TYPE)?;
    if !app.store.has_room().await? {
        return Err(GatewayError::StoreFull);
    }
    let allowance = &caller.allowance;
    let (mut budget, mut _admitted) = (StorageBudget::default(), None);
    if let Some(allowance) = allowance {
        allowance.request().map_or(Ok(()), Err)?;
        budget = allowance.storage(&*app.store).await??;
        _admitted = allowance.session(&*app.store).await??;
    }
    let first = lines.next().await?;
    let first = first.ok_or_else(|| GatewayError::Archive("the body is empty".into()))?;
    let mut head = archive::read_header(&first).map_err(unreadable)?;
    let lengths = field::check_record(&head.record);
    lengths.map_err(|fault| GatewayError::Archive(format!("line 1: {fault}")))?;
    if !caller.rights().allow(&head.record.agent) {
        let agent = &head.record.agent;
        let text = format!("no worker has registered the agent {agent:?}");
        return Err(GatewayError::Archive(text));
    }
    // A list has nothing from the future.
    head.record.updated = head.record.updated.min(unix_millis());
    let bound_fields = BoundFields::take(&mut head.record);
    let (named, principal) = (head.session, &caller.principal);
    // The same keys for both seals, whatever becomes of them meanwhile.
    let ring = app.issuer.keys.ring();
    let signed = head
        .seal
        .as_ref()
        .is_some_and(|seal| ring.check_head(seal, &named, principal).is_ok());
    let (events, agent) = (head.record.head, head.record.agent.clone());
    let name = signed.then_some(&named);
    let mut import = SessionImport::begin(app, caller, &named, name, head.record).await?;
    let mut taken = first.len() as u64;
    for seq in 1..=events {
        let line = lines.next().await?.ok_or_else(|| cut_short(seq))?;
        taken += line.len() as u64;
        budget.take(taken)?;
        let event = archive::read_line(seq, &line).map_err(unreadable)?;
        import.add(event, line.len()).await?;
    }
    if head.seal.is_some() {
        let digest = lines.digest().text();
        let end = lines.next().await?.ok_or_else(unsealed)?;
        let seal = archive::read_end(events, &end).map_err(unreadable)?;
        let good = ring.check_end(&seal, &named, principal, &digest);
        if signed && good.is_err() {
            return Err(changed());
        }
    }
    while let Some(line) = lines.next().await? {
        if !line.trim_ascii().is_empty() {
            return Err(GatewayError::Archive(
                "there is more than one session in it".into(),
            ));
        }
    }
    let dropped = if signed {
        Vec::new()
    } else {
        bound_fields.names()
    };
    let session = import.finish(signed.then_some(bound_fields)).await?;
    app.audit
        .record_done(caller, None, || Decision::SessionImported {
            session: session.clone(),
            agent: agent.into(),
        });
    let answer = json!({ "sessionId": session, "signed": signed, "dropped": dropped });
    let headers = [(header::CONTENT_TYPE, "application/json")];
    Ok((StatusCode::CREATED, headers, answer.to_string()).into_response())
}

fn cut_short(seq: u64) -> GatewayError {
    GatewayError::Archive(format!("the body is cut short: event {seq} is missing"))
}

fn unsealed() -> GatewayError {
    GatewayError::Archive("the body is cut short: its seal is missing".into())
}

fn changed() -> GatewayError {
    let text = "it is not what was signed: export it again, or take \"seal\" out of its first line \
        and its last line away; it then comes without the agent's state and without what is bound \
        to it";
    GatewayError::Archive(text.into())
}

fn unreadable(error: archive::ArchiveError) -> GatewayError {
    GatewayError::Archive(limits::shorten(error.to_string()))
}
