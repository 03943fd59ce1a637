//! A WebSocket: the connection's stream and its POSTs on one wire. A client that asked to resume
//! gets a cursor with every message and may come back with it after a cut.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::ws::{CloseFrame, Message as Frame, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::http::{HeaderValue, Response};
use axum::response::IntoResponse as _;
use baton_protocol::limits::MAX_MESSAGE;
use baton_protocol::{CloseCode, ErrorCode, Inbound, Method, PROTOCOL_VERSION, compose};
use baton_session::id::{ConnectionId, LogId, Partition};
use baton_session::store::StreamId;
use baton_session::token::{CONNECTION_LIFETIME, ConnectionToken, TokenScope};
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use serde::Deserialize;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::connection_feed::ConnectionFeed;
use super::leave::Leave;
use super::{Feed as _, Next, Outgoing, Start};
use crate::app::App;
use crate::auth::{Caller, ticket};
use crate::dispatch::{self, Message, Outcome, dispatch};
use crate::edge::{self, CONNECTION_ID};
use crate::error::Reject;
use crate::handlers::initialize::{Socket, initialize};
use crate::limits::{Limit, Permit, place};
use crate::metered::Gauge;
use crate::pass::{self, Brought};
use crate::standing::Standing;
use crate::trace;

const STOPPING: Refusal = (CloseCode::GoingAway, "the gateway stops: come back");
const LOST: Refusal = (
    CloseCode::ServiceRestart,
    "the store lost the end of a log: come back",
);
const LAPSED: Refusal = (
    CloseCode::CredentialLapsed,
    "the credential has expired or was revoked: come back with a new one",
);
const TAKEN: Refusal = (
    CloseCode::Normal,
    "detached, or taken over by another socket",
);
/// Nearly every message fits. It is kept by each socket, and cleared before each look at what has come; for a
/// larger message there is more as long as it takes.
const READ_BUFFER: usize = 4 << 10;
const FAREWELL: Duration = Duration::from_secs(1);
/// How long a new socket may stay silent.
const PATIENCE: Duration = Duration::from_secs(30);

/// The peer of the socket, and its rights.
#[derive(Clone)]
pub struct Party {
    pub caller: Caller,
    pub grant: Brought,
    /// The agent that the path names.
    pub agent: Option<Arc<str>>,
    /// Counts what it receives.
    pub gauge: Gauge,
}

pub fn accept(
    app: Arc<App>,
    party: Party,
    permit: Option<Permit>,
    upgrade: WebSocketUpgrade,
    resumable: bool,
) -> Response<Body> {
    let id = ConnectionId::mint(Partition::random(app.store.partitions()));
    // Its access is checked now, and not when its first message comes.
    let issued = app.mint.revoked.issue_time(&party.caller.principal, None);
    let connection = ConnectionToken {
        id: id.clone(),
        principal: party.caller.principal.to_string(),
        protocol_version: PROTOCOL_VERSION,
        client: Default::default(),
        // Settled by `initialize`.
        agent: None,
        rights: party.caller.rights().mark(),
        issued,
        expires: 0,
    };
    let token = app
        .mint
        .keys
        .ring()
        .sign_connection(&connection, CONNECTION_LIFETIME);
    let open = app.drain.enter();
    let mut response = upgrade
        .max_message_size(MAX_MESSAGE)
        .max_frame_size(MAX_MESSAGE)
        .read_buffer_size(READ_BUFFER)
        .protocols([ticket::PROTOCOL])
        .on_upgrade(move |socket| async move {
            let (_counted, _open) = (app.metrics.stream_guard(), open);
            let offered = Socket {
                id,
                issued,
                resumable,
            };
            talk(app, party, permit, socket, offered).await;
        })
        .into_response();
    let token = HeaderValue::from_str(token.expose()).expect("a token is visible ASCII");
    response.headers_mut().insert(CONNECTION_ID, token);
    response
}

