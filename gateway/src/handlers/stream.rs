//! GET: the connection's stream, a session's stream, or a WebSocket.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, FromRequestParts as _, State, WebSocketUpgrade};
use axum::http::{HeaderMap, Request, Response, header};
use axum::response::IntoResponse;
use baton_session::audit::Decision;
use baton_session::id::{LogId, SessionId};
use baton_session::route::DeliveryPath;
use baton_session::store::{self, AttachOutcome, AttachParams, LastWritten, StreamId};
use baton_session::token::{ConnectionToken, TokenScope};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::agents::{self, of_sessions};
use crate::app::App;
use crate::audit;
use crate::auth::Caller;
use crate::connection::Link;
use crate::edge;
use crate::error::Reject;
use crate::limits::place;
use crate::pass::{self, Brought};
use crate::standing::Standing;
use crate::stream::connection_feed::ConnectionFeed;
use crate::stream::one_shot::Silence;
use crate::stream::session_feed::{From, Reader, SessionFeed};
use crate::stream::{sse, websocket};

/// How long the holder of a stream may take to say how far it has written, when another takes its place: it may be gone.
const LAST_WORD: Duration = Duration::from_millis(500);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

pub async fn get(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request<Body>,
) -> Result<Response<Body>, Reject> {
    if edge::wants_websocket(request.headers()) {
        return upgrade(&app, caller, request).await;
    }
    open(&app, &caller, request.headers()).await
}

async fn upgrade(
    app: &Arc<App>,
    caller: Caller,
    request: Request<Body>,
) -> Result<Response<Body>, Reject> {
    let asked = edge::single(request.headers(), &edge::RESUME)? == Some("1");
    let resumable = asked
        || request
            .uri()
            .query()
            .is_some_and(|query| query.split('&').any(|part| part == "resume=1"));
    let grant = pass::of_upgrade(app, &caller, request.headers())?;
    let permit = match &caller.allowance {
        Some(allowance) => allowance.stream(|| None)?,
        None => None,
    };
    let agent = agents::named(request.uri()).map(Arc::from);
    let link = request.extensions().get::<Link>();
    let gauge = link.map(|link| link.gauge.clone()).unwrap_or_default();
    let (mut parts, _) = request.into_parts();
    match WebSocketUpgrade::from_request_parts(&mut parts, &()).await {
        Ok(upgrade) => {
            let party = websocket::Party {
                caller,
                grant,
                agent,
                gauge,
            };
            let app = app.clone();
            Ok(websocket::accept(app, party, permit, upgrade, resumable))
        }
        Err(rejection) => Ok(rejection.into_response()),
    }
}

async fn open(
    app: &Arc<App>,
    caller: &Caller,
    headers: &HeaderMap,
) -> Result<Response<Body>, Reject> {
    let accepts = edge::accepts(headers);
    if !accepts.event_stream && !accepts.anything {
        return Err(Reject::Accept("text/event-stream"));
    }
    let cursor = edge::single(headers, &edge::LAST_EVENT_ID)?;
    let named = edge::single(headers, &edge::SESSION_ID)?;
    let pass = pass::pass(app, caller, headers, None, named)?;
    let mut connection = pass.connection.clone();
    let (scope, alone) = (pass.scope(), pass.alone);
    let session = match &pass.grant {
        Brought::Good(grant) => {
            // Naming another one than the token does is the same as naming none that exists.
            let granted = grant.session.as_str();
            let named = if alone {
                Some(named.unwrap_or(granted))
            } else {
                named
            };
            named.map(|named| if named == granted { named } else { "" })
        }
        Brought::Bad => named.map(|_| ""),
        Brought::Nothing => named,
    };
    if let Brought::Good(grant) = &pass.grant
        && alone
    {
        connection.id = pass::reader_of(grant);
    }
    let permit = match &caller.allowance {
        Some(allowance) => allowance.stream(|| Some(place(&connection.id, session)))?,
        None => None,
    };
    let mut standing = Standing::of(caller).on(&connection).with(permit);
    // An observer's right is limited in time.
    if alone && scope == TokenScope::Observe {
        standing = standing.until(connection.expires);
    }
    let mut response = match session {
        None => connection_stream(app, standing, connection, scope, cursor).await?,
        Some(session) => {
            session_stream(app, standing, connection, scope, alone, session, cursor).await?
        }
    };
    if cursor.is_some_and(|cursor| cursor != "0") {
        let kind = session.map_or("connection", |_| "session");
        app.metrics.resumed(kind);
    }
    if alone {
        let browser = headers.contains_key(header::ORIGIN);
        pass::renew(app, &pass, browser, response.headers_mut()).await;
    }
    Ok(response)
}

