//! GET: the connection's stream, a session's stream, or a WebSocket.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, FromRequestParts as _, State, WebSocketUpgrade};
use axum::http::{HeaderMap, Request, Response, header};
use axum::response::IntoResponse;
use baton_session::audit::Decision;
use baton_session::id::SessionId;
use baton_session::route::DeliveryPath;
use baton_session::store::{AttachOutcome, AttachParams, Attachment};
use baton_session::token::{ConnectionToken, TokenScope};

use super::websocket;
use crate::access::stream_authority::StreamAuthority;
use crate::access::{self, PresentedToken};
use crate::app::App;
use crate::auth::Caller;
use crate::error::GatewayError;
use crate::http::{headers, paths};
use crate::limits::stream_name;
use crate::net::connection::ConnectionInfo;
use crate::stream::registered_stream::{self, RegisteredStream};
use crate::stream::session_feed::{FeedReader, FeedStart, SessionFeed};
use crate::stream::silent_feed::SilentFeed;
use crate::stream::sse;

pub async fn get(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request<Body>,
) -> Result<Response<Body>, GatewayError> {
    if headers::wants_websocket(request.headers()) {
        return upgrade(&app, caller, request).await;
    }
    open(&app, &caller, request.headers()).await
}

async fn upgrade(
    app: &Arc<App>,
    caller: Caller,
    request: Request<Body>,
) -> Result<Response<Body>, GatewayError> {
    let asked = headers::single(request.headers(), &headers::RESUME)? == Some("1");
    let query = request.uri().query().unwrap_or_default();
    let said = |word: &str| query.split('&').any(|part| part == word);
    let options = websocket::SocketOptions {
        resumable: asked || said("resume=1"),
        names: said("names=1"),
    };
    let grant = app.access.of_upgrade(&caller, request.headers())?;
    let permit = match &caller.allowance {
        Some(allowance) => allowance.stream(|| None)?,
        None => None,
    };
    let agent = paths::agent_in_path(request.uri()).map(Arc::from);
    let link = request.extensions().get::<ConnectionInfo>();
    let gauge = link.map(|link| link.gauge.clone()).unwrap_or_default();
    let (mut parts, _) = request.into_parts();
    match WebSocketUpgrade::from_request_parts(&mut parts, &()).await {
        Ok(upgrade) => {
            let party = websocket::SocketPeer {
                caller,
                grant,
                agent,
                gauge,
            };
            let app = app.clone();
            Ok(websocket::accept(app, party, permit, upgrade, options))
        }
        Err(rejection) => Ok(rejection.into_response()),
    }
}

async fn open(
    app: &Arc<App>,
    caller: &Caller,
    headers: &HeaderMap,
) -> Result<Response<Body>, GatewayError> {
    let accepts = headers::accepts(headers);
    if !accepts.event_stream && !accepts.anything {
        return Err(GatewayError::Accept("text/event-stream"));
    }
    let cursor = headers::single(headers, &headers::LAST_EVENT_ID)?;
    let named = headers::single(headers, &headers::SESSION_ID)?;
    let access = app.access.of_request(caller, headers, None, named)?;
    let mut connection = access.connection.clone();
    let (scope, without_connection) = (access.scope(), access.without_connection);
    let session = match &access.grant {
        PresentedToken::Valid(grant) => {
            // Naming another one than the token does is the same as naming none that exists.
            let granted = grant.session.as_str();
            let named = if without_connection {
                Some(named.unwrap_or(granted))
            } else {
                named
            };
            named.map(|named| if named == granted { named } else { "" })
        }
        PresentedToken::Invalid => named.map(|_| ""),
        PresentedToken::Absent => named,
    };
    if let PresentedToken::Valid(grant) = &access.grant
        && without_connection
    {
        connection.id = access::reader_connection(grant);
    }
    let permit = match &caller.allowance {
        Some(allowance) => allowance.stream(|| Some(stream_name(&connection.id, session)))?,
        None => None,
    };
    let mut authority = StreamAuthority::of(caller).on(&connection).with(permit);
    // An observer's right is limited in time.
    if without_connection && scope == TokenScope::Observe {
        authority = authority.until(connection.expires);
    }
    let mut response = match session {
        None => connection_stream(app, authority, connection, scope, cursor).await?,
        Some(session) => {
            session_stream(
                app,
                authority,
                connection,
                scope,
                without_connection,
                session,
                cursor,
            )
            .await?
        }
    };
    if cursor.is_some_and(|cursor| cursor != "0") {
        let kind = session.map_or("connection", |_| "session");
        app.metrics.resumed(kind);
    }
    if without_connection {
        let browser = headers.contains_key(header::ORIGIN);
        app.access
            .renew_token(&access, browser, response.headers_mut())
            .await;
    }
    Ok(response)
}

