//! Commands that go into a session's inbox.

use baton_protocol::ErrorCode;
use baton_session::audit::Decision;
use baton_session::clock::unix_millis;
use baton_session::command::{Command, CommandId, CommandKind};
use baton_session::id::SessionId;
use baton_session::route::DeliveryPath;
use baton_session::store::{EnqueueOutcome, EnqueueRequest, InboxAdmission};
use baton_session::trace::TraceContext;

use super::named_session::unknown_session;
use super::{ID_REUSED, MethodCall, MethodError, MethodOutcome, SESSION_CLOSED};
use crate::error::GatewayError;
use crate::stream::one_shot::FollowedRequest;
use crate::trace;

const IN_A_BODY: &str = "this request is answered in the body of the POST that made it: to join \
    it, send it again with Accept: text/event-stream";

impl MethodCall<'_> {
    pub(super) fn enqueue_request(&self, kind: CommandKind, session: SessionId) -> EnqueueRequest {
        EnqueueRequest {
            session,
            principal: self.connection.principal.clone(),
            command: self.command(kind),
            key: self.key(),
            one_shot: self.message.one_shot,
            watched: false,
            limit: self.services.queue_limit,
            about: None,
            takes: InboxAdmission::Anything,
            // The token of one that is alone names the session.
            findable: kind == CommandKind::Prompt && !self.access.without_connection,
        }
    }

    pub(super) async fn enqueue(
        &self,
        kind: CommandKind,
        session: SessionId,
    ) -> Result<MethodOutcome, MethodError> {
        let mut enqueue = self.enqueue_request(kind, session);
        let inbox_terms = self.inbox_terms(kind).await?;
        enqueue.takes = inbox_terms.takes;
        if let Some(door) = &self.message.door
            && enqueue.takes == InboxAdmission::Anything
        {
            enqueue.takes = match (door.joins, door.at_rest) {
                (true, _) => InboxAdmission::Repetitions,
                (false, Some(head)) => InboxAdmission::AtRest(head),
                (false, None) => InboxAdmission::Anything,
            };
        }
        loop {
            match self.services.store.enqueue(&enqueue).await? {
                EnqueueOutcome::Joined {
                    via: DeliveryPath::OneShot,
                    ..
                } if !self.message.one_shot => {
                    return Err(MethodError::Rpc(ErrorCode::IdReused, IN_A_BODY.into()));
                }
                EnqueueOutcome::Accepted { command, head, .. } => {
                    self.record_enqueued(kind, &enqueue.session);
                    return Ok(self.follow(enqueue.session, Some(command), head));
                }
                EnqueueOutcome::Joined { command, head, .. } => {
                    return Ok(self.follow(enqueue.session, Some(command), head));
                }
                EnqueueOutcome::Conflict => {
                    return Err(MethodError::Rpc(ErrorCode::IdReused, ID_REUSED.into()));
                }
                EnqueueOutcome::NotFound => return Err(unknown_session(enqueue.session.as_str())),
                EnqueueOutcome::Closed => {
                    return Err(MethodError::Rpc(
                        ErrorCode::SessionClosed,
                        SESSION_CLOSED.into(),
                    ));
                }
                EnqueueOutcome::Barred => {
                    return Err(inbox_terms
                        .refusal_error()
                        .unwrap_or(MethodError::Reject(GatewayError::Moved)));
                }
                EnqueueOutcome::Full => {
                    let text = format!(
                        "too many commands wait in this session (--queue-limit is {}): wait for \
                         answers, then try again",
                        enqueue.limit
                    );
                    return Err(MethodError::Rpc(ErrorCode::QueueFull, text));
                }
                EnqueueOutcome::Unwatched { head } => {
                    self.watch(&enqueue.session, head).await?;
                    enqueue.watched = true;
                }
            }
        }
    }

    fn record_enqueued(&self, kind: CommandKind, session: &SessionId) {
        match kind {
            CommandKind::Close => self.record_decision(|| Decision::SessionClosed {
                session: session.clone(),
            }),
            // The worker tells which connection has answered, and nobody would know whose this is.
            CommandKind::Answer if self.access.without_connection => {
                self.record_decision(|| Decision::ConnectionOpened { agent: None });
            }
            _ => {}
        }
    }

    pub(super) fn command(&self, kind: CommandKind) -> Command {
        Command {
            kind,
            connection: self.connection.id.clone(),
            request: self.request(),
            client: self.connection.client,
            taken_at: unix_millis(),
            trace: TraceContext::of(&trace::current(self.services.traces)),
            message: self.message.inbound.bytes().clone(),
        }
    }

    pub(super) fn follow(
        &self,
        session: SessionId,
        command: Option<CommandId>,
        head: u64,
    ) -> MethodOutcome {
        match self.request() {
            None => MethodOutcome::Taken,
            Some(request) => {
                let connection = self.connection.id.clone();
                MethodOutcome::Follow(FollowedRequest {
                    session,
                    connection,
                    request,
                    command,
                    head,
                    principal: self.connection.principal.clone(),
                    created: None,
                })
            }
        }
    }

    /// A client's answer names its session in its id.
    pub(super) async fn answer(&self) -> Result<MethodOutcome, MethodError> {
        let id = self.message.inbound.id();
        let id = id.and_then(|id| serde_json::from_str(id).ok());
        match self.routed_session(id).await? {
            Some(session) => self.enqueue(CommandKind::Answer, session).await,
            None => Ok(MethodOutcome::Taken),
        }
    }
}