async fn connection_stream(
    app: &Arc<App>,
    standing: Standing,
    connection: ConnectionToken,
    scope: TokenScope,
    cursor: Option<&str>,
) -> Result<Response<Body>, Reject> {
    let wake = Arc::new(Notify::new());
    let outbox = app
        .hub
        .subscribe(&LogId::Outbox(connection.id.clone()), wake.clone())
        .await?;
    let stream = StreamId {
        connection: connection.id.clone(),
        session: None,
    };
    let holder = app.ledger.hold(stream.clone());
    let opened = app
        .store
        .open_stream(&stream, &connection.principal, &holder.name)
        .await?;
    let written = match opened {
        Some(opened) if cursor.is_none() => {
            last_written(app, &stream, &holder.name, opened.written).await?
        }
        _ => None,
    };
    let cursor = match cursor {
        Some("0") => None,
        cursor => cursor.or(written.as_deref()),
    };
    let feed = ConnectionFeed::open(
        app.clone(),
        connection,
        scope,
        holder.name.clone(),
        outbox,
        wake,
        cursor,
    )
    .await?;
    Ok(sse::respond(
        app.clone(),
        feed,
        standing,
        Some(holder),
        None,
    ))
}

async fn session_stream(
    app: &Arc<App>,
    standing: Standing,
    connection: ConnectionToken,
    scope: TokenScope,
    watches: bool,
    session: &str,
    cursor: Option<&str>,
) -> Result<Response<Body>, Reject> {
    let nobodys = standing.clone();
    let Some(session) = SessionId::parse(session) else {
        return unopened(app, nobodys, &connection);
    };
    let (rights, owner) = (standing.caller.rights(), &connection.principal);
    if !of_sessions::allowed(app, rights, &session, owner).await? {
        return unopened(app, nobodys, &connection);
    }
    let standing = standing.reading(&session);
    if standing.is_over(&app.mint.revoked) {
        return unopened(app, nobodys, &connection);
    }
    let wake = Arc::new(Notify::new());
    let subscription = app
        .hub
        .subscribe(&LogId::Session(session.clone()), wake.clone())
        .await?;
    let stream = StreamId {
        connection: connection.id.clone(),
        session: Some(session.clone()),
    };
    let holder = app.ledger.hold(stream.clone());
    let opened = app
        .store
        .open_stream(&stream, &connection.principal, &holder.name)
        .await?;
    let Some((written, mut attachment)) =
        opened.and_then(|opened| Some((opened.written, opened.attachment?)))
    else {
        return unopened(app, nobodys, &connection);
    };
    // A caller with a session token alone joins by reading.
    if watches && attachment.route.joined().is_none() {
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
        if let AttachOutcome::Done(joined) = app.store.attach(&watch).await? {
            attachment = *joined;
            told(app, &standing.caller, &connection, &session);
        }
    }
    let unopened = match attachment.route.joined() {
        Some(_) => None,
        None => Some(
            app.ledger
                .unopened(&connection.id)
                .ok_or(Reject::TooManyStreams)?,
        ),
    };
    let from = match cursor {
        Some("0") => From::Joined,
        Some(cursor) => From::After(cursor.parse().unwrap_or(UNREADABLE)),
        None => last_written(app, &stream, &holder.name, written)
            .await?
            .and_then(|cursor| cursor.parse().ok())
            .map_or(From::Joined, From::After),
    };
    let reader = Reader {
        session,
        connection: connection.id,
        principal: connection.principal,
        scope,
        via: DeliveryPath::Session,
        holder: Some(holder.name.clone()),
    };
    let feed = SessionFeed::open(app, reader, subscription, wake, attachment, from).await?;
    Ok(sse::respond(
        app.clone(),
        feed,
        standing,
        Some(holder),
        unopened,
    ))
}

/// How far a stream was written whose client does not say what it has. The holder that it is taken from records that when
/// it ends, which it does at once.
async fn last_written(
    app: &App,
    stream: &StreamId,
    holder: &str,
    mut written: LastWritten,
) -> store::Result<Option<String>> {
    let deadline = Instant::now() + LAST_WORD;
    while !written.is_final && Instant::now() < deadline {
        sleep(LOOK_AGAIN).await;
        let Some(later) = app.store.last_written(stream, holder).await? else {
            break;
        };
        written = later;
    }
    Ok(written.cursor)
}

/// Records an observer that joined by reading, for the audit log.
fn told(app: &App, caller: &Caller, connection: &ConnectionToken, session: &SessionId) {
    let id = Some(&connection.id);
    audit::done(app, caller, id, || Decision::SessionLoaded {
        session: session.clone(),
        observe: true,
    });
    if *connection.principal != *caller.principal {
        audit::done(app, caller, id, || Decision::SessionShared {
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

/// No such session, revoked, or not this principal's: the stream is open and stays silent, so that a client
/// learns from the answer to its load what is wrong, and nobody learns which ids exist.
fn unopened(
    app: &Arc<App>,
    standing: Standing,
    connection: &ConnectionToken,
) -> Result<Response<Body>, Reject> {
    let unopened = app
        .ledger
        .unopened(&connection.id)
        .ok_or(Reject::TooManyStreams)?;
    Ok(sse::respond(
        app.clone(),
        Silence::default(),
        standing,
        None,
        Some(unopened),
    ))
}
