//! Sessions that move between clusters: `GET /v1/sessions/ID/export`, `POST /v1/sessions/import`.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::extract::{Extension, Path, State};
use axum::http::{Response, StatusCode, header};
use axum::response::IntoResponse;
use baton_session::archive;
use baton_session::clock::unix_millis;
use baton_session::event::{Event, readdress};
use baton_session::id::{LogId, Nonce, Partition, SessionId, random_text};
use baton_session::store::{
    self, Adoption, Append, Appended, ClaimToken, Claimant, Record, WorkerId,
};
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt as _, stream};
use serde_json::json;
use tokio::time::Instant;

use super::post::MAX_BODY;
use crate::app::App;
use crate::auth::Caller;
use crate::body;
use crate::edge;
use crate::error::Reject;
use crate::limits::{Allowance, Reservation};

/// Frames per read; a slow reader holds no more than this.
const PAGE: usize = 64;
/// What is written in one step.
const BATCH_BYTES: usize = 256 << 10;
/// What an event takes beside its line, about.
const PER_EVENT: usize = 256;
/// Lines up to this size are not counted by the bytes that are being received.
const PORTION: usize = 64 << 10;
const LEASE: Duration = Duration::from_secs(30);

pub async fn export(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response<Body>, Reject> {
    let permit = match &caller.allowance {
        Some(allowance) => {
            allowance.request().map_or(Ok(()), Err)?;
            allowance.stream(|| None)?
        }
        None => None,
    };
    let permit = permit.map(Arc::new);
    let session = SessionId::parse(&id).ok_or(Reject::NoSession)?;
    let record = app.store.record(&session, &caller.principal).await?;
    let record = record.ok_or(Reject::NoSession)?;
    let first = Bytes::from(archive::header(&session, &record));
    let log = LogId::Session(session);
    let lines = stream::try_unfold(1, move |next| {
        let (app, log, head) = (app.clone(), log.clone(), record.head);
        // Held as long as there is something to read.
        let held = permit.clone();
        async move {
            let _held = held;
            let page = page(&app, &log, next, head).await?;
            Ok::<_, store::Error>(page)
        }
    });
    let body = stream::once(async { Ok(first) }).chain(lines);
    let headers = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((headers, Body::from_stream(body)).into_response())
}

/// Lines from `next` on, and the number after them.
async fn page(app: &App, log: &LogId, next: u64, head: u64) -> store::Result<Option<(Bytes, u64)>> {
    if next > head {
        return Ok(None);
    }
    let frames = app.store.read(log, next, PAGE).await?;
    let events = frames.iter().flat_map(|frame| frame.numbered());
    let mut lines = String::new();
    let mut after = next;
    for (seq, event) in events.filter(|(seq, _)| (next..=head).contains(seq)) {
        after = seq + 1;
        lines.extend(archive::line(seq, event));
    }
    match after > next {
        true => Ok(Some((lines.into(), after))),
        // Better a body that breaks off than one that looks complete.
        false => Err(store::Error::Broken(format!("event {next} is missing"))),
    }
}

pub async fn import(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    body: Body,
) -> Result<Response<Body>, Reject> {
    if !app.store.has_room().await? {
        return Err(Reject::StoreFull);
    }
    let allowance = caller.allowance.clone();
    let _admitted = match &allowance {
        Some(allowance) => {
            allowance.request().map_or(Ok(()), Err)?;
            allowance.session(&*app.store).await??
        }
        None => None,
    };
    let reservation = app.inflight.of(&caller.principal);
    let mut lines = Lines::new(body, allowance, reservation);
    let first = lines.next().await?;
    let first = first.ok_or_else(|| Reject::Archive("the body is empty".into()))?;
    let (named, mut record) = archive::read_header(&first).map_err(unreadable)?;
    // A list has nothing from the future.
    record.updated = record.updated.min(unix_millis());
    let mut import = Import::begin(&app, &caller, named, record).await?;
    for seq in 1..=import.record.head {
        let line = lines.next().await?.ok_or_else(|| cut_short(seq))?;
        let event = archive::read_line(seq, &line).map_err(unreadable)?;
        import.add(event, line.len()).await?;
    }
    let session = import.finish().await?;
    let answer = json!({ "sessionId": session }).to_string();
    let headers = [(header::CONTENT_TYPE, "application/json")];
    Ok((StatusCode::CREATED, headers, answer).into_response())
}

fn cut_short(seq: u64) -> Reject {
    Reject::Archive(format!("the body is cut short: event {seq} is missing"))
}

fn unreadable(error: archive::Unreadable) -> Reject {
    Reject::Archive(error.to_string())
}

/// A session that is being taken in. Nobody sees it before it is complete; one that never is, is
/// forgotten by housekeeping.
struct Import<'a> {
    app: &'a App,
    session: SessionId,
    /// It keeps its id if that is free here.
    renamed: bool,
    record: Record,
    claimant: Claimant,
    nonce: Nonce,
    renewed: Instant,
    written: u64,
    waiting: Vec<Event>,
    bytes: usize,
}

