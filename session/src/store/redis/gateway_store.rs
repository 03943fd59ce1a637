//! The steps of gateways, each a script.

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::{join, join_all};

use super::scripts::{ScriptCall, scripts};
use super::{CONNECTION_TTL, RedisStore, reply};
use crate::command::{Command, CommandId, IdempotencyKey};
use crate::event::Event;
use crate::id::{ConnectionId, SessionId};
use crate::store::{
    AdoptRequest, AgentCard, AttachOutcome, AttachParams, Attachment, ClaimToken, Claimant,
    EnqueueOutcome, EnqueueRequest, ForkOutcome, ForkRequest, GatewayStore, INBOX_BYTES,
    KEPT_ATTACH_REQUESTS, LastWritten, ListRequest, NewSession, OpenedStream, PostOutcome,
    PrincipalUsage, REMEMBERED_KEYS, REMEMBERED_KEYS_IN_ALL, Result, STREAM_TTL, SeenPosition,
    SessionRecord, SessionSummary, StreamId, StreamTouch,
};

/// Names of commands without a key that are remembered, in case their step is repeated: a cancel
/// that was taken must not end what came after it.
const REMEMBERED_NONCES: u64 = 64;

#[async_trait]
impl GatewayStore for RedisStore {
    async fn agents(&self) -> Result<Vec<(AgentCard, usize)>> {
        let known = self.known_agents().await?.into_iter();
        let registered = known.filter_map(|agent| Some((agent.card?, agent.workers)));
        Ok(registered.collect())
    }

    async fn deserted(&self) -> Result<Vec<String>> {
        self.deserted_agents().await
    }

    async fn waiting(&self, agent: &str) -> Result<u64> {
        self.waiting_sessions(agent).await
    }

    async fn post(
        &self,
        to: &ConnectionId,
        event: Event,
        key: &IdempotencyKey,
    ) -> Result<PostOutcome> {
        self.post_event(to, event, key).await
    }

    async fn has_outbox_room(&self, connection: &ConnectionId) -> Result<bool> {
        self.outbox_room(connection).await
    }

    async fn describe_client(&self, connection: &ConnectionId, description: &Bytes) -> Result<()> {
        self.keep_description(connection, description).await
    }

    async fn watches(&self, connection: &ConnectionId) -> Result<Vec<(u64, SessionId)>> {
        self.watches_of(connection).await
    }

    async fn create(&self, new: &NewSession, first: &Command, key: &IdempotencyKey) -> Result<()> {
        let (k, id) = (&self.keys, &new.id);
        let (head, nonce) = (first.head(), CommandId::random_nonce().to_be_bytes());
        let owner = first.connection.key_owner().to_be_bytes();
        let (key_bytes, fingerprint) = (
            IdempotencyKey::key_bytes(&key.key).unwrap_or_default(),
            key.fingerprint_bytes(),
        );
        let call = ScriptCall::new(&scripts().create)
            .key(k.session(id))
            .key(k.inbox(id))
            .key(k.parties(id))
            .arg(id.as_str())
            .arg(&new.principal)
            .arg(&new.agent)
            .arg(&new.cwd)
            .arg(&new.params)
            .arg(first.connection.as_str())
            .arg(&key_bytes)
            .arg(&fingerprint)
            .arg(if new.one_shot { "o" } else { "c" })
            .arg(&head)
            .arg(&first.message)
            .arg(&new.directories)
            .arg(&nonce)
            .arg(&owner);
        self.run_durably(call).await.map(drop)
    }

