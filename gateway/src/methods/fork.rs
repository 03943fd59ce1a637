//! `session/fork`: a child that shares its parent's past. No worker is involved.

use baton_protocol::limits::echo;
use baton_protocol::{ErrorCode, compose};
use baton_session::audit::Decision;
use baton_session::id::{LogId, SessionId};
use baton_session::store::{ForkOutcome, ForkPoint, ForkRequest, MAX_FORK_DEPTH, SessionRecord};
use baton_session::token::TokenScope;
use serde_json::{Map, Value, json};

use self::search::{ForkSearch, ForkSearchError};

use super::{
    MethodAnswer, MethodCall, MethodError, MethodOutcome, SESSION_CLOSED, invalid, params,
    unknown_session,
};
use crate::access::PresentedToken;

mod search;

impl MethodCall<'_> {
    pub(super) async fn fork(&self) -> Result<MethodOutcome, MethodError> {
        let parent = self.session().await?;
        let (cwd, setup) = params::inherited_place(self.message.inbound)?;
        let wish = params::fork_wish(self.message.inbound)?;
        self.check_outbox().await?;
        let child = self.child_of(&parent);
        let (id, principal) = (&self.connection.id, &self.connection.principal);
        let known = self
            .services
            .store
            .attachment(&child, id, principal)
            .await?;
        // The store repeats what it said about this child, whatever has become of the parent since.
        let is_new = known.is_none();
        let _admitted = if is_new {
            self.check_room().await?;
            self.check_sessions().await?
        } else {
            None
        };
        let cut = self.message.door.and_then(|door| door.cut);
        let at = match (wish.at_message_id, cut) {
            _ if !is_new => None,
            (Some(message), _) => Some(self.cut_after(&parent, &message).await?),
            (None, Some(cut)) => Some(self.cut_at(&parent, cut).await?),
            (None, None) => None,
        };
        let cwd = match cwd {
            Some(cwd) => cwd,
            None => self.record(&parent).await?.cwd,
        };
        let fork = ForkRequest {
            child,
            parent,
            principal: self.connection.principal.clone(),
            connection: self.connection.id.clone(),
            cwd,
            setup,
            at,
            inherit_bindings: wish.inherit_bindings,
            // A closed session has no token any more; its principal may still fork it.
            only_open: matches!(self.access.grant, PresentedToken::Valid(_)),
        };
        match self.services.store.fork(&fork).await? {
            ForkOutcome::Done { head, view } => {
                if is_new {
                    self.record_decision(|| Decision::SessionForked {
                        session: fork.child.clone(),
                        parent: fork.parent.clone(),
                    });
                }
                self.watch(&fork.child, head).await?;
                let mut result = with_session(&view, &fork.child);
                let issuer = &self.services.issuer;
                let meta = issuer.meta(&fork.child, &fork.principal, TokenScope::Control);
                result["_meta"] = json!(meta);
                Ok(MethodOutcome::Answer(MethodAnswer {
                    opens: Some(fork.child),
                    message: compose::result(self.id(), result.to_string().as_bytes()),
                    key: self.key(),
                    refusal: None,
                }))
            }
            ForkOutcome::NotFound => Err(unknown_session(fork.parent.as_str())),
            ForkOutcome::Closed => Err(MethodError::Rpc(
                ErrorCode::SessionClosed,
                SESSION_CLOSED.into(),
            )),
            ForkOutcome::NoSuchCut => Err(invalid(
                "_meta[\"baton/fork\"].atMessageId names a message of the turn that runs: wait for \
                 its end",
            )),
            ForkOutcome::TooDeep => Err(MethodError::Rpc(
                ErrorCode::LimitReached,
                format!("a session may have {MAX_FORK_DEPTH} ancestors at most"),
            )),
        }
    }

    /// The same request, repeated, means the same child.
    fn child_of(&self, parent: &SessionId) -> SessionId {
        let (connection, request) = (&self.connection.id, self.id());
        let seed = format!("{parent}\n{connection}\n{request}");
        SessionId::derived(parent.partition(), seed.as_bytes())
    }

    async fn record(&self, session: &SessionId) -> Result<SessionRecord, MethodError> {
        let principal = &self.connection.principal;
        let record = self.services.store.record(session, principal).await?;
        record.ok_or_else(|| unknown_session(session.as_str()))
    }

    /// Right after an event.
    async fn cut_at(&self, parent: &SessionId, upto: u64) -> Result<ForkPoint, MethodError> {
        let record = self.record(parent).await?;
        let search = ForkSearch {
            store: &*self.services.store,
            log: LogId::Session(parent.clone()),
            record: &record,
        };
        match search.view_at(upto).await {
            Ok(view) => Ok(ForkPoint { upto, view }),
            Err(ForkSearchError::Store(error)) => Err(error.into()),
            Err(ForkSearchError::Nowhere | ForkSearchError::Far { .. }) => Err(invalid(
                "what the session showed there is too far back to be found: fork at a later turn",
            )),
        }
    }

    /// The end of a message, and what the session showed then.
    async fn cut_after(&self, parent: &SessionId, message: &str) -> Result<ForkPoint, MethodError> {
        let record = self.record(parent).await?;
        let search = ForkSearch {
            store: &*self.services.store,
            log: LogId::Session(parent.clone()),
            record: &record,
        };
        search
            .cut_after(message)
            .await
            .map_err(|missing| match missing {
                ForkSearchError::Nowhere => invalid(format!(
                    "the finished turns of the session have no message {}",
                    echo(message)
                )),
                ForkSearchError::Far { events } => invalid(format!(
                    "the last {events} events, which are as many as are searched, do not tell all \
                 about message {}: fork at a later one. One of the user, user-…, is found however \
                 old it is",
                    echo(message)
                )),
                ForkSearchError::Store(error) => error.into(),
            })
    }
}

fn with_session(view: &[u8], session: &SessionId) -> Value {
    let mut result: Map<String, Value> = serde_json::from_slice(view).unwrap_or_default();
    result.insert("sessionId".into(), json!(session));
    result.into()
}