async fn talk(
    app: Arc<App>,
    party: Party,
    mut permit: Option<Permit>,
    mut socket: WebSocket,
    offered: Socket,
) {
    let resumable = offered.resumable;
    party.gauge.start(app.inflight.of(&party.caller.principal));
    let opened = match open(&app, &party, &mut socket, offered).await {
        Ok(Some(opened)) => opened,
        Ok(None) => return count_refusal(&app, &party),
        Err(refusal) => return close(&mut socket, refusal).await,
    };
    party.gauge.done();
    if let Some(permit) = &mut permit {
        permit.rename(place(&opened.connection.id, None));
    }
    let (mut sink, stream) = socket.split();
    let ended = CancellationToken::new();
    let standing = Standing::of(&party.caller).on(&opened.connection);
    let scope = match party.caller.rights().scope() {
        TokenScope::Observe => TokenScope::Observe,
        TokenScope::Control => party.grant.scope(),
    };
    let reader = tokio::spawn(read(
        app.clone(),
        stream,
        party,
        opened.connection.clone(),
        standing.clone(),
        ended.clone(),
    ));
    let farewell = write(
        &app,
        &mut sink,
        standing,
        scope,
        opened,
        resumable,
        ended.clone(),
    )
    .await;
    if let Some((code, reason)) = farewell {
        let (code, reason) = (code.value(), Utf8Bytes::from_static(reason));
        let _ = sink
            .send(Frame::Close(Some(CloseFrame { code, reason })))
            .await;
    }
    ended.cancel();
    let _ = reader.await;
    // Also sends our half of a close that the client began.
    let _ = timeout(FAREWELL, sink.close()).await;
}

type Refusal = (CloseCode, &'static str);

struct Opened {
    connection: ConnectionToken,
    cursor: Option<String>,
    /// The answer to `initialize`.
    answer: Option<Bytes>,
}

#[derive(Deserialize)]
struct ResumeFrame {
    resume: Resume,
}

#[derive(Deserialize)]
struct Resume {
    connection: String,
    cursor: Option<String>,
}

/// The first frame: `initialize`, or the cursor of an earlier socket. `None` if the client left.
async fn open(
    app: &App,
    party: &Party,
    socket: &mut WebSocket,
    offered: Socket,
) -> Result<Option<Opened>, Refusal> {
    let (caller, agent) = (&party.caller, party.agent.as_deref());
    let standing = Standing::of(caller).since(offered.id.clone(), offered.issued);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let received = tokio::select! {
            biased;
            _ = standing.lapses(&app.mint.revoked) => return Err(lapsed(app, &offered.id)),
            received = timeout_at(deadline, socket.recv()) => received,
        };
        let Ok(received) = received else {
            return Err((CloseCode::ProtocolError, "nothing was sent"));
        };
        let Some(Ok(frame)) = received else {
            return Ok(None);
        };
        let Frame::Text(text) = frame else { continue };
        if offered.resumable
            && let Ok(ResumeFrame { resume }) = serde_json::from_str(&text)
        {
            let connection = edge::verify(&resume.connection, app, caller).map_err(|_| {
                (
                    CloseCode::UnknownConnection,
                    "no such connection: send initialize",
                )
            })?;
            if resume.cursor.as_deref().is_some_and(|cursor| cursor != "0") {
                app.metrics.resumed("websocket");
            }
            return Ok(Some(Opened {
                connection,
                cursor: resume.cursor,
                answer: None,
            }));
        }
        let message = Inbound::read(Bytes::copy_from_slice(text.as_bytes()))
            .map_err(|_| (CloseCode::ProtocolError, "not a JSON-RPC message"))?;
        if message.method() != Some(Method::Initialize) {
            return Err((
                CloseCode::ProtocolError,
                "the first message must be initialize",
            ));
        }
        let allowance = caller.allowance.as_ref();
        let over = allowance.and_then(|allowance| allowance.receive(text.len()));
        let opened = initialize(app, caller, &message, agent, Some(offered), over).await;
        let opened = opened.map_err(|_| {
            (
                CloseCode::TryAgainLater,
                "the session store cannot be reached",
            )
        })?;
        return Ok(Some(Opened {
            connection: opened.connection,
            cursor: Some("0".into()),
            answer: Some(opened.answer),
        }));
    }
}

fn lapsed(app: &App, connection: &ConnectionId) -> Refusal {
    if app.mint.revoked.was_given_up(connection) {
        TAKEN
    } else {
        LAPSED
    }
}

async fn close(socket: &mut WebSocket, (code, reason): Refusal) {
    let (code, reason) = (code.value(), Utf8Bytes::from_static(reason));
    let _ = socket
        .send(Frame::Close(Some(CloseFrame { code, reason })))
        .await;
}