    async fn enqueue(&self, request: &EnqueueRequest) -> Result<EnqueueOutcome> {
        let (k, id, command) = (&self.keys, &request.session, &request.command);
        let (head, nonce) = (command.head(), CommandId::random_nonce().to_be_bytes());
        let owner = command.connection.key_owner().to_be_bytes();
        let key = IdempotencyKey::key_bytes(&request.key.key);
        let fingerprint = request.key.fingerprint_bytes();
        let about = request.about.as_deref().map(|about| {
            // An empty one is nobody's.
            IdempotencyKey::key_bytes(about).unwrap_or_default()
        });
        let takes = request.takes.to_text();
        let call = ScriptCall::new(&scripts().enqueue)
            .key(k.session(id))
            .key(k.inbox(id))
            .key(k.parties(id))
            .arg(id.as_str())
            .arg(&request.principal)
            .arg(command.connection.as_str())
            .arg(key.as_ref().map_or(&[][..], |key| key))
            .arg(&fingerprint)
            .arg(&head)
            .arg(&command.message)
            .num(request.one_shot.into())
            .num(request.watched.into())
            .num(command.request.is_some().into())
            .num(command.kind.is_urgent().into())
            .num(request.limit)
            .num(REMEMBERED_KEYS)
            .num(INBOX_BYTES)
            .num(command.kind.reaches_closed().into())
            .num(request.about.is_some().into())
            .arg(about.as_ref().map_or(&[][..], |about| about))
            .arg(&*takes)
            .arg(&nonce)
            .arg(&owner)
            .num(REMEMBERED_KEYS_IN_ALL)
            .num(REMEMBERED_NONCES);
        let taken = if request.findable && !request.key.key.is_empty() {
            // At once: what is noted and not taken is forgotten like what is done.
            let (taken, noted) = join(self.run_durably(call), self.note_request(request)).await;
            // The command is accepted either way. A cancel that comes by another gateway may not
            // find it.
            if let Err(error) = noted {
                tracing::warn!(%error, "could not record the session of a request");
            }
            taken?
        } else {
            self.run_durably(call).await?
        };
        let mut items = taken.items()?;
        match items.text()?.as_str() {
            "accepted" => Ok(EnqueueOutcome::Accepted {
                command: items.command()?,
                head: items.number()?,
                via: items.via()?,
            }),
            "joined" => Ok(EnqueueOutcome::Joined {
                command: items.command()?,
                head: items.number()?,
                via: items.via()?,
            }),
            "conflict" => Ok(EnqueueOutcome::Conflict),
            "notfound" => Ok(EnqueueOutcome::NotFound),
            "closed" => Ok(EnqueueOutcome::Closed),
            "barred" => Ok(EnqueueOutcome::Barred),
            "full" => Ok(EnqueueOutcome::Full),
            "unwatched" => Ok(EnqueueOutcome::Unwatched {
                head: items.number()?,
            }),
            other => Err(reply::unexpected(other)),
        }
    }

    async fn session_of(&self, connection: &ConnectionId, key: &str) -> Result<Option<SessionId>> {
        self.noted_session(connection, key).await
    }

    async fn attach(&self, request: &AttachParams) -> Result<AttachOutcome> {
        let id = &request.session;
        let call = ScriptCall::new(&scripts().attach)
            .key(self.keys.session(id))
            .key(self.keys.parties(id))
            .arg(id.as_str())
            .arg(&request.principal)
            .arg(request.connection.as_str())
            .arg(&*request.request)
            .arg(&request.cwd)
            .num(request.replay.into())
            .num(request.one_shot.into())
            .num(request.watched.into())
            .num(KEPT_ATTACH_REQUESTS as u64)
            .setup(&request.setup)
            .num(request.observe.into())
            .num(request.only_open.into());
        let mut items = self.run_durably(call).await?.items()?;
        match items.text()?.as_str() {
            "done" => Ok(AttachOutcome::Done(Box::new(items.attachment()?))),
            "notfound" => Ok(AttachOutcome::NotFound),
            "closed" => Ok(AttachOutcome::Closed),
            "cwd" => Ok(AttachOutcome::WrongCwd(items.text()?)),
            "unwatched" => Ok(AttachOutcome::Unwatched {
                head: items.number()?,
            }),
            other => Err(reply::unexpected(other)),
        }
    }

    async fn attachment(
        &self,
        session: &SessionId,
        connection: &ConnectionId,
        principal: &str,
    ) -> Result<Option<Attachment>> {
        let call = ScriptCall::new(&scripts().attachment)
            .key(self.keys.session(session))
            .key(self.keys.parties(session))
            .arg(principal)
            .arg(connection.as_str());
        let mut items = self.run(call).await?.items()?;
        if items.is_empty() {
            Ok(None)
        } else {
            items.attachment().map(Some)
        }
    }

