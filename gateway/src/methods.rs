//! One JSON-RPC message of a client becomes one step on the store.

use std::sync::Arc;

use baton_protocol::limits::{self, MAX_NAME, TooLong, echo};
use baton_protocol::method::ObserverMay;
use baton_protocol::{ErrorCode, Inbound, Method, compose};
use baton_session::audit::Decision;
use baton_session::clock::unix_millis;
use baton_session::command::{Command, CommandId, CommandKind, IdempotencyKey};
use baton_session::event::Event;
use baton_session::id::SessionId;
use baton_session::route::DeliveryPath;
use baton_session::store::{
    Attachment, EnqueueOutcome, EnqueueRequest, InboxAdmission, PostOutcome, Store,
};
use baton_session::token::{ConnectionToken, TokenScope};
use baton_session::trace::TraceContext;
use bytes::Bytes;

use crate::access::{PresentedToken, RequestAccess};
use crate::agents::AgentCatalog;
use crate::audit::AuditTrail;
use crate::auth::token_issuer::TokenIssuer;
use crate::error::GatewayError;
use crate::limits::{LimitKind, LimitRefusal};
use crate::metrics::GatewayMetrics;
use crate::stream::one_shot::FollowedRequest;
use crate::trace::{self, TraceSampling};

mod attach;
mod cancel;
mod fork;
mod lifecycle;
mod list;
mod login;
mod mcp;
mod params;
mod rate_limits;
#[cfg(test)]
mod tests;

#[cfg(any(fuzzing, test))]
pub use params::read_params;

/// All that methods need of their gateway.
pub struct MethodServices {
    pub store: Arc<dyn Store>,
    pub issuer: TokenIssuer,
    pub agents: Arc<AgentCatalog>,
    pub audit: AuditTrail,
    pub metrics: Arc<GatewayMetrics>,
    pub traces: TraceSampling,
    /// How many commands may wait in one session.
    pub queue_limit: u64,
}

/// The outcome of a message.
pub enum MethodOutcome {
    /// Nothing to say: a notification, or an answer to the agent.
    Taken,
    /// The answer will be in the session's log.
    Follow(FollowedRequest),
    /// The same, for a session that the request creates.
    Created(FollowedRequest),
    /// The answer is for the stream's holder to give, after the history.
    Attached(SessionId, Box<Attachment>),
    /// The answer is known already, and belongs to no session.
    Answer(MethodAnswer),
}

pub struct MethodAnswer {
    /// A session that the request has opened.
    opens: Option<SessionId>,
    message: Bytes,
    /// A repeated request gets the same answer.
    key: IdempotencyKey,
    refusal: Option<LimitRefusal>,
}

impl MethodOutcome {
    /// The session that the request opens for its client, if it does.
    pub fn opens(&self) -> Option<&SessionId> {
        match self {
            Self::Created(follow) => Some(&follow.session),
            Self::Attached(session, _) => Some(session),
            Self::Answer(answer) => answer.opens.as_ref(),
            Self::Taken | Self::Follow(_) => None,
        }
    }
}

impl MethodOutcome {
    /// Why the caller has to wait, if that is the answer.
    pub fn refusal(&self) -> Option<LimitRefusal> {
        match self {
            Self::Answer(answer) => answer.refusal,
            _ => None,
        }
    }
}

impl MethodAnswer {
    pub fn into_message(self) -> Bytes {
        self.message
    }
}

#[derive(Clone, Copy)]
pub struct ClientMessage<'a> {
    pub inbound: &'a Inbound,
    /// The `Acp-Session-Id` header.
    pub session_header: Option<&'a str>,
    /// The agent that the path names.
    pub agent: Option<&'a str>,
    /// The answer travels in the body of this POST.
    pub one_shot: bool,
    /// Too much has come of this caller before.
    pub over_bytes: Option<LimitRefusal>,
}

/// Carries the message out. `Err` only for what the store cannot do now.
pub async fn dispatch(
    services: &MethodServices,
    access: &RequestAccess,
    message: ClientMessage<'_>,
) -> Result<MethodOutcome, GatewayError> {
    services.metrics.messages.inc();
    let call = MethodCall {
        services,
        connection: &access.connection,
        access,
        message,
        over_rate: rate_limits::over_rate(access, &message),
    };
    match call.run().await {
        Ok(outcome) => Ok(outcome),
        Err(MethodError::Reject(reject)) => Err(reject),
        Err(MethodError::Rpc(code, text)) => {
            trace::record_error(services.traces, code);
            let (caller, id) = (&access.caller, &access.connection.id);
            let method = message.inbound.method();
            services.audit.refused_message(caller, id, method, code);
            Ok(match message.inbound.request_id() {
                Some(id) => call.answer_now(compose::error(id, code, &text)),
                // Nobody waits for the answer to a notification.
                None => MethodOutcome::Taken,
            })
        }
        Err(MethodError::Limited(refusal)) => {
            trace::record_error(services.traces, ErrorCode::LimitReached);
            let (caller, id) = (&access.caller, &access.connection.id);
            let method = message.inbound.method();
            services
                .audit
                .refused_message(caller, id, method, ErrorCode::LimitReached);
            Ok(call.refused(refusal))
        }
    }
}