/// Writes the feed until it or the client ends. Returns how to say goodbye, if there is a need to.
async fn write(
    app: &Arc<App>,
    sink: &mut SplitSink<WebSocket, Frame>,
    standing: Standing,
    scope: TokenScope,
    opened: Opened,
    resumable: bool,
    ended: CancellationToken,
) -> Option<Refusal> {
    let unavailable = Some((
        CloseCode::TryAgainLater,
        "the session store cannot be reached",
    ));
    let wake = Arc::new(Notify::new());
    let stream = StreamId {
        connection: opened.connection.id.clone(),
        session: None,
    };
    let Ok(outbox) = app
        .hub
        .subscribe(&LogId::Outbox(opened.connection.id.clone()), wake.clone())
        .await
    else {
        return unavailable;
    };
    let holder = app.ledger.hold(stream.clone());
    let Ok(registered) = app
        .store
        .open_stream(&stream, &opened.connection.principal, &holder.name)
        .await
    else {
        return unavailable;
    };
    let cursor = opened
        .cursor
        .or_else(|| registered.and_then(|opened| opened.written.cursor));
    let cursor = cursor.filter(|cursor| cursor != "0");
    let feed = ConnectionFeed::open(
        app.clone(),
        opened.connection,
        scope,
        holder.name.clone(),
        outbox,
        wake,
        cursor.as_deref(),
    );
    let Ok(mut feed) = feed.await else {
        return unavailable;
    };
    let start = feed.start();
    if let Some(reset) = reset(app, &start) {
        said(app, sink.send(reset).await)?;
    }
    if let Some(answer) = opened.answer {
        let answer = Outgoing {
            cursor: start.cursor,
            message: answer,
        };
        said(app, sink.send(frame(answer, resumable)).await)?;
    }
    let mut leave = Leave::new(app.clone(), Some(holder.connection().clone()));
    let mut keep_alive = Instant::now() + app.config.keep_alive;
    loop {
        let deadline = leave.deadline(keep_alive);
        let next = tokio::select! {
            biased;
            _ = ended.cancelled() => return None,
            _ = holder.lost.cancelled() => return Some(TAKEN),
            _ = app.stop.cancelled() => return Some(STOPPING),
            _ = standing.lapses(&app.mint.revoked) => {
                return Some(lapsed(app, holder.connection()));
            }
            next = super::next(&mut feed, deadline, leave.news()) => next,
        };
        match next {
            Next::Idle if leave.is_due(&mut feed).await => return Some(STOPPING),
            Next::Idle if Instant::now() < keep_alive => continue,
            Next::Idle => said(app, sink.send(Frame::Ping(Bytes::new())).await)?,
            Next::End => return Some(TAKEN),
            // One that cannot go on from a cursor has to begin anew.
            Next::Reset if !resumable => {
                app.metrics.resets.inc();
                return Some(LOST);
            }
            // Not when it is back: there it would be waited again for what is lost.
            Next::Reset => {
                leave.wrote();
                let start = feed.start();
                holder.record(&start.cursor);
                if let Some(reset) = reset(app, &start) {
                    said(app, sink.send(reset).await)?;
                }
            }
            Next::Batch(batch) => {
                leave.wrote();
                app.metrics.events.inc_by(batch.len() as u64);
                if let Some(last) = batch.last() {
                    holder.record(&last.cursor);
                }
                for outgoing in batch {
                    said(app, sink.feed(frame(outgoing, resumable)).await)?;
                }
                said(app, sink.flush().await)?;
            }
        }
        keep_alive = Instant::now() + app.config.keep_alive;
    }
}

/// The reset message for a client that cannot resume where it was.
fn reset(app: &App, start: &Start) -> Option<Frame> {
    let reason = start.reset?;
    app.metrics.resets.inc();
    let text = format!("{{\"cursor\":\"{}\",\"reset\":\"{reason}\"}}", start.cursor);
    Some(Frame::Text(text.into()))
}

/// `None` if the client is gone, or given up because it does not read.
fn said(app: &App, outcome: Result<(), axum::Error>) -> Option<()> {
    let error = match outcome {
        Ok(()) => return Some(()),
        Err(error) => error,
    };
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<std::io::Error>();
        if io.is_some_and(|io| io.kind() == std::io::ErrorKind::TimedOut) {
            app.metrics.stalled("websocket");
            return None;
        }
        cause = error.source();
    }
    None
}

