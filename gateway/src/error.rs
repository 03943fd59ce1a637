//! The only place that turns failures into HTTP statuses.
//!
//! An SDK client takes most statuses as the end of its connection, so a status is for errors of the
//! request as such. Errors of its content are answered on the stream.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use baton_protocol::inbound::{Ambiguous, Unreadable};
use baton_protocol::limits::MAX_MESSAGE_TEXT;
use baton_protocol::{ErrorCode, compose};
use baton_session::store;
use bytes::Bytes;

use crate::limits::{InflightRefusal, LimitRefusal};

pub const STORE_IS_FULL: &str =
    "the store is nearly full: new sessions are refused, running ones go on; try again later";

/// The code of an error, on the response that carries it, for traces.
#[derive(Clone, Copy)]
pub struct ErrorCodeMark(pub ErrorCode);

/// Why a request was refused, on the response, for the audit log.
#[derive(Clone, Copy)]
pub struct RefusalReason(pub &'static str);

/// The content of an error, on the response that carries it, for doors with another form.
#[derive(Clone, Debug)]
pub struct ErrorDetail {
    pub message: String,
    /// The door's own name for it.
    pub code: Option<&'static str>,
    /// The field that it is about.
    pub param: Option<String>,
}

/// An error of a door beside ACP's: it names the error itself, for its clients.
#[derive(Debug)]
pub struct DoorFault {
    pub kind: FaultKind,
    pub code: &'static str,
    /// The field of the request that it is about.
    pub param: Option<String>,
    pub message: String,
}

pub fn fault(
    kind: FaultKind,
    code: &'static str,
    param: Option<&str>,
    message: impl Into<String>,
) -> GatewayError {
    GatewayError::Door(Box::new(DoorFault {
        kind,
        code,
        param: param.map(str::to_owned),
        message: message.into(),
    }))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The request has to be another one.
    Invalid,
    NotFound,
    Forbidden,
    /// Not as things stand now.
    Conflict,
    /// Too much waits already.
    Busy,
    /// There is no room.
    Full,
    Failed,
}

#[derive(Debug)]
pub enum GatewayError {
    /// Not JSON at all.
    NotJson(String),
    /// A batch, or not a JSON-RPC message.
    NotAMessage(&'static str),
    /// The header is missing, doubled or not readable.
    Header(&'static str),
    /// Unknown, forged, expired, foreign or revoked: one answer, so that nothing can be learned.
    UnknownConnection,
    /// The caller is unknown: no credential, or none that is valid.
    Unauthenticated,
    /// The token is bound to a key, and nothing good proves that the caller has it.
    Proof,
    /// The same, where only tokens that are bound to a key are taken.
    Unbound,
    /// The credential is good, and not enough for this gateway.
    Forbidden,
    /// The credential lets its holder only watch.
    ObserveOnly,
    /// The identity provider does not answer as it should.
    Provider,
    /// Addressed by a name that is not ours.
    Host,
    /// A web page from elsewhere.
    Origin,
    /// The forwarding headers of the proxies are inconsistent.
    Forwarded(&'static str),
    /// A credential came by a way on which others could read it.
    Cleartext,
    /// The body stopped coming.
    Slow,
    /// Sent as another type than this one.
    ContentType(&'static str),
    Accept(&'static str),
    TooLarge,
    /// Of all callers together too much is being received.
    Crowded,
    Method,
    /// The same, where there is only something to read.
    ReadOnly,
    NotFound,
    /// Too many streams for sessions that this connection has not opened.
    TooManyStreams,
    /// The principal has no such session.
    NoSession,
    /// The session is not as its caller knows it: somebody else has asked something of it since.
    Moved,
    /// Not a session that was exported.
    Archive(String),
    /// Not something that can be revoked.
    Revocation(&'static str),
    /// There is nothing of the kind that an administrator has named.
    Operator(&'static str),
    /// Not an administrator, as far as the door can tell.
    NoAdministrator,
    /// There is nothing here that a backup could be taken of now.
    Backup(String),
    /// No such path on the administrators' port.
    NothingToAdminister,
    Door(Box<DoorFault>),
    /// A request of an MCP client that is refused as a whole, with the body of its answer.
    McpRequest(Bytes),
    /// A method that MCP does not have here, likewise.
    McpMethod(Bytes),
    /// The caller has taken too much.
    Limited(LimitRefusal),
    StoreFull,
    Store(store::Error),
}

impl From<store::Error> for GatewayError {
    fn from(error: store::Error) -> Self {
        Self::Store(error)
    }
}

impl From<Unreadable> for GatewayError {
    fn from(unreadable: Unreadable) -> Self {
        match unreadable {
            Unreadable::NotJson(why) => Self::NotJson(why),
            Unreadable::NotAMessage(why) => Self::NotAMessage(why),
        }
    }
}

impl From<Ambiguous> for GatewayError {
    fn from(_: Ambiguous) -> Self {
        Self::NotAMessage(
            "params has sessionId, _meta, or the session token in it twice: which one counts is \
             nobody's guess",
        )
    }
}

impl From<LimitRefusal> for GatewayError {
    fn from(refusal: LimitRefusal) -> Self {
        Self::Limited(refusal)
    }
}

impl From<InflightRefusal> for GatewayError {
    fn from(refusal: InflightRefusal) -> Self {
        match refusal {
            InflightRefusal::Share(refusal) => Self::Limited(refusal),
            InflightRefusal::Budget => Self::Crowded,
        }
    }
}

impl GatewayError {
    fn parts(&self) -> (StatusCode, ErrorCode, String) {
        use StatusCode as S;
        match self {
            Self::NotJson(why) => (
                S::BAD_REQUEST,
                ErrorCode::ParseError,
                format!("the body is not JSON: {why}"),
            ),
            Self::NotAMessage(why) => (S::BAD_REQUEST, ErrorCode::InvalidRequest, (*why).into()),
            Self::Header(why) => (S::BAD_REQUEST, ErrorCode::InvalidRequest, (*why).into()),
            Self::UnknownConnection => (
                S::NOT_FOUND,
                ErrorCode::UnknownConnection,
                "no such connection: send initialize to open one".into(),
            ),
            Self::Unauthenticated => (
                S::UNAUTHORIZED,
                ErrorCode::Unauthenticated,
                "send a valid credential with Authorization: Bearer".into(),
            ),
            Self::Proof => (
                S::UNAUTHORIZED,
                ErrorCode::Unauthenticated,
                "the token is bound to a key: send it with Authorization: DPoP, and a new proof \
                 for this request in the DPoP header"
                    .into(),
            ),
            Self::Unbound => (
                S::UNAUTHORIZED,
                ErrorCode::Unauthenticated,
                "send a valid token that is bound to a key with Authorization: DPoP, and a proof \
                 in the DPoP header"
                    .into(),
            ),
            Self::Forbidden => (
                S::FORBIDDEN,
                ErrorCode::Forbidden,
                "this credential is good, but its holder may not use this gateway: ask its \
                 operator"
                    .into(),
            ),
            Self::ObserveOnly => (
                S::FORBIDDEN,
                ErrorCode::ObserveOnly,
                "this credential lets its holder only list and watch sessions".into(),
            ),
            Self::Provider => (
                S::BAD_GATEWAY,
                ErrorCode::InternalError,
                "the identity provider does not answer as it should: try again, or see the \
                 gateway's log"
                    .into(),
            ),
            Self::Host => (
                S::FORBIDDEN,
                ErrorCode::InvalidRequest,
                "this gateway is not addressed by that name: its operator can allow it with \
                 --allow-host"
                    .into(),
            ),
            Self::Origin => (
                S::FORBIDDEN,
                ErrorCode::InvalidRequest,
                "pages from this origin may not use this gateway: its operator can allow it with \
                 --allow-origin"
                    .into(),
            ),
            Self::Forwarded(why) => (S::BAD_REQUEST, ErrorCode::InvalidRequest, (*why).into()),
            Self::Cleartext => (
                S::FORBIDDEN,
                ErrorCode::InvalidRequest,
                "use https: over http a credential can be read on its way, and this one may have \
                 been. If a proxy ends TLS, its operator must name it with --trust-proxy, and it \
                 must send X-Forwarded-Proto"
                    .into(),
            ),
            Self::Slow => (
                S::REQUEST_TIMEOUT,
                ErrorCode::InvalidRequest,
                "the body stopped coming: send the request again, as a whole".into(),
            ),
            Self::ContentType(expected) => (
                S::UNSUPPORTED_MEDIA_TYPE,
                ErrorCode::InvalidRequest,
                format!("send it with Content-Type: {expected}"),
            ),
            Self::Accept(what) => (
                S::NOT_ACCEPTABLE,
                ErrorCode::InvalidRequest,
                format!("the Accept header must allow {what}"),
            ),
            Self::TooLarge => (
                S::PAYLOAD_TOO_LARGE,
                ErrorCode::InvalidRequest,
                MAX_MESSAGE_TEXT.into(),
            ),
            Self::Crowded => (
                S::SERVICE_UNAVAILABLE,
                ErrorCode::LimitReached,
                "too much is being received at once (--max-inflight-bytes): try again".into(),
            ),
            Self::Method => (
                S::METHOD_NOT_ALLOWED,
                ErrorCode::InvalidRequest,
                "use POST, GET or DELETE".into(),
            ),
            Self::ReadOnly => (
                S::METHOD_NOT_ALLOWED,
                ErrorCode::InvalidRequest,
                "use GET".into(),
            ),
            Self::NotFound => (
                S::NOT_FOUND,
                ErrorCode::InvalidRequest,
                "nothing here: the endpoint is /acp, or /acp/NAME for an agent; for MCP /mcp"
                    .into(),
            ),
            Self::TooManyStreams => (
                S::NOT_FOUND,
                ErrorCode::LimitReached,
                "too many streams of sessions that this connection has not opened".into(),
            ),
            Self::NoSession => (
                S::NOT_FOUND,
                ErrorCode::ResourceNotFound,
                "there is no such session".into(),
            ),
            Self::Moved => (
                S::CONFLICT,
                ErrorCode::InvalidRequest,
                "the session went on meanwhile: read it, then try again".into(),
            ),
            Self::Archive(why) => (S::BAD_REQUEST, ErrorCode::InvalidRequest, why.clone()),
            Self::Revocation(why) => (S::BAD_REQUEST, ErrorCode::InvalidRequest, (*why).into()),
            Self::Operator(why) => (S::BAD_REQUEST, ErrorCode::InvalidRequest, (*why).into()),
            Self::NoAdministrator => (
                S::UNAUTHORIZED,
                ErrorCode::Unauthenticated,
                "this is for administrators: send the secret of --admin-token-file with \
                 Authorization: Bearer. Agents are never let in"
                    .into(),
            ),
            Self::Backup(why) => (S::CONFLICT, ErrorCode::InvalidRequest, why.clone()),
            Self::NothingToAdminister => (
                S::NOT_FOUND,
                ErrorCode::InvalidRequest,
                "nothing here: there are /revocations, /backup and /healthz".into(),
            ),
            Self::Door(fault) => {
                let (status, code) = fault.kind.parts();
                (status, code, fault.message.clone())
            }
            Self::McpRequest(_) => (S::BAD_REQUEST, ErrorCode::InvalidRequest, String::new()),
            Self::McpMethod(_) => (S::NOT_FOUND, ErrorCode::MethodNotFound, String::new()),
            Self::Limited(refusal) => (
                S::TOO_MANY_REQUESTS,
                ErrorCode::LimitReached,
                refusal.text().into_owned(),
            ),
            Self::StoreFull => (
                S::SERVICE_UNAVAILABLE,
                ErrorCode::StoreFull,
                STORE_IS_FULL.into(),
            ),
            Self::Store(store::Error::Unavailable(_)) => (
                S::SERVICE_UNAVAILABLE,
                ErrorCode::StoreUnavailable,
                "the session store cannot be reached: try again, repeating a request is safe"
                    .into(),
            ),
            Self::Store(store::Error::Broken(_)) => (
                S::INTERNAL_SERVER_ERROR,
                ErrorCode::InternalError,
                "internal error, see the gateway's log".into(),
            ),
        }
    }
}

impl FaultKind {
    fn parts(self) -> (StatusCode, ErrorCode) {
        use StatusCode as S;
        match self {
            Self::Invalid => (S::BAD_REQUEST, ErrorCode::InvalidParams),
            Self::NotFound => (S::NOT_FOUND, ErrorCode::ResourceNotFound),
            Self::Forbidden => (S::FORBIDDEN, ErrorCode::ObserveOnly),
            Self::Conflict => (S::CONFLICT, ErrorCode::InvalidRequest),
            Self::Busy => (S::TOO_MANY_REQUESTS, ErrorCode::QueueFull),
            Self::Full => (S::SERVICE_UNAVAILABLE, ErrorCode::StoreFull),
            Self::Failed => (S::INTERNAL_SERVER_ERROR, ErrorCode::InternalError),
        }
    }
}

impl GatewayError {
    fn detail(&self, message: String) -> ErrorDetail {
        let fault = match self {
            Self::Door(fault) => Some(fault),
            _ => None,
        };
        ErrorDetail {
            message,
            code: fault.map(|fault| fault.code),
            param: fault.and_then(|fault| fault.param.clone()),
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::UnknownConnection => "unknown_connection",
            Self::Unauthenticated => "unauthenticated",
            Self::Proof => "no_good_proof",
            Self::Unbound => "not_bound_to_a_key",
            Self::Forbidden => "claims",
            Self::ObserveOnly => "observe_only",
            Self::Host => "host",
            Self::Origin => "origin",
            Self::Forwarded(_) => "forwarded",
            Self::Cleartext => "cleartext",
            Self::NoSession => "no_such_session",
            Self::Door(fault) if fault.kind == FaultKind::NotFound => "no_such_session",
            Self::Limited(_) => "limit",
            Self::Store(_) | Self::StoreFull => "store",
            _ => "malformed",
        }
    }
}

impl IntoResponse for GatewayError {
    fn into_response(self) -> Response<Body> {
        if let Self::Store(error) = &self {
            tracing::error!(%error, "a request failed");
        }
        let (status, code, message) = self.parts();
        let refusal = match &self {
            Self::Limited(refusal) => Some(*refusal),
            _ => None,
        };
        let body = match (&refusal, &self) {
            (Some(refusal), _) => refusal.answer("null"),
            (None, Self::McpRequest(body) | Self::McpMethod(body)) => body.clone(),
            (None, _) => compose::error("null", code, &message),
        };
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        response
            .extensions_mut()
            .insert(RefusalReason(self.reason()));
        // For traces.
        response.extensions_mut().insert(ErrorCodeMark(code));
        response.extensions_mut().insert(self.detail(message));
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if let Some(refusal) = refusal {
            headers.extend(
                refusal
                    .retry_after()
                    .map(|wait| (header::RETRY_AFTER, wait)),
            );
            // For metrics.
            response.extensions_mut().insert(refusal);
            return response;
        }
        let challenge = match self {
            Self::Unauthenticated | Self::NoAdministrator => Some("Bearer"),
            Self::Proof => Some("DPoP error=\"invalid_dpop_proof\", algs=\"ES256 EdDSA\""),
            Self::Unbound => Some("DPoP algs=\"ES256 EdDSA\""),
            Self::Forbidden => Some("Bearer error=\"insufficient_scope\""),
            _ => None,
        };
        if let Some(challenge) = challenge {
            let challenge = HeaderValue::from_static(challenge);
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        if status == StatusCode::METHOD_NOT_ALLOWED {
            let allowed = match self {
                Self::ReadOnly => "GET, HEAD",
                _ => "POST, GET, DELETE",
            };
            headers.insert(header::ALLOW, HeaderValue::from_static(allowed));
        }
        response
    }
}
