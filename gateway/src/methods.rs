//! One JSON-RPC message of a client becomes one step on the store.
//!
//! | file | contents |
//! |---|---|
//! | `params` | the params of each method, checked |
//! | `named_session` | the session that a message is about |
//! | `rate_limits` | messages of a caller that is at one of its limits |
//! | `enqueue` | commands that go into a session's inbox |
//! | `outbox` | answers that go into a connection's outbox |
//! | `lifecycle`, `attach`, `fork`, `list`, `cancel`, `login`, `mcp` | a method or two each |

use std::sync::Arc;

use baton_protocol::limits::{self, MAX_NAME, TooLong, echo};
use baton_protocol::method::ObserverMay;
use baton_protocol::{ErrorCode, Inbound, Method, compose};
use baton_session::audit::Decision;
use baton_session::command::{CommandKind, IdempotencyKey};
use baton_session::id::SessionId;
use baton_session::store::{Attachment, Store};
use baton_session::token::{ConnectionToken, TokenScope};
use bytes::Bytes;

use self::named_session::unknown_session;
use self::outbox::UNREAD;
pub use self::outbox::{not_full, post_answer};
#[cfg(any(fuzzing, test))]
pub use self::params::read_params;
use crate::access::{PresentedToken, RequestAccess};
use crate::agents::AgentCatalog;
use crate::audit::AuditTrail;
use crate::auth::token_issuer::TokenIssuer;
use crate::error::GatewayError;
use crate::limits::LimitRefusal;
use crate::metrics::GatewayMetrics;
use crate::stream::one_shot::FollowedRequest;
use crate::trace::{self, TraceSampling};

mod attach;
mod cancel;
mod enqueue;
mod fork;
mod lifecycle;
mod list;
mod login;
mod mcp;
mod named_session;
mod outbox;
mod params;
mod rate_limits;
#[cfg(test)]
mod tests;

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

    /// Why the caller has to wait, if that is the answer.
    pub fn refusal(&self) -> Option<LimitRefusal> {
        match self {
            Self::Answer(answer) => answer.refusal,
            _ => None,
        }
    }
}

impl MethodAnswer {
    pub fn message(&self) -> &Bytes {
        &self.message
    }

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
    /// The id of the session that `session/new` makes, where it has a name of its own.
    pub makes: Option<&'a SessionId>,
    /// Of a message that another door has made of a request of its own.
    pub door: Option<DoorTerms<'a>>,
}

/// The knowledge of a door about a request, beyond the message that it has made of it.
#[derive(Clone, Copy)]
pub struct DoorTerms<'a> {
    /// As its client sent it: by this it is recognised when it is sent again.
    pub request: &'a [u8],
    /// It was counted as a request of its caller with another message.
    pub counted: bool,
    /// A prompt only for a session that rests, and whose log ends with this event.
    pub at_rest: Option<u64>,
    /// Only what is known already: it is joined.
    pub joins: bool,
    /// A fork leaves its parent's log after this event.
    pub cut: Option<u64>,
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
        Err(MethodError::Reject(error)) => Err(error),
        Err(MethodError::Rpc(code, text)) => {
            trace::record_error(services.traces, code);
            let (caller, connection) = (&access.caller, &access.connection);
            let method = message.inbound.method();
            services
                .audit
                .refused_message(caller, connection, method, code);
            Ok(match message.inbound.request_id() {
                Some(id) => call.answer_now(compose::error(id, code, &text)),
                // Nobody waits for the answer to a notification.
                None => MethodOutcome::Taken,
            })
        }
        Err(MethodError::Limited(refusal)) => {
            trace::record_error(services.traces, ErrorCode::LimitReached);
            let (caller, connection) = (&access.caller, &access.connection);
            let method = message.inbound.method();
            let code = ErrorCode::LimitReached;
            services
                .audit
                .refused_message(caller, connection, method, code);
            Ok(call.refused(refusal))
        }
    }
}

const ID_REUSED: &str = "this id was used on this connection for another request: use a fresh one";

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

    /// Whether the access of the request covers its method.
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

    fn request(&self) -> Option<Arc<str>> {
        self.message.inbound.request_id().map(Arc::from)
    }

    fn key(&self) -> IdempotencyKey {
        let door = self.message.door.map(|door| door.request);
        IdempotencyKey::of(
            &self.connection.id,
            self.request().as_deref(),
            door.unwrap_or(self.message.inbound.bytes()),
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

    /// For the audit log.
    fn record_decision(&self, decision: impl FnOnce() -> Decision) {
        let (caller, id) = (&self.access.caller, &self.connection.id);
        self.services.audit.record_done(caller, Some(id), decision);
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
}

fn unknown_method(name: &str) -> MethodError {
    let text = format!("there is no method {}", echo(name));
    MethodError::Rpc(ErrorCode::MethodNotFound, text)
}
