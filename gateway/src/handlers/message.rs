//! The way of one JSON-RPC message from a client, by whichever carrier: its session token is taken
//! out, its access is checked, its method is called, and its answer is put where it belongs. POST
//! and WebSocket differ in how bytes come in, in what they say about access, and in where answers
//! go.

use axum::http::HeaderMap;
use baton_protocol::Inbound;
use baton_session::id::SessionId;
use baton_session::token::ConnectionToken;

use crate::access::{PresentedToken, RequestAccess};
use crate::app::App;
use crate::auth::Caller;
use crate::error::GatewayError;
use crate::http::headers::{self, SESSION_ID};
use crate::limits::{LimitRefusal, StreamPermit};
use crate::methods::{ClientMessage, MethodOutcome, dispatch, post_answer};

/// A message's caller and carrier.
pub struct MessageSource<'a> {
    pub caller: &'a Caller,
    /// The agent that the path names.
    pub agent: Option<&'a str>,
    /// The caller has sent more bytes than it may.
    pub over_bytes: Option<LimitRefusal>,
    pub carrier: MessageCarrier<'a>,
}

pub enum MessageCarrier<'a> {
    Post {
        /// They name connection, session and session token.
        headers: &'a HeaderMap,
        /// The answer travels in the body of this POST.
        one_shot: bool,
    },
    Socket {
        connection: &'a ConnectionToken,
        /// The session token of the socket.
        grant: &'a PresentedToken,
    },
}

pub struct HandledMessage {
    pub access: RequestAccess,
    pub reply: MessageReply,
    /// A session that the message has opened for its client.
    pub opens: Option<SessionId>,
    /// Why the caller has to wait, if that is the answer.
    pub refusal: Option<LimitRefusal>,
}

pub enum MessageReply {
    /// The answer, if there is one, comes on a stream.
    OnStream,
    /// In the body of the POST, which has this place among the caller's streams.
    InBody(MethodOutcome, Option<StreamPermit>),
}

/// The envelope was read before, once; all that is needed of it travels in `inbound`.
pub async fn handle(
    app: &App,
    source: MessageSource<'_>,
    inbound: &mut Inbound,
) -> Result<HandledMessage, GatewayError> {
    let session_header = source.carrier.session_header()?;
    let token = inbound.take_session_token()?;
    let named = inbound.session_id().or(session_header);
    let access = source.access(app, token.as_deref(), named)?;
    let session = inbound.session_id().and_then(SessionId::parse);
    app.config
        .top_use
        .count(&source.caller.principal, session.as_ref());
    let one_shot = source.carrier.is_one_shot();
    let permit = source.reserve_stream(&access, inbound.is_request())?;
    let message = ClientMessage {
        inbound,
        session_header,
        agent: source.agent,
        one_shot,
        over_bytes: source.over_bytes,
        door: None,
        makes: None,
    };
    let outcome = dispatch(&app.methods, &access, message).await?;
    let (opens, refusal) = (outcome.opens().cloned(), outcome.refusal());
    let reply = match outcome {
        outcome if one_shot => MessageReply::InBody(outcome, permit),
        MethodOutcome::Answer(answer) => {
            post_answer(&app.methods, &access.connection, message, answer).await?;
            MessageReply::OnStream
        }
        _ => MessageReply::OnStream,
    };
    Ok(HandledMessage {
        access,
        reply,
        opens,
        refusal,
    })
}

impl<'a> MessageCarrier<'a> {
    fn is_one_shot(&self) -> bool {
        matches!(self, Self::Post { one_shot: true, .. })
    }

    fn session_header(&self) -> Result<Option<&'a str>, GatewayError> {
        match self {
            Self::Post { headers, .. } => headers::single(headers, &SESSION_ID),
            Self::Socket { .. } => Ok(None),
        }
    }
}

impl MessageSource<'_> {
    fn access(
        &self,
        app: &App,
        token: Option<&str>,
        session: Option<&str>,
    ) -> Result<RequestAccess, GatewayError> {
        let (caller, access) = (self.caller, &app.access);
        match &self.carrier {
            MessageCarrier::Post { headers, .. } => {
                access.of_request(caller, headers, token, session)
            }
            MessageCarrier::Socket { connection, grant } => {
                Ok(access.of_socket_message(caller, connection, grant, token))
            }
        }
    }

    /// A place for the answer's body in advance: a caller that gets none has asked for nothing, and
    /// may ask again.
    fn reserve_stream(
        &self,
        access: &RequestAccess,
        is_request: bool,
    ) -> Result<Option<StreamPermit>, GatewayError> {
        let MessageCarrier::Post { one_shot, .. } = self.carrier else {
            return Ok(None);
        };
        if access.without_connection && is_request && !one_shot {
            return Err(GatewayError::Accept(
                "text/event-stream: without a connection the answer comes in the body",
            ));
        }
        let allowance = self.caller.allowance.as_ref();
        match allowance.filter(|_| one_shot && is_request) {
            Some(allowance) => Ok(allowance.stream(|| None)?),
            None => Ok(None),
        }
    }
}
