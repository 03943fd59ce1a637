//! `/mcp`: streamable HTTP, of the revisions that begin with `initialize` and of the one that knows
//! no sessions. Which one a request is written in, it says itself.

use std::future::pending;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, header};
use axum::response::IntoResponse;
use baton_protocol::limits::MAX_NAME;
use baton_protocol::{Inbound, compose};
use baton_session::audit::Decision;
use baton_session::command::ClientCapabilities;
use baton_session::id::{ConnectionId, Partition};
use baton_session::revocation::Revocation;
use baton_session::token::{CONNECTION_LIFETIME, ConnectionToken};
use bytes::Bytes;
use serde_json::{Map, Value};
use tokio::time::{Duration, Instant};
use tracing::Instrument as _;

use super::post::{ReceivedBody, accepted, check_types, receive};
use crate::access::stream_authority::StreamAuthority;
use crate::app::App;
use crate::auth::Caller;
use crate::error::GatewayError;
use crate::http::headers::{self, AcceptedTypes, MCP_PROTOCOL_VERSION, MCP_SESSION_ID};
use crate::http::paths;
use crate::limits::{LimitRefusal, StreamPermit};
use crate::mcp::{
    self, CallError, ConversationScope, FollowedCall, MAX_ID, McpClient, McpClientCall, McpReply,
    McpRevision, RpcFault, SessionlessRequest, TurnFeed,
};
use crate::stream::feed::{self, FeedOutput};
use crate::stream::silent_feed::SilentFeed;
use crate::stream::sse;
use crate::trace;

const NO_SESSION: &str = "the Mcp-Session-Id header is missing: initialize answers with it";
const OTHER_REVISION: &str = "MCP-Protocol-Version is not the revision that initialize has settled";
const UNKNOWN_SCOPE: &str = "scope must be connection, request or shared";
const LONG_ID: &str = "\"id\" may have 256 bytes at most";
const PARAMS: &str = "params must be an object";

/// Who sends a message, and how.
struct McpSource<'a> {
    app: &'a Arc<App>,
    caller: &'a Caller,
    parts: &'a Parts,
    over_bytes: Option<LimitRefusal>,
}

pub async fn post(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request<Body>,
) -> Result<Response<Body>, GatewayError> {
    let (parts, body) = request.into_parts();
    let accepts = check_types(&parts.headers)?;
    let ReceivedBody {
        bytes,
        over_bytes,
        _reserved,
    } = receive(&app, &caller, &parts.headers, body).await?;
    let inbound = Inbound::read(bytes)?;
    let source = McpSource {
        app: &app,
        caller: &caller,
        parts: &parts,
        over_bytes,
    };
    let span = trace::span_from_message(app.config.traces, &parts, &inbound);
    let handled = source.receive(inbound, accepts);
    let response = handled.instrument(span.clone()).await.into_response();
    trace::record_response(&span, &response);
    Ok(response)
}