    async fn unwatch(
        &self,
        session: &SessionId,
        connection: &ConnectionId,
        watch: u64,
        seen: SeenPosition,
    ) -> Result<bool> {
        let call = ScriptCall::new(&scripts().unwatch)
            .key(self.keys.session(session))
            .key(self.keys.parties(session))
            .key(self.keys.inbox(session))
            .arg(connection.as_str())
            .num(seen.upto)
            .num(seen.directive)
            .num(watch);
        Ok(self.run_durably(call).await?.optional_number()? == 1)
    }

    async fn forget_watch(
        &self,
        connection: &ConnectionId,
        session: &SessionId,
        told: u64,
    ) -> Result<()> {
        self.forget_watch_of(connection, session, told).await
    }

    async fn fork(&self, fork: &ForkRequest) -> Result<ForkOutcome> {
        self.fork_session(fork).await
    }

    async fn list(&self, listing: &ListRequest) -> Result<Vec<SessionSummary>> {
        self.list_sessions(listing).await
    }

    async fn usage(&self, principal: &str, _most: u64) -> Result<PrincipalUsage> {
        self.usage_of(principal).await
    }

    async fn delete(&self, session: &SessionId, principal: &str, end: &Command) -> Result<bool> {
        self.delete_session(session, principal, end).await
    }

    async fn record(&self, session: &SessionId, principal: &str) -> Result<Option<SessionRecord>> {
        self.record_of(session, principal).await
    }

    async fn adopt(&self, adoption: &AdoptRequest, claimant: &Claimant) -> Result<bool> {
        self.adopt_session(adoption, claimant).await
    }

    async fn publish(&self, session: &SessionId, token: &ClaimToken) -> Result<bool> {
        self.publish_session(session, token).await
    }

    async fn open_stream(
        &self,
        stream: &StreamId,
        principal: &str,
        holder: &str,
    ) -> Result<Option<OpenedStream>> {
        let (k, connection) = (&self.keys, &stream.connection);
        let call = match &stream.session {
            Some(session) => ScriptCall::new(&scripts().open_session_stream)
                .key(k.session(session))
                .key(k.parties(session))
                .arg(session.as_str())
                .arg(principal)
                .arg(connection.as_str())
                .arg(holder)
                .num(STREAM_TTL.as_millis() as u64),
            None => ScriptCall::new(&scripts().open_connection_stream)
                .key(k.connection(connection))
                .arg(connection.as_str())
                .arg(holder)
                .num(CONNECTION_TTL),
        };
        let mut items = self.run(call).await?.items()?;
        if items.is_empty() {
            return Ok(None);
        }
        let written = LastWritten {
            cursor: Some(items.text()?).filter(|cursor| !cursor.is_empty()),
            is_final: items.number()? == 0,
        };
        let attachment = stream
            .session
            .as_ref()
            .map(|_| items.attachment())
            .transpose()?;
        Ok(Some(OpenedStream {
            written,
            attachment,
        }))
    }

    async fn last_written(&self, stream: &StreamId, holder: &str) -> Result<Option<LastWritten>> {
        self.written_by(stream, holder).await
    }

    async fn touch_streams(&self, touches: &[StreamTouch]) -> Result<Vec<String>> {
        // One multiplexed connection: these travel together.
        let touched = join_all(touches.iter().map(|touch| self.touch(touch, true))).await;
        let (mut lost, mut failed) = (Vec::new(), Ok(()));
        for (touch, held) in touches.iter().zip(touched) {
            match held {
                Ok(true) => {}
                Ok(false) => lost.push(touch.holder.clone()),
                Err(error) => failed = Err(error),
            }
        }
        // Those who lost their stream are told even if others could not be asked.
        if lost.is_empty() {
            failed.map(|()| lost)
        } else {
            Ok(lost)
        }
    }

    async fn close_stream(&self, touch: &StreamTouch) -> Result<()> {
        self.touch(touch, false).await.map(drop)
    }
}
