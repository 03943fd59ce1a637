//! A session that is being taken in.

use std::time::Duration;

use baton_protocol::address::readdress;
use baton_session::event::Event;
use baton_session::id::{Nonce, Partition, SessionId, random_text};
use baton_session::store::{
    self, AdoptRequest, AppendOutcome, AppendRequest, ClaimToken, Claimant, SessionRecord, WorkerId,
};
use bytes::Bytes;
use tokio::time::Instant;

use crate::app::App;
use crate::auth::Caller;
use crate::error::GatewayError;

/// Events that are written in one step.
const BATCH_BYTES: usize = 256 << 10;
/// The approximate size of an event beside its line.
const PER_EVENT: usize = 256;
const LEASE: Duration = Duration::from_secs(30);

/// The fields that name things beyond the session. They are not written before it is known that the
/// archive is what its caller has exported.
pub struct BoundFields {
    state: Bytes,
    bound: Bytes,
}

impl BoundFields {
    /// Takes them out.
    pub fn take(record: &mut SessionRecord) -> Self {
        Self {
            state: std::mem::take(&mut record.state),
            bound: std::mem::take(&mut record.bound),
        }
    }

    /// Of those that say something.
    pub fn names(&self) -> Vec<&'static str> {
        let bound = !matches!(self.bound.trim_ascii(), b"" | b"{}");
        let all = [("state", !self.state.is_empty()), ("bound", bound)];
        all.iter()
            .filter(|(_, is)| *is)
            .map(|(name, _)| *name)
            .collect()
    }
}

/// Nobody sees it before it is complete; one that never is, is
/// forgotten by housekeeping.
pub struct SessionImport<'a> {
    app: &'a App,
    session: SessionId,
    /// It has another id than in the archive.
    renamed: bool,
    claimant: Claimant,
    nonce: Nonce,
    renewed: Instant,
    written: u64,
    waiting: Vec<Event>,
    bytes: usize,
}

impl<'a> SessionImport<'a> {
    /// `named`: by the archive. `keeps`: the id it has here, if that is free; else a new one. An id
    /// is looked up only if it is asked for, so nobody learns which ids there are.
    pub async fn begin(
        app: &'a App,
        caller: &Caller,
        named: &SessionId,
        keeps: Option<&SessionId>,
        record: SessionRecord,
    ) -> Result<SessionImport<'a>, GatewayError> {
        let claimant = holder(&record);
        let fits = |id: &&SessionId| id.partition().0 < app.store.partitions();
        let other = || SessionId::mint(Partition::random(app.store.partitions()));
        let mut adoption = AdoptRequest {
            id: keeps.filter(fits).cloned().unwrap_or_else(other),
            principal: caller.principal.to_string(),
            record,
            shares: None,
        };
        while !app.store.adopt(&adoption, &claimant).await? {
            adoption.id = other();
        }
        let renamed = adoption.id != *named;
        Ok(Self::of(app, adoption, claimant, renamed))
    }

    /// Under this very id, and with the beginning of another's log if there is one. `None` if the
    /// id is taken.
    pub async fn adopt(
        app: &'a App,
        adoption: AdoptRequest,
    ) -> Result<Option<SessionImport<'a>>, GatewayError> {
        let claimant = holder(&adoption.record);
        let adopted = app.store.adopt(&adoption, &claimant).await?;
        Ok(adopted.then(|| Self::of(app, adoption, claimant, false)))
    }

    fn of(app: &'a App, adoption: AdoptRequest, claimant: Claimant, renamed: bool) -> Self {
        Self {
            app,
            renamed,
            session: adoption.id,
            claimant,
            nonce: Nonce::random(),
            renewed: Instant::now(),
            written: adoption.shares.map_or(0, |shared| shared.upto),
            waiting: Vec::new(),
            bytes: 0,
        }
    }

    /// `weight`: the bytes it came in.
    pub async fn add(&mut self, event: Event, weight: usize) -> Result<(), GatewayError> {
        let event = match event {
            Event::Update { turn, message } if self.renamed => Event::Update {
                turn,
                message: readdress(&message, self.session.as_str()),
            },
            Event::Echo { by, at, message } if self.renamed => Event::Echo {
                by,
                at,
                message: readdress(&message, self.session.as_str()),
            },
            event => event,
        };
        self.bytes += PER_EVENT + weight;
        self.waiting.push(event);
        if self.bytes > BATCH_BYTES {
            self.write(None).await?;
        }
        Ok(())
    }

    async fn write(&mut self, bound_fields: Option<BoundFields>) -> Result<(), GatewayError> {
        if self.renewed.elapsed() > LEASE / 3 {
            let claim = (self.session.clone(), self.claimant.token.clone());
            self.app.store.renew(&[claim], LEASE).await?;
            self.renewed = Instant::now();
        }
        let events = std::mem::take(&mut self.waiting);
        self.bytes = 0;
        let (state, bound) = bound_fields
            .map(|bound_fields| (bound_fields.state, bound_fields.bound))
            .unzip();
        let append = AppendRequest {
            session: self.session.clone(),
            token: self.claimant.token.clone(),
            nonce: self.nonce,
            first: self.written + 1,
            events,
            acks: Vec::new(),
            requests: Vec::new(),
            state,
            view: None,
            pending: None,
            title: None,
            usage: None,
            bound,
            release: false,
            confirmed: false,
        };
        self.written += append.events.len() as u64;
        match self.app.store.append(&append).await? {
            AppendOutcome::Done { .. } => Ok(()),
            AppendOutcome::Fenced | AppendOutcome::Gap { .. } => Err(lost()),
        }
    }

    pub async fn finish(
        mut self,
        bound_fields: Option<BoundFields>,
    ) -> Result<SessionId, GatewayError> {
        if !self.waiting.is_empty() || bound_fields.is_some() {
            self.write(bound_fields).await?;
        }
        let token = &self.claimant.token;
        if self.app.store.publish(&self.session, token).await? {
            Ok(self.session)
        } else {
            Err(lost())
        }
    }
}

fn holder(record: &SessionRecord) -> Claimant {
    Claimant {
        worker: WorkerId(random_text(12).into()),
        agent: record.agent.clone(),
        token: ClaimToken::random(),
        lease: LEASE,
        takes_over: None,
    }
}

/// The lease ran out, or the store lost what was written.
fn lost() -> GatewayError {
    let reason = "the session that was being taken in is gone";
    GatewayError::Store(store::Error::Unavailable(reason.into()))
}