impl McpSource<'_> {
    async fn receive(
        &self,
        inbound: Inbound,
        accepts: AcceptedTypes,
    ) -> Result<Response<Body>, GatewayError> {
        let (app, headers) = (self.app, &self.parts.headers);
        trace::record_message(&trace::current(app.config.traces), Some(headers), &inbound);
        let params = serde_json::from_str(inbound.params());
        let params: Map<String, Value> = params.map_err(|_| GatewayError::NotAMessage(PARAMS))?;
        if inbound.request_id().is_some_and(|id| id.len() > MAX_ID) {
            return Err(GatewayError::NotAMessage(LONG_ID));
        }
        match (inbound.method_name(), inbound.request_id()) {
            (Some("initialize"), Some(id)) if !mcp::is_sessionless(headers, &params) => {
                self.initialize(id, &params)
            }
            (Some(name), Some(id)) => self.request(id, name, params, accepts).await,
            (Some(name), None) => self.notification(name, &params).await,
            (None, _) => {
                let call = self.session_call("null")?;
                or_request(mcp::answer_question(&call, &inbound).await)?;
                Ok(accepted())
            }
        }
    }

    /// Opens a session, which is nothing but a name for those requests that bring it.
    fn initialize(
        &self,
        id: &str,
        params: &Map<String, Value>,
    ) -> Result<Response<Body>, GatewayError> {
        self.count()?;
        let (revision, client, result) = mcp::initialize(params);
        let session = self.connection(revision, client);
        let app = self.app;
        app.audit.record_done(self.caller, Some(&session.id), || {
            Decision::ConnectionOpened { agent: None }
        });
        let ring = app.issuer.keys.ring();
        let token = ring.sign_connection(&session, CONNECTION_LIFETIME);
        let mut response = json(compose::result(id, result.to_string().as_bytes()));
        let token = HeaderValue::from_str(token.expose()).expect("a token is visible ASCII");
        let headers = response.headers_mut();
        headers.insert(MCP_SESSION_ID, token);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(response)
    }

    fn connection(&self, revision: McpRevision, client: McpClient) -> ConnectionToken {
        let (app, principal) = (self.app, &self.caller.principal);
        ConnectionToken {
            id: ConnectionId::mint(Partition::random(app.store.partitions())),
            principal: principal.to_string(),
            protocol_version: revision.mark(),
            client: ClientCapabilities {
                elicitation: client.elicits,
                ..ClientCapabilities::default()
            },
            agent: None,
            rights: self.caller.rights().mark(),
            issued: app.issuer.revocations.issue_time(principal, None),
            expires: 0,
        }
    }

    async fn request(
        &self,
        id: &str,
        method: &str,
        params: Map<String, Value>,
        accepts: AcceptedTypes,
    ) -> Result<Response<Body>, GatewayError> {
        let headers = &self.parts.headers;
        let call = if mcp::is_sessionless(headers, &params) {
            match SessionlessRequest::read(headers, method, &params) {
                Ok(request) => self.sessionless_call(id, request)?,
                Err(fault) => return Err(GatewayError::McpRequest(fault.answer(id))),
            }
        } else {
            self.session_call(id)?
        };
        let call_of_tool = method == "tools/call";
        let may_stream = call_of_tool || method == "subscriptions/listen";
        // A place for its stream in advance: a caller that gets none has asked for nothing.
        let permit = match &self.caller.allowance {
            Some(allowance) if may_stream => allowance.stream(|| None)?,
            _ => None,
        };
        if !call_of_tool && !method.starts_with("tasks/") && !method.starts_with("resources/") {
            self.count()?;
        }
        let (access, revision) = (call.access.clone(), call.revision);
        match mcp::handle(call, method, params).await? {
            McpReply::Message(message) => Ok(json(message)),
            McpReply::Fault(fault) if !revision.is_sessionless() => Ok(json(fault.answer(id))),
            McpReply::Fault(fault) if fault.is_unknown_method() => {
                Err(GatewayError::McpMethod(fault.answer(id)))
            }
            McpReply::Fault(fault) => Err(GatewayError::McpRequest(fault.answer(id))),
            McpReply::Listen(watch) => {
                let authority = StreamAuthority::of(self.caller).on(watch.connection());
                let streams = self.app.streams.clone();
                let authority = authority.with(permit);
                Ok(sse::respond(streams, *watch, authority, None, None))
            }
            McpReply::Stream(feed) => {
                let session = feed.session().clone();
                let mut response = if accepts.event_stream || accepts.anything {
                    self.stream(*feed, permit)
                } else {
                    self.whole(*feed, permit).await?
                };
                let answer = response.headers_mut();
                let browser = headers.contains_key(header::ORIGIN);
                self.app
                    .access
                    .stamp_token(&session, &access, browser, answer);
                Ok(response)
            }
        }
    }

    fn stream(&self, feed: TurnFeed, permit: Option<StreamPermit>) -> Response<Body> {
        let authority = self.authority(&feed, permit);
        sse::respond(self.app.streams.clone(), feed, authority, None, None)
    }

    fn authority(&self, feed: &TurnFeed, permit: Option<StreamPermit>) -> StreamAuthority {
        StreamAuthority::of(self.caller)
            .on(feed.connection())
            .with(permit)
            .reading(feed.session())
    }

    /// For a client that takes no streams: the result alone.
    async fn whole(
        &self,
        mut feed: TurnFeed,
        permit: Option<StreamPermit>,
    ) -> Result<Response<Body>, GatewayError> {
        const A_WHILE: Duration = Duration::from_secs(3600);
        let authority = self.authority(&feed, permit);
        let (app, mut last) = (self.app, None);
        loop {
            let deadline = Instant::now() + A_WHILE;
            let next = feed::next(&mut feed, deadline, pending());
            let output = tokio::select! {
                output = next => output,
                () = app.stop.cancelled() => return Err(GatewayError::Crowded),
                () = authority.lapses(&app.issuer.revocations) => {
                    return Err(GatewayError::Unauthenticated);
                }
            };
            match output {
                FeedOutput::Batch(batch) => {
                    last = batch.into_iter().last().map(|it| it.message).or(last);
                }
                FeedOutput::Idle => {}
                FeedOutput::End | FeedOutput::Reset | FeedOutput::Unreadable => break,
            }
        }
        Ok(json(last.unwrap_or_default()))
    }

    /// Nothing of a notification is answered.
    async fn notification(
        &self,
        name: &str,
        params: &Map<String, Value>,
    ) -> Result<Response<Body>, GatewayError> {
        if mcp::is_sessionless(&self.parts.headers, params) {
            return Ok(accepted());
        }
        let call = self.session_call("null")?;
        if name == "notifications/cancelled" {
            or_request(mcp::cancel(&call, params).await)?;
        }
        Ok(accepted())
    }

    /// A call on a session that `initialize` has opened.
    fn session_call(&self, id: &str) -> Result<McpClientCall, GatewayError> {
        let headers = &self.parts.headers;
        let session = verified_session(self.app, self.caller, headers)?;
        let revision = McpRevision::of_mark(session.protocol_version);
        let revision = revision.ok_or(GatewayError::UnknownConnection)?;
        if let Some(said) = headers::single(headers, &MCP_PROTOCOL_VERSION)? {
            match McpRevision::parse(said) {
                None => {
                    let fault = RpcFault::unsupported_revision(&said[..said.len().min(MAX_NAME)]);
                    return Err(GatewayError::McpRequest(fault.answer(id)));
                }
                Some(said) if said != revision => {
                    return Err(GatewayError::Header(OTHER_REVISION));
                }
                Some(_) => {}
            }
        }
        let client = McpClient {
            elicits: session.client.elicitation,
            takes_tasks: false,
        };
        self.call(id, session, revision, client)
    }

    /// A call that stands for itself.
    fn sessionless_call(
        &self,
        id: &str,
        request: SessionlessRequest,
    ) -> Result<McpClientCall, GatewayError> {
        let connection = self.connection(request.revision, request.client);
        self.call(id, connection, request.revision, request.client)
    }

    fn call(
        &self,
        id: &str,
        session: ConnectionToken,
        revision: McpRevision,
        client: McpClient,
    ) -> Result<McpClientCall, GatewayError> {
        let (app, caller, headers) = (self.app, self.caller, &self.parts.headers);
        let connection = app.access.call_connection(caller, headers, &session)?;
        Ok(McpClientCall {
            services: app.mcp.clone(),
            access: app.access.of_call(caller, headers, connection)?,
            mcp_session: session.id,
            revision,
            scope: scope(&self.parts.uri, app.config.mcp.scope)?,
            client,
            agent: paths::agent_in_path(&self.parts.uri).map(Arc::from),
            id: id.into(),
            over_bytes: self.over_bytes,
        })
    }

    fn count(&self) -> Result<(), GatewayError> {
        match self.over_bytes {
            Some(refusal) => Err(refusal.into()),
            None => self.caller.count_request(),
        }
    }
}