impl<'a> Import<'a> {
    async fn begin(
        app: &'a App,
        caller: &Caller,
        named: SessionId,
        record: Record,
    ) -> Result<Import<'a>, Reject> {
        let claimant = Claimant {
            worker: WorkerId(random_text(12).into()),
            agent: record.agent.clone(),
            token: ClaimToken::random(),
            lease: LEASE,
        };
        let fits = named.partition().0 < app.store.partitions();
        let other = || SessionId::mint(Partition::random(app.store.partitions()));
        let mut adoption = Adoption {
            id: if fits { named.clone() } else { other() },
            principal: caller.principal.to_string(),
            record: record.clone(),
        };
        while !app.store.adopt(&adoption, &claimant).await? {
            adoption.id = other();
        }
        Ok(Self {
            app,
            renamed: adoption.id != named,
            session: adoption.id,
            record,
            claimant,
            nonce: Nonce::random(),
            renewed: Instant::now(),
            written: 0,
            waiting: Vec::new(),
            bytes: 0,
        })
    }

    /// `weight`: the bytes it came in.
    async fn add(&mut self, event: Event, weight: usize) -> Result<(), Reject> {
        let event = match event {
            Event::Update { turn, message } if self.renamed => Event::Update {
                turn,
                message: readdress(&message, &self.session),
            },
            Event::Echo { by, message } if self.renamed => Event::Echo {
                by,
                message: readdress(&message, &self.session),
            },
            event => event,
        };
        self.bytes += PER_EVENT + weight;
        self.waiting.push(event);
        if self.bytes > BATCH_BYTES {
            self.write().await?;
        }
        Ok(())
    }

    async fn write(&mut self) -> Result<(), Reject> {
        if self.renewed.elapsed() > LEASE / 3 {
            let claim = (self.session.clone(), self.claimant.token.clone());
            self.app.store.renew(&[claim], LEASE).await?;
            self.renewed = Instant::now();
        }
        let events = std::mem::take(&mut self.waiting);
        self.bytes = 0;
        let append = Append {
            session: self.session.clone(),
            token: self.claimant.token.clone(),
            nonce: self.nonce,
            first: self.written + 1,
            events,
            acks: Vec::new(),
            state: None,
            view: None,
            pending: None,
            title: None,
            usage: None,
            bound: None,
            release: false,
        };
        self.written += append.events.len() as u64;
        match self.app.store.append(&append).await? {
            Appended::Done { .. } => Ok(()),
            Appended::Fenced | Appended::Gap { .. } => Err(lost()),
        }
    }

    async fn finish(mut self) -> Result<SessionId, Reject> {
        if !self.waiting.is_empty() {
            self.write().await?;
        }
        let token = &self.claimant.token;
        match self.app.store.publish(&self.session, token).await? {
            true => Ok(self.session),
            false => Err(lost()),
        }
    }
}

/// The lease ran out, or the store lost what was written.
fn lost() -> Reject {
    let reason = "the session that was being taken in is gone";
    Reject::Store(store::Error::Unavailable(reason.into()))
}