/// Puts an answer that belongs to no session on the connection's stream.
pub async fn post_answer(
    services: &MethodServices,
    connection: &ConnectionToken,
    message: ClientMessage<'_>,
    answer: MethodAnswer,
) -> Result<(), GatewayError> {
    let MethodAnswer {
        message: answer,
        key,
        ..
    } = answer;
    // The same request with the same content has its answer already, or will get this one.
    match services
        .store
        .post(
            &connection.id,
            Event::Message {
                message: answer.clone(),
            },
            &key,
        )
        .await?
    {
        // An earlier try of `session/new` was let in. If it got as far as the session, the answer
        // comes from there.
        PostOutcome::Known(Event::Watch { session, .. }) => {
            let (id, principal) = (&connection.id, &connection.principal);
            let created = services.store.attachment(&session, id, principal).await?;
            match created {
                Some(_) => Ok(()),
                None => post_fresh(services, connection, message, answer).await,
            }
        }
        PostOutcome::New { .. } | PostOutcome::Known(_) | PostOutcome::Delivered => Ok(()),
        PostOutcome::Full => Err(UNREAD.into()),
        PostOutcome::Conflict => {
            let id = message.inbound.id().unwrap_or("null");
            let error = compose::error(id, ErrorCode::IdReused, ID_REUSED);
            post_fresh(services, connection, message, error).await
        }
    }
}

/// For an answer to a request whose key is taken.
async fn post_fresh(
    services: &MethodServices,
    connection: &ConnectionToken,
    message: ClientMessage<'_>,
    answer: Bytes,
) -> Result<(), GatewayError> {
    let key = IdempotencyKey::of(&connection.id, None, message.inbound.bytes());
    let event = Event::Message { message: answer };
    let posted = services.store.post(&connection.id, event, &key).await?;
    not_full(posted)
}

/// A client that does not read its stream gets an answer that needs no stream.
pub fn not_full(posted: PostOutcome) -> Result<(), GatewayError> {
    match posted {
        PostOutcome::Full => Err(UNREAD.into()),
        PostOutcome::New { .. }
        | PostOutcome::Known(_)
        | PostOutcome::Delivered
        | PostOutcome::Conflict => Ok(()),
    }
}

const UNREAD: LimitRefusal = LimitRefusal {
    limit: LimitKind::Outbox,
    wait: None,
};

const ID_REUSED: &str = "this id was used on this connection for another request: use a fresh one";

const IN_A_BODY: &str = "this request is answered in the body of the POST that made it: to join \
    it, send it again with Accept: text/event-stream";

const OBSERVE_ONLY: &str = "this session token or credential lets its holder only watch: use \
    session/load or session/resume, or GET";

const NEEDS_CONNECTION: &str =
    "a session token alone is good for its session only: send initialize to open a connection";

const SESSION_CLOSED: &str =
    "the session is closed: open it again with session/load or session/resume";

/// Why a message is not carried out.
enum MethodError {
    Rpc(ErrorCode, String),
    Limited(LimitRefusal),
    Reject(GatewayError),
}

impl<E: Into<GatewayError>> From<E> for MethodError {
    fn from(error: E) -> Self {
        Self::Reject(error.into())
    }
}

/// The field is named in the text.
fn too_long(fault: TooLong) -> MethodError {
    invalid(fault.to_string())
}

fn invalid(text: impl Into<String>) -> MethodError {
    MethodError::Rpc(ErrorCode::InvalidParams, text.into())
}

struct MethodCall<'a> {
    services: &'a MethodServices,
    connection: &'a ConnectionToken,
    access: &'a RequestAccess,
    message: ClientMessage<'a>,
    /// The caller asks faster than it may.
    over_rate: Option<LimitRefusal>,
}