fn frame(outgoing: Outgoing, resumable: bool) -> Frame {
    let Outgoing { cursor, message } = outgoing;
    // Messages were text when they came in, or were written by us.
    let text = Utf8Bytes::try_from(message).unwrap_or_else(|_| Utf8Bytes::from_static("null"));
    if resumable {
        Frame::Text(format!("{{\"cursor\":\"{cursor}\",\"message\":{text}}}").into())
    } else {
        Frame::Text(text)
    }
}

async fn read(
    app: Arc<App>,
    mut stream: SplitStream<WebSocket>,
    party: Party,
    connection: ConnectionToken,
    standing: Standing,
    ended: CancellationToken,
) {
    let _ended = ended.clone().drop_guard();
    loop {
        let frame = tokio::select! {
            frame = stream.next() => frame,
            _ = ended.cancelled() => return,
        };
        match frame {
            // It is about to be closed. That may take a while, if the client does not read.
            Some(Ok(Frame::Text(_))) if standing.is_over(&app.mint.revoked) => {}
            Some(Ok(Frame::Text(text))) => {
                if let Some(allowance) = &party.caller.allowance {
                    let slowed = tokio::select! {
                        slowed = allowance.pace() => slowed,
                        _ = ended.cancelled() => return,
                    };
                    if let Some(limit) = slowed {
                        app.metrics.limited(limit);
                    }
                }
                let bytes = Bytes::copy_from_slice(text.as_bytes());
                if receive(&app, &party, &connection, bytes).await.is_err() {
                    return;
                }
                party.gauge.done();
            }
            Some(Ok(Frame::Close(_)) | Err(_)) | None => return count_refusal(&app, &party),
            Some(Ok(Frame::Ping(payload) | Frame::Pong(payload))) => {
                party.gauge.skip_control_frame(payload.len());
            }
            // It is no message of the protocol.
            Some(Ok(Frame::Binary(_))) => party.gauge.done(),
        }
    }
}

/// A socket that was cut because its message did not fit is counted as others that are refused.
fn count_refusal(app: &App, party: &Party) {
    if party.gauge.has_refused() {
        app.metrics.limited(Limit::InflightBytes);
        tracing::info!("cut a WebSocket: too much is being received at once");
    }
}

/// Handles one message of the client. A message that cannot be accepted is answered on the stream;
/// if even that is impossible the socket ends, so that no message is taken for accepted that was
/// not.
async fn receive(
    app: &App,
    party: &Party,
    connection: &ConnectionToken,
    bytes: Bytes,
) -> Result<(), Reject> {
    let allowance = party.caller.allowance.as_ref();
    let over = allowance.and_then(|allowance| allowance.receive(bytes.len()));
    let (token, inbound) = match read_message(bytes.clone()) {
        Ok(read) => read,
        Err(reject) => return refuse(app, connection, &bytes, reject).await,
    };
    let message = Message {
        inbound: &inbound,
        session_header: None,
        agent: party.agent.as_deref(),
        one_shot: false,
        over,
    };
    let (caller, grant) = (&party.caller, &party.grant);
    let pass = pass::on_socket(app, caller, connection, grant, token.as_deref());
    let taken = async {
        if let Outcome::Answer(answer) = dispatch(app, &pass, message).await? {
            dispatch::post_answer(app, connection, message, answer).await?;
        }
        Ok(())
    };
    let span = trace::message(app, &connection.id, &inbound);
    taken.instrument(span).await
}

fn read_message(bytes: Bytes) -> Result<(Option<String>, Inbound), Reject> {
    let mut inbound = Inbound::read(bytes)?;
    Ok((inbound.take_session_token()?, inbound))
}

async fn refuse(
    app: &App,
    connection: &ConnectionToken,
    bytes: &Bytes,
    reject: Reject,
) -> Result<(), Reject> {
    let (code, text) = match &reject {
        Reject::NotJson(why) => (ErrorCode::ParseError, format!("not JSON: {why}")),
        Reject::NotAMessage(why) => (ErrorCode::InvalidRequest, (*why).to_owned()),
        _ => return Err(reject),
    };
    let event = baton_session::event::Event::Message {
        message: compose::error("null", code, &text),
    };
    let key = baton_session::command::IdempotencyKey::of(&connection.id, None, bytes);
    let posted = app.store.post(&connection.id, event, &key).await?;
    dispatch::not_full(posted)
}
