//! The steps of gateways, on the state in memory.

use std::time::Instant;

use async_trait::async_trait;
use bytes::Bytes;

use super::EmbeddedStore;
use super::backend::{ExpiryKind, StorageBackend, StoreChange};
use super::session::StoredSession;
use crate::command::{Command, IdempotencyKey};
use crate::event::Event;
use crate::id::{ConnectionId, LogId, SessionId};
use crate::store::{
    AdoptRequest, AgentCard, AttachOutcome, AttachParams, Attachment, ClaimToken, Claimant,
    EnqueueOutcome, EnqueueRequest, ForkOutcome, ForkRequest, GatewayStore, LastWritten,
    ListRequest, NewSession, OpenedStream, PostOutcome, PrincipalUsage, Result, STREAM_TTL,
    SeenPosition, SessionRecord, SessionSummary, Signal, StreamId, StreamTouch, Topic,
};

#[async_trait]
impl<S: StorageBackend> GatewayStore for EmbeddedStore<S> {
    async fn agents(&self) -> Result<Vec<(AgentCard, usize)>> {
        Ok(self.state()?.agents.cards())
    }

    async fn deserted(&self) -> Result<Vec<String>> {
        Ok(self.state()?.deserted())
    }

    async fn waiting(&self, agent: &str) -> Result<u64> {
        Ok(self.state()?.waiting(agent))
    }

    async fn post(
        &self,
        to: &ConnectionId,
        event: Event,
        key: &IdempotencyKey,
    ) -> Result<PostOutcome> {
        self.step(|state| self.post_event(state, to, event, key))
            .await
    }

    async fn has_outbox_room(&self, connection: &ConnectionId) -> Result<bool> {
        self.step(|state| self.outbox_room(state, connection)).await
    }

    async fn describe_client(&self, connection: &ConnectionId, description: &Bytes) -> Result<()> {
        self.step(|state| self.keep_description(state, connection, description))
            .await
    }

    async fn watches(&self, connection: &ConnectionId) -> Result<Vec<(u64, SessionId)>> {
        self.step(|state| Ok(state.outbox(&self.backend, connection)?.watches()))
            .await
    }

    async fn create(&self, new: &NewSession, first: &Command, key: &IdempotencyKey) -> Result<()> {
        self.step(|state| {
            if state.session(&self.backend, &new.id)?.is_some() {
                return Ok(());
            }
            let session = StoredSession::create(new, first, key);
            let log = LogId::Session(new.id.clone());
            let mut changes = vec![
                StoreChange::Queued(&new.id, &session.inbox[0]),
                StoreChange::Session(&new.id, &session),
                StoreChange::Used(ExpiryKind::Session, &log, None, Some(session.used)),
                StoreChange::Listed(&session, None, session.place(&new.id)),
            ];
            changes.extend(session.stored(&new.id));
            self.save(&changes)?;
            state.insert(new.id.clone(), session);
            self.wake(state, &new.id)
        })
        .await
    }

    async fn enqueue(&self, request: &EnqueueRequest) -> Result<EnqueueOutcome> {
        self.step(|state| {
            let id = &request.session;
            let Some(session) = state.session(&self.backend, id)? else {
                return Ok(EnqueueOutcome::NotFound);
            };
            let outcome = session.enqueue(request);
            if matches!(outcome, EnqueueOutcome::Accepted { .. }) {
                let queued = session.inbox.last().expect("just accepted");
                self.save(&[
                    StoreChange::Queued(id, queued),
                    StoreChange::Session(id, session),
                ])?;
                if request.findable {
                    state.note_request(&request.key.key, id);
                }
                self.wake(state, id)?;
            }
            Ok(outcome)
        })
        .await
    }

    async fn session_of(&self, _: &ConnectionId, key: &str) -> Result<Option<SessionId>> {
        self.step(|state| state.session_of(&self.backend, key))
            .await
    }

    async fn attach(&self, request: &AttachParams) -> Result<AttachOutcome> {
        self.step(|state| {
            let id = &request.session;
            let Some(session) = state.session(&self.backend, id)? else {
                return Ok(AttachOutcome::NotFound);
            };
            let setup = session.setup.clone();
            let outcome = session.attach(request);
            let holder = session.lease.as_ref().filter(|_| session.setup != setup);
            let holder = holder.map(|lease| lease.worker.clone());
            if matches!(outcome, AttachOutcome::Done(_)) {
                let log = LogId::Session(id.clone());
                let before = session.use_now();
                let now = before.and(Some(session.used));
                let used = StoreChange::Used(ExpiryKind::Session, &log, before, now);
                self.save(&[StoreChange::Session(id, session), used])?;
                let signal = Signal::Attached(id.clone(), request.connection.clone());
                self.announce_log(log, signal);
                if let Some(holder) = holder {
                    let topic = Topic::Inbox(id.partition(), holder);
                    self.announce(topic, Signal::SetupChanged(id.clone()));
                }
            }
            Ok(outcome)
        })
        .await
    }

    async fn attachment(
        &self,
        session: &SessionId,
        connection: &ConnectionId,
        principal: &str,
    ) -> Result<Option<Attachment>> {
        self.step(|state| {
            let session = state.session(&self.backend, session)?;
            let session = session.filter(|session| session.was_for(principal));
            Ok(session.map(|session| session.attachment(connection)))
        })
        .await
    }