/// The rest of a stream that was cut, or one on which nothing is said: what there is to say belongs
/// to calls.
pub async fn get(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request<Body>,
) -> Result<Response<Body>, GatewayError> {
    let (parts, _) = request.into_parts();
    let accepts = headers::accepts(&parts.headers);
    if !accepts.event_stream && !accepts.anything {
        return Err(GatewayError::Accept("text/event-stream"));
    }
    let source = McpSource {
        app: &app,
        caller: &caller,
        parts: &parts,
        over_bytes: None,
    };
    let call = source.session_call("null")?;
    let permit = match &caller.allowance {
        Some(allowance) => allowance.stream(|| None)?,
        None => None,
    };
    let last = headers::single(&parts.headers, &headers::LAST_EVENT_ID)?;
    match last.and_then(FollowedCall::parse) {
        Some((follow, seen)) => {
            source.count()?;
            app.metrics.resumed("mcp");
            let feed = or_request(follow.go_on(call, seen).await)?;
            let feed = feed.ok_or(GatewayError::NoSession)?;
            Ok(source.stream(feed, permit))
        }
        None => {
            let authority = StreamAuthority::of(&caller);
            let authority = authority.on(&call.access.connection).with(permit);
            let silent = SilentFeed::default();
            Ok(sse::respond(
                app.streams.clone(),
                silent,
                authority,
                None,
                None,
            ))
        }
    }
}

/// The session is over on every gateway. What it has started goes on.
pub async fn delete(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, GatewayError> {
    let session = verified_session(&app, &caller, &headers)?;
    let closed = session.id.clone();
    let over = Revocation::of_ended(session.id, &caller.principal);
    app.store.revoke(&over).await?;
    // Here at once, whatever becomes of the signal.
    app.issuer.revocations.add(over);
    app.audit
        .record_done(&caller, Some(&closed), || Decision::ConnectionClosed {});
    Ok((StatusCode::OK, [(header::CONTENT_LENGTH, "0")]))
}

fn verified_session(
    app: &App,
    caller: &Caller,
    headers: &HeaderMap,
) -> Result<ConnectionToken, GatewayError> {
    let token = headers::single(headers, &MCP_SESSION_ID)?;
    let token = token.ok_or(GatewayError::Header(NO_SESSION))?;
    app.access.verify_mcp_session(caller, token)
}

/// `?scope=`, or what the operator has chosen.
fn scope(uri: &Uri, default: ConversationScope) -> Result<ConversationScope, GatewayError> {
    let fields = uri.query().unwrap_or_default().split('&');
    let mut named = fields.filter_map(|field| field.strip_prefix("scope="));
    match (named.next(), named.next()) {
        (None, _) => Ok(default),
        (Some(name), None) => {
            ConversationScope::parse(name).ok_or(GatewayError::Header(UNKNOWN_SCOPE))
        }
        _ => Err(GatewayError::Header(UNKNOWN_SCOPE)),
    }
}

/// Nobody is told what else was wrong.
fn or_request<T>(outcome: Result<T, CallError>) -> Result<Option<T>, GatewayError> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(CallError::Request(error)) => Err(error),
        Err(_) => Ok(None),
    }
}

fn json(message: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::from(message));
    let json = HeaderValue::from_static(headers::JSON);
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