impl MethodCall<'_> {
    async fn run(&self) -> Result<MethodOutcome, MethodError> {
        let message = self.message.inbound;
        let (Some(method), Some(name)) = (message.method(), message.method_name()) else {
            return self.answer().await;
        };
        limits::check("method", name.len(), MAX_NAME).map_err(too_long)?;
        self.check_access(method)?;
        self.check_rate(method)?;
        if !method.takes(message.is_request()) {
            return Err(unknown_method(name));
        }
        match method {
            Method::NewSession => self.new_session().await,
            Method::Authenticate | Method::Logout => self.login().await,
            Method::LoadSession => self.attach(true).await,
            Method::ResumeSession => self.attach(false).await,
            Method::ForkSession => self.fork().await,
            Method::ListSessions => self.list().await,
            Method::DeleteSession => self.delete().await,
            Method::Prompt => {
                params::check_prompt(message)?;
                self.enqueue(CommandKind::Prompt, self.session().await?).await
            }
            Method::SetMode => self.set(CommandKind::SetMode).await,
            Method::SetConfigOption => self.set(CommandKind::SetConfigOption).await,
            Method::SetModel => self.set(CommandKind::SetModel).await,
            Method::CloseSession => self.enqueue(CommandKind::Close, self.session().await?).await,
            Method::Cancel => self.enqueue(CommandKind::Cancel, self.session().await?).await,
            Method::CancelRequest => self.cancel_request().await,
            Method::McpMessage => self.mcp_message().await,
            Method::Initialize => Err(MethodError::Rpc(
                ErrorCode::InvalidRequest,
                "this connection is initialized already: POST initialize without Acp-Connection-Id \
                 for another".into(),
            )),
            Method::Extension if message.session_id().is_some() => {
                self.enqueue(CommandKind::Extension, self.session().await?).await
            }
            Method::Extension
            | Method::Update
            | Method::RequestPermission
            | Method::ReadTextFile
            | Method::WriteTextFile
            | Method::CreateTerminal
            | Method::TerminalOutput
            | Method::WaitForTerminalExit
            | Method::ReleaseTerminal
            | Method::CreateElicitation
            | Method::Unknown => Err(unknown_method(name)),
        }
    }

    async fn set(&self, kind: CommandKind) -> Result<MethodOutcome, MethodError> {
        params::check_setting(self.message.inbound)?;
        self.enqueue(kind, self.session().await?).await
    }

    /// Whether what lets the request in is enough for what it asks.
    fn check_access(&self, method: Method) -> Result<(), MethodError> {
        let rules = method.rules();
        let may_observe = match rules.observer {
            ObserverMay::Send => true,
            ObserverMay::SendWithoutSessionToken => self.access.grant == PresentedToken::Absent,
            ObserverMay::NotSend => false,
        };
        if self.access.scope() == TokenScope::Observe && !may_observe {
            return Err(MethodError::Rpc(
                ErrorCode::ObserveOnly,
                OBSERVE_ONLY.into(),
            ));
        }
        if self.access.without_connection && rules.needs_connection {
            return Err(MethodError::Rpc(
                ErrorCode::InvalidRequest,
                NEEDS_CONNECTION.into(),
            ));
        }
        Ok(())
    }

    /// An observer may only read, and a token is valid for its own session only.
    fn may_answer(&self, session: &SessionId) -> bool {
        match &self.access.grant {
            _ if self.access.scope() == TokenScope::Observe => false,
            PresentedToken::Absent => true,
            PresentedToken::Invalid => false,
            PresentedToken::Valid(grant) => grant.session == *session,
        }
    }

    /// The session the message is about, if its agent is one for the caller.
    async fn session(&self) -> Result<SessionId, MethodError> {
        let session = self.named_session()?;
        if self.may_use(&session).await? {
            Ok(session)
        } else {
            Err(unknown_session(session.as_str()))
        }
    }

    async fn may_use(&self, session: &SessionId) -> Result<bool, MethodError> {
        let (rights, owner) = (self.access.caller.rights(), &self.connection.principal);
        Ok(self.services.agents.may_use(rights, session, owner).await?)
    }

    /// The session that is named. Header, payload and token must agree.
    fn named_session(&self) -> Result<SessionId, MethodError> {
        let named_session = self.message.inbound.session_id();
        if let (Some(named_session), Some(header)) = (named_session, self.message.session_header)
            && named_session != header
        {
            return Err(invalid(format!(
                "Acp-Session-Id is {}, but params.sessionId is {}",
                echo(header),
                echo(named_session)
            )));
        }
        let granted = match &self.access.grant {
            PresentedToken::Valid(grant) => Some(grant.session.as_str()),
            PresentedToken::Absent | PresentedToken::Invalid => None,
        };
        let text = named_session.or(self.message.session_header);
        let text = text.or(granted.filter(|_| self.access.without_connection));
        let text = text.ok_or_else(|| {
            invalid("params.sessionId is missing: send the id that session/new returned")
        })?;
        let fits = self.access.grant != PresentedToken::Invalid
            && granted.is_none_or(|granted| granted == text);
        let session = SessionId::parse(text).filter(|_| fits);
        let known = session.filter(|session| !self.is_revoked(session));
        known.ok_or_else(|| unknown_session(text))
    }

    /// A connection that was opened before the session was revoked cannot use it any more.
    fn is_revoked(&self, session: &SessionId) -> bool {
        let ConnectionToken {
            id,
            principal,
            issued,
            ..
        } = self.connection;
        let revocations = &self.services.issuer.revocations;
        revocations.is_revoked(principal, Some((id, *issued)), Some((session, *issued)))
    }

    fn command(&self, kind: CommandKind) -> Command {
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

    fn request(&self) -> Option<Arc<str>> {
        self.message.inbound.request_id().map(Arc::from)
    }

    fn key(&self) -> IdempotencyKey {
        IdempotencyKey::of(
            &self.connection.id,
            self.request().as_deref(),
            self.message.inbound.bytes(),
        )
    }

    /// An answer that is known at once.
    fn answer_now(&self, message: Bytes) -> MethodOutcome {
        let key = self.key();
        MethodOutcome::Answer(MethodAnswer {
            opens: None,
            message,
            key,
            refusal: None,
        })
    }

    fn enqueue_request(&self, kind: CommandKind, session: SessionId) -> EnqueueRequest {
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

    async fn enqueue(
        &self,
        kind: CommandKind,
        session: SessionId,
    ) -> Result<MethodOutcome, MethodError> {
        let mut enqueue = self.enqueue_request(kind, session);
        let inbox_terms = self.inbox_terms(kind).await?;
        enqueue.takes = inbox_terms.takes;
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
                EnqueueOutcome::Barred => return Err(inbox_terms.refusal_error()),
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

    /// For the audit log.
    fn record_decision(&self, decision: impl FnOnce() -> Decision) {
        let (caller, id) = (&self.access.caller, &self.connection.id);
        self.services.audit.record_done(caller, Some(id), decision);
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

    /// The caller reads a session that may be somebody else's.
    fn record_join(&self, session: &SessionId, observe: bool) {
        self.record_decision(|| Decision::SessionLoaded {
            session: session.clone(),
            observe,
        });
        if let PresentedToken::Valid(grant) = &self.access.grant
            && let Some(owner) = &grant.owner
        {
            self.record_decision(|| Decision::SessionShared {
                session: session.clone(),
                owner: owner.into(),
            });
        }
    }

    fn follow(&self, session: SessionId, command: Option<CommandId>, head: u64) -> MethodOutcome {
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

    /// Tells the holder of the connection's stream to tail the session.
    async fn watch(&self, session: &SessionId, after: u64) -> Result<(), MethodError> {
        let watch = Event::Watch {
            session: session.clone(),
            after,
        };
        let key = IdempotencyKey::of(&self.connection.id, None, b"");
        let posted = self.services.store.post(&self.connection.id, watch, &key);
        Ok(not_full(posted.await?)?)
    }

    /// Before work whose answer goes to the connection's stream: whether anybody reads that.
    async fn check_outbox(&self) -> Result<(), MethodError> {
        let (store, id) = (&self.services.store, &self.connection.id);
        if self.message.one_shot || store.has_outbox_room(id).await? {
            return Ok(());
        }
        Err(MethodError::Reject(UNREAD.into()))
    }

    /// A client's answer names its session in its id.
    async fn answer(&self) -> Result<MethodOutcome, MethodError> {
        let id = self.message.inbound.id();
        let id = id.and_then(|id| serde_json::from_str(id).ok());
        match self.routed_session(id).await? {
            Some(session) => self.enqueue(CommandKind::Answer, session).await,
            None => Ok(MethodOutcome::Taken),
        }
    }

    /// The session that an id of the agent's names, if the caller has a say in it.
    async fn routed_session(&self, id: Option<String>) -> Result<Option<SessionId>, MethodError> {
        let session = id.and_then(|id| SessionId::parse(id.split_once(':')?.0));
        let session =
            session.filter(|session| !self.is_revoked(session) && self.may_answer(session));
        match session {
            Some(session) if self.may_use(&session).await? => Ok(Some(session)),
            _ => Ok(None),
        }
    }
}

fn unknown_method(name: &str) -> MethodError {
    let text = format!("there is no method {}", echo(name));
    MethodError::Rpc(ErrorCode::MethodNotFound, text)
}

fn unknown_session(id: &str) -> MethodError {
    MethodError::Rpc(
        ErrorCode::ResourceNotFound,
        format!(
            "there is no session {}: create one with session/new",
            echo(id)
        ),
    )
}