    async fn unwatch(
        &self,
        session: &SessionId,
        connection: &ConnectionId,
        watch: u64,
        seen: SeenPosition,
    ) -> Result<bool> {
        self.step(|state| {
            let Some(found) = state.session(&self.backend, session)? else {
                return Ok(false);
            };
            let left = found.unwatch(connection, watch, seen);
            if left {
                self.save(&[StoreChange::Session(session, found)])?;
            }
            Ok(left)
        })
        .await
    }

    async fn forget_watch(
        &self,
        connection: &ConnectionId,
        session: &SessionId,
        told: u64,
    ) -> Result<()> {
        self.step(|state| {
            let outbox = state.outbox(&self.backend, connection)?;
            if outbox.forget_watch(session, told) {
                self.save(&[StoreChange::Outbox(connection, outbox)])?;
            }
            Ok(())
        })
        .await
    }

    async fn fork(&self, fork: &ForkRequest) -> Result<ForkOutcome> {
        self.step(|state| self.fork_session(state, fork)).await
    }

    async fn list(&self, listing: &ListRequest) -> Result<Vec<SessionSummary>> {
        self.step(|state| self.list_sessions(state, listing)).await
    }

    async fn usage(&self, principal: &str, most: u64) -> Result<PrincipalUsage> {
        self.step(|state| self.usage_of(state, principal, most))
            .await
    }

    async fn delete(&self, session: &SessionId, principal: &str, end: &Command) -> Result<bool> {
        self.step(|state| self.delete_session(state, session, principal, end))
            .await
    }

    async fn record(&self, session: &SessionId, principal: &str) -> Result<Option<SessionRecord>> {
        self.step(|state| self.record_of(state, session, principal))
            .await
    }

    async fn adopt(&self, adoption: &AdoptRequest, claimant: &Claimant) -> Result<bool> {
        self.step(|state| self.adopt_session(state, adoption, claimant))
            .await
    }

    async fn publish(&self, session: &SessionId, token: &ClaimToken) -> Result<bool> {
        self.step(|state| self.publish_session(state, session, token))
            .await
    }

    async fn open_stream(
        &self,
        stream: &StreamId,
        principal: &str,
        holder: &str,
    ) -> Result<Option<OpenedStream>> {
        self.step(|state| {
            let connection = &stream.connection;
            let opened = match &stream.session {
                None => {
                    let outbox = state.outbox(&self.backend, connection)?;
                    let held = outbox.holder.replace(holder.to_owned());
                    let earlier = held.filter(|held| *held != holder);
                    outbox.before = outbox.before.take().or(earlier);
                    OpenedStream {
                        written: LastWritten {
                            cursor: outbox.written.clone(),
                            is_final: outbox.before.is_none(),
                        },
                        attachment: None,
                    }
                }
                Some(id) => {
                    let session = state.session(&self.backend, id)?;
                    let Some(session) = session.filter(|session| session.is_for(principal)) else {
                        return Ok(None);
                    };
                    let party = session.parties.join(connection);
                    let until = Instant::now() + STREAM_TTL;
                    let held = party.stream.replace((holder.to_owned(), until));
                    let lives = |(held, until): &(String, Instant)| {
                        held != holder && *until > Instant::now()
                    };
                    let earlier = held.filter(lives).map(|(held, _)| held);
                    // Who has not written anything yet says nothing about those before it.
                    party.before = party.before.take().or(earlier);
                    OpenedStream {
                        written: LastWritten {
                            cursor: party.written.clone(),
                            is_final: party.before.is_none(),
                        },
                        attachment: Some(session.attachment(connection)),
                    }
                }
            };
            let (log, connection) = (stream.log(), connection.clone());
            let taken = Signal::Taken {
                log: log.clone(),
                connection,
                holder: holder.to_owned(),
            };
            self.announce_log(log, taken);
            Ok(Some(opened))
        })
        .await
    }

    async fn last_written(&self, stream: &StreamId, holder: &str) -> Result<Option<LastWritten>> {
        self.step(|state| match &stream.session {
            None => {
                let outbox = state.outbox(&self.backend, &stream.connection)?;
                let held = outbox.holder.as_deref() == Some(holder);
                Ok(held.then(|| LastWritten {
                    cursor: outbox.written.clone(),
                    is_final: outbox.before.is_none(),
                }))
            }
            Some(id) => {
                let session = state.session(&self.backend, id)?;
                let party = session.and_then(|session| session.parties.get(&stream.connection));
                let held = party.filter(|party| {
                    let by = party.stream.as_ref().map(|(by, _)| by.as_str());
                    by == Some(holder)
                });
                Ok(held.map(|party| LastWritten {
                    cursor: party.written.clone(),
                    is_final: party.before.is_none(),
                }))
            }
        })
        .await
    }

    async fn touch_streams(&self, touches: &[StreamTouch]) -> Result<Vec<String>> {
        self.step(|state| {
            let until = Some(Instant::now() + STREAM_TTL);
            let mut lost = Vec::new();
            for touch in touches {
                if !self.touch(state, touch, until)? {
                    lost.push(touch.holder.clone());
                }
            }
            Ok(lost)
        })
        .await
    }

    async fn close_stream(&self, touch: &StreamTouch) -> Result<()> {
        self.step(|state| self.touch(state, touch, None).map(drop))
            .await
    }
}
