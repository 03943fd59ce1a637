//! Sessions that come and go: `session/new`, `session/delete`.

use baton_protocol::{ErrorCode, compose, meta};
use baton_session::audit::Decision;
use baton_session::command::{Command, CommandKind};
use baton_session::event::Event;
use baton_session::id::{Partition, SessionId};
use baton_session::store::{NewSession, PostOutcome};
use bytes::Bytes;
use serde_json::json;

use super::params::{self, SessionPlace};
use super::{ID_REUSED, MethodCall, MethodError, MethodOutcome, UNREAD};
use crate::agents::MissingAgent;
use crate::error::STORE_IS_FULL;

impl MethodCall<'_> {
    pub(super) async fn new_session(&self) -> Result<MethodOutcome, MethodError> {
        let place = params::whole_place(self.message.inbound)?;
        let agent = self.agent().await?;
        match self.create(agent, place, CommandKind::New).await? {
            MethodOutcome::Follow(mut follow) => {
                follow.created = Some(self.access.scope());
                Ok(MethodOutcome::Created(follow))
            }
            other => Ok(other),
        }
    }

    /// Makes a session with this request in its inbox.
    pub(super) async fn create(
        &self,
        agent: String,
        place: SessionPlace,
        kind: CommandKind,
    ) -> Result<MethodOutcome, MethodError> {
        self.check_room().await?;
        let _admitted = self.check_sessions().await?;
        let mint = || SessionId::mint(Partition::random(self.services.store.partitions()));
        let minted = self.message.makes.cloned().unwrap_or_else(mint);
        let watch = Event::Watch {
            session: minted.clone(),
            after: 0,
        };
        let key = self.key();
        let mut is_new = false;
        // Posted before the session exists, so that its answer finds the connection's stream.
        let id = match self
            .services
            .store
            .post(&self.connection.id, watch, &key)
            .await?
        {
            PostOutcome::New { .. } => {
                is_new = true;
                minted
            }
            PostOutcome::Known(Event::Watch { session, .. }) => session,
            PostOutcome::Known(_) | PostOutcome::Delivered | PostOutcome::Conflict => {
                return Err(MethodError::Rpc(ErrorCode::IdReused, ID_REUSED.into()));
            }
            PostOutcome::Full => return Err(MethodError::Reject(UNREAD.into())),
        };
        // What a login carries goes to the worker in its command, and is not kept.
        let params = match kind {
            CommandKind::New => self.message.inbound.params(),
            _ => "{}",
        };
        let new = NewSession {
            id: id.clone(),
            principal: self.connection.principal.clone(),
            agent,
            cwd: place.cwd,
            params: Bytes::copy_from_slice(params.as_bytes()),
            directories: place.setup.directories.unwrap_or_default(),
            one_shot: self.message.one_shot,
        };
        self.services
            .store
            .create(&new, &self.command(kind), &key)
            .await?;
        if is_new && kind == CommandKind::New {
            self.record_decision(|| Decision::SessionCreated {
                session: id.clone(),
                agent: (&new.agent).into(),
            });
        }
        Ok(self.follow(id, None, 0))
    }

    /// The one that the path names, else the connection's. That one was there when the connection
    /// was opened.
    pub(super) async fn agent(&self) -> Result<String, MethodError> {
        let rights = self.access.caller.rights();
        let settled = self.connection.agent.as_deref();
        let settled = settled.filter(|name| rights.allow(name));
        match (self.message.agent, settled) {
            (None, Some(settled)) => Ok(settled.to_owned()),
            (Some(named), Some(settled)) if named == settled => Ok(named.to_owned()),
            (named, _) => match self.services.agents.directory(rights).await?.choose(named) {
                Ok(card) => Ok(card.name.clone()),
                Err(MissingAgent(text)) => Err(MethodError::Rpc(ErrorCode::NoAgent, text)),
            },
        }
    }

    pub(super) async fn check_room(&self) -> Result<(), MethodError> {
        if self.services.store.has_room().await? {
            Ok(())
        } else {
            Err(MethodError::Rpc(ErrorCode::StoreFull, STORE_IS_FULL.into()))
        }
    }

    /// A missing, deleted or foreign session gets the same answer.
    pub(super) async fn delete(&self) -> Result<MethodOutcome, MethodError> {
        let named = match self.session().await {
            Ok(session) => Some(session),
            Err(MethodError::Rpc(ErrorCode::ResourceNotFound, _)) => None,
            Err(problem) => return Err(problem),
        };
        self.check_outbox().await?;
        if let Some(session) = named {
            // Its worker stops, and answers the waiting requests.
            let end = Command {
                request: None,
                ..self.command(CommandKind::Delete)
            };
            let principal = &self.connection.principal;
            if self
                .services
                .store
                .delete(&session, principal, &end)
                .await?
            {
                self.record_decision(|| Decision::SessionDeleted { session });
            }
        }
        // Its session token is to be forgotten.
        let forgotten = json!({ "_meta": { meta::SESSION: null } });
        Ok(self.answer_now(compose::result(self.id(), forgotten.to_string().as_bytes())))
    }

    /// Of a message that is known to be a request.
    pub(super) fn id(&self) -> &str {
        self.message.inbound.id().unwrap_or("null")
    }
}