/// The lines of a body, one at a time.
struct Lines {
    body: BodyDataStream,
    allowance: Option<Allowance>,
    /// For the line that is being read.
    reservation: Reservation,
    buffer: BytesMut,
    searched: usize,
    ended: bool,
}

impl Lines {
    fn new(body: Body, allowance: Option<Allowance>, reservation: Reservation) -> Self {
        Self {
            body: body.into_data_stream(),
            allowance,
            reservation,
            buffer: BytesMut::new(),
            searched: 0,
            ended: false,
        }
    }

    /// The rest is not wanted.
    fn discard(&mut self) {
        let nothing = Body::empty().into_data_stream();
        let body = std::mem::replace(&mut self.body, nothing);
        body::discard(Body::from_stream(body));
    }

    async fn next(&mut self) -> Result<Option<Bytes>, Reject> {
        self.reservation.shrink(self.buffer.len());
        loop {
            let unsearched = &self.buffer[self.searched..];
            if let Some(at) = unsearched.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(self.searched + at + 1);
                self.searched = 0;
                return Ok(Some(line.freeze()));
            }
            self.searched = self.buffer.len();
            if self.ended {
                let rest = self.buffer.split().freeze();
                self.searched = 0;
                return Ok((!rest.is_empty()).then_some(rest));
            }
            // A line holds a message and little more.
            if self.buffer.len() > MAX_BODY * 2 {
                self.discard();
                return Err(Reject::TooLarge);
            }
            match self.body.next().await {
                Some(Ok(data)) => {
                    if let Some(allowance) = &self.allowance {
                        allowance.receive_slowly(data.len()).await;
                    }
                    let needed = self.buffer.len() + data.len();
                    if needed > PORTION {
                        let fits = self.reservation.resize(needed);
                        fits.inspect_err(|_| self.discard())?;
                    }
                    self.buffer.extend_from_slice(&data);
                }
                Some(Err(error)) if edge::too_slow(&error) => return Err(Reject::Slow),
                Some(Err(_)) => return Err(Reject::Archive("the body ended early".into())),
                None => self.ended = true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use baton_session::event::Begin;
    use baton_session::id::ConnectionId;
    use baton_session::route::Via;
    use baton_session::store::{MemoryStore, Store};
    use baton_session::token::{KeyRing, Keys, generate};
    use jsonwebtoken::Algorithm;

    use super::*;
    use crate::app::{Config, Stop};
    use crate::auth::{ANONYMOUS, Auth};

    #[tokio::test]
    async fn what_comes_in_is_written_in_portions_and_not_from_the_future() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let keys = KeyRing::parse(&generate(Algorithm::HS256)).unwrap();
        let (config, keys) = (Config::default(), Keys::fixed(keys));
        let app = App::new(config, store.clone(), keys, Auth::Open, Stop::default()).await;
        let (id, events) = (SessionId::mint(Partition(0)), 5000);
        let header = json!({
            "batonSession": 1, "sessionId": id, "agent": "scripted", "cwd": "/tmp",
            "updated": u64::MAX, "events": events,
        });
        let mut body = format!("{header}\n");
        // Without a message they are small, and yet something.
        for seq in 1..=events {
            let event = Event::Begin(Begin {
                command: seq,
                connection: ConnectionId::mint(Partition(0)),
                via: Via::Connection,
            });
            body.extend(archive::line(seq, &event));
        }
        let before = unix_millis();
        let answer = import(
            State(app.unwrap()),
            Extension(Caller::anonymous()),
            body.into(),
        )
        .await;
        assert_eq!(answer.ok().unwrap().status(), StatusCode::CREATED);
        let frames = store.read(&LogId::Session(id.clone()), 1, 5000).await;
        let sizes: Vec<usize> = frames.unwrap().iter().map(|f| f.events.len()).collect();
        assert_eq!(sizes.iter().sum::<usize>(), 5000);
        assert!(sizes.iter().all(|size| *size <= 1024), "{sizes:?}");
        let record = store.record(&id, ANONYMOUS).await.unwrap().unwrap();
        assert!((before..=unix_millis()).contains(&record.updated));
    }
}