async fn connection_stream(
    app: &Arc<App>,
    authority: StreamAuthority,
    connection: ConnectionToken,
    scope: TokenScope,
    cursor: Option<&str>,
) -> Result<Response<Body>, GatewayError> {
    let (feed, holder) =
        registered_stream::open_connection(&app.streams, connection, scope, cursor).await?;
    Ok(sse::respond(
        app.streams.clone(),
        feed,
        authority,
        Some(holder),
        None,
    ))
}

async fn session_stream(
    app: &Arc<App>,
    authority: StreamAuthority,
    connection: ConnectionToken,
    scope: TokenScope,
    watches: bool,
    session: &str,
    cursor: Option<&str>,
) -> Result<Response<Body>, GatewayError> {
    let nobodys = authority.clone();
    let Some(session) = SessionId::parse(session) else {
        return unopened(app, nobodys, &connection);
    };
    let (rights, owner) = (authority.caller.rights(), &connection.principal);
    if !app.agents.may_use(rights, &session, owner).await? {
        return unopened(app, nobodys, &connection);
    }
    let authority = authority.reading(&session);
    if authority.is_over(&app.issuer.revocations) {
        return unopened(app, nobodys, &connection);
    }
    let mut stream = RegisteredStream::open(&app.streams, &connection, Some(&session)).await?;
    let Some(mut attachment) = stream.attachment.take() else {
        return unopened(app, nobodys, &connection);
    };
    // A caller with a session token alone joins by reading.
    if watches && attachment.route.joined().is_none() {
        let joined = join_as_observer(app, &authority.caller, &connection, &session).await?;
        attachment = joined.unwrap_or(attachment);
    }
    let unopened = match attachment.route.joined() {
        Some(_) => None,
        None => Some(
            app.streams
                .stream_registry
                .unopened(&connection.id)
                .ok_or(GatewayError::TooManyStreams)?,
        ),
    };
    let from = match stream.cursor(&app.streams, cursor).await? {
        Some(cursor) => FeedStart::After(cursor.parse().unwrap_or(UNREADABLE)),
        None => FeedStart::Joined,
    };
    let RegisteredStream { tail, holder, .. } = stream;
    let reader = FeedReader {
        session,
        connection: connection.id,
        principal: connection.principal,
        scope,
        via: DeliveryPath::Session,
        turn_notices: connection.client.turn_notices,
        holder: Some(holder.name.clone()),
    };
    let feed = SessionFeed::open(&app.streams, reader, tail, attachment, from).await?;
    Ok(sse::respond(
        app.streams.clone(),
        feed,
        authority,
        Some(holder),
        unopened,
    ))
}

async fn join_as_observer(
    app: &App,
    caller: &Caller,
    connection: &ConnectionToken,
    session: &SessionId,
) -> Result<Option<Attachment>, GatewayError> {
    let watch = AttachParams {
        session: session.clone(),
        principal: connection.principal.clone(),
        connection: connection.id.clone(),
        request: "".into(),
        cwd: String::new(),
        replay: false,
        one_shot: false,
        watched: false,
        setup: Default::default(),
        observe: true,
        only_open: false,
    };
    let AttachOutcome::Done(joined) = app.store.attach(&watch).await? else {
        return Ok(None);
    };
    record_join(app, caller, connection, session);
    Ok(Some(*joined))
}

/// Records an observer that joined by reading, for the audit log.
fn record_join(app: &App, caller: &Caller, connection: &ConnectionToken, session: &SessionId) {
    let id = Some(&connection.id);
    app.audit
        .record_done(caller, id, || Decision::SessionLoaded {
            session: session.clone(),
            observe: true,
        });
    if *connection.principal != *caller.principal {
        app.audit
            .record_done(caller, id, || Decision::SessionShared {
                session: session.clone(),
                owner: (&connection.principal).into(),
            });
    }
}

/// A cursor that is no cursor cannot be honoured, and the client is told so on the stream.
const UNREADABLE: baton_session::cursor::Cursor = baton_session::cursor::Cursor {
    seq: u64::MAX,
    nonce: baton_session::id::Nonce(0),
    phase: baton_session::cursor::CursorPhase::Live,
};

/// No such session, revoked, or not this principal's: the stream is open and stays silent, so that
/// a client learns from the answer to its load what is wrong, and nobody learns which ids exist.
fn unopened(
    app: &Arc<App>,
    authority: StreamAuthority,
    connection: &ConnectionToken,
) -> Result<Response<Body>, GatewayError> {
    let unopened = app
        .streams
        .stream_registry
        .unopened(&connection.id)
        .ok_or(GatewayError::TooManyStreams)?;
    Ok(sse::respond(
        app.streams.clone(),
        SilentFeed::default(),
        authority,
        None,
        Some(unopened),
    ))
}
