//! A WebSocket: the connection's stream and its POSTs on one wire. This reads it;
//! `stream/websocket.rs` writes it.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::ws::{Message as Frame, WebSocket, WebSocketUpgrade};
use axum::http::{HeaderValue, Response};
use axum::response::IntoResponse as _;
use baton_protocol::limits::MAX_MESSAGE;
use baton_protocol::{CloseCode, ErrorCode, Inbound, Method, PROTOCOL_VERSION, compose};
use baton_session::id::{ConnectionId, Partition};
use baton_session::token::{CONNECTION_LIFETIME, ConnectionToken, TokenScope};
use bytes::Bytes;
use futures_util::stream::SplitStream;
use futures_util::{SinkExt as _, StreamExt as _};
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::initialize::{SocketConnection, initialize};
use super::message::{self, MessageCarrier, MessageSource};
use crate::access::PresentedToken;
use crate::access::stream_authority::StreamAuthority;
use crate::app::App;
use crate::auth::{Caller, ticket};
use crate::error::GatewayError;
use crate::http::headers::CONNECTION_ID;
use crate::limits::{LimitKind, StreamPermit, stream_name};
use crate::methods::not_full;
use crate::net::byte_meter::MessageGauge;
use crate::stream::websocket::{self, CloseReason, OpenedSocket};
use crate::trace;

/// Nearly every message fits. It is kept by each socket, and cleared before each look at what has
/// come; for a larger message there is more as long as it takes.
const READ_BUFFER: usize = 4 << 10;
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a new socket may stay silent.
const FIRST_MESSAGE: Duration = Duration::from_secs(30);

/// The peer of the socket, and its rights.
#[derive(Clone)]
pub struct SocketPeer {
    pub caller: Caller,
    pub grant: PresentedToken,
    /// The agent that the path names.
    pub agent: Option<Arc<str>>,
    /// Counts what it receives.
    pub gauge: MessageGauge,
}

/// What the client has asked of the socket.
#[derive(Clone, Copy)]
pub struct SocketOptions {
    /// Messages come with cursors.
    pub resumable: bool,
    /// The first frame names the gateway: pages cannot read the headers of an upgrade.
    pub names: bool,
}

pub fn accept(
    app: Arc<App>,
    peer: SocketPeer,
    permit: Option<StreamPermit>,
    upgrade: WebSocketUpgrade,
    options: SocketOptions,
) -> Response<Body> {
    let id = ConnectionId::mint(Partition::random(app.store.partitions()));
    // Its access is checked now, and not when its first message comes.
    let issued = app
        .issuer
        .revocations
        .issue_time(&peer.caller.principal, None);
    let connection = ConnectionToken {
        id: id.clone(),
        principal: peer.caller.principal.to_string(),
        protocol_version: PROTOCOL_VERSION,
        client: Default::default(),
        // Settled by `initialize`.
        agent: None,
        rights: peer.caller.rights().mark(),
        issued,
        expires: 0,
    };
    let token = app
        .issuer
        .keys
        .ring()
        .sign_connection(&connection, CONNECTION_LIFETIME);
    let open = app.drain.enter();
    let mut response = upgrade
        .max_message_size(MAX_MESSAGE)
        .max_frame_size(MAX_MESSAGE)
        .read_buffer_size(READ_BUFFER)
        .protocols([ticket::PROTOCOL])
        .on_upgrade(move |mut socket| async move {
            let (_counted, _open) = (app.metrics.stream_guard(), open);
            let offered = SocketConnection {
                id,
                issued,
                resumable: options.resumable,
            };
            if options.names {
                let named = json!({ "gateway": &*app.config.name }).to_string();
                let _ = socket.send(Frame::Text(named.into())).await;
            }
            serve_socket(app, peer, permit, socket, offered).await;
        })
        .into_response();
    let token = HeaderValue::from_str(token.expose()).expect("a token is visible ASCII");
    response.headers_mut().insert(CONNECTION_ID, token);
    response
}

async fn serve_socket(
    app: Arc<App>,
    peer: SocketPeer,
    mut permit: Option<StreamPermit>,
    mut socket: WebSocket,
    offered: SocketConnection,
) {
    let resumable = offered.resumable;
    peer.gauge.start(app.inflight.of(&peer.caller.principal));
    let opened = match open(&app, &peer, &mut socket, offered).await {
        Ok(Some(opened)) => opened,
        Ok(None) => return count_refusal(&app, &peer),
        Err(reason) => {
            let _ = socket.send(websocket::close_frame(reason)).await;
            return;
        }
    };
    peer.gauge.done();
    if let Some(permit) = &mut permit {
        permit.rename(stream_name(&opened.connection.id, None));
    }
    let (mut sink, stream) = socket.split();
    let ended = CancellationToken::new();
    let authority = StreamAuthority::of(&peer.caller).on(&opened.connection);
    let scope = match peer.caller.rights().scope() {
        TokenScope::Observe => TokenScope::Observe,
        TokenScope::Control => peer.grant.scope(),
    };
    let reader = tokio::spawn(read(
        app.clone(),
        stream,
        peer,
        opened.connection.clone(),
        authority.clone(),
        ended.clone(),
    ));
    let close_reason = websocket::write(
        &app.streams,
        &mut sink,
        authority,
        scope,
        opened,
        resumable,
        ended.clone(),
    )
    .await;
    if let Some(reason) = close_reason {
        let _ = sink.send(websocket::close_frame(reason)).await;
    }
    ended.cancel();
    let _ = reader.await;
    // Also sends our half of a close that the client began.
    let _ = timeout(CLOSE_TIMEOUT, sink.close()).await;
}

#[derive(Deserialize)]
struct ResumeFrame {
    resume: ResumeRequest,
}

#[derive(Deserialize)]
struct ResumeRequest {
    connection: String,
    cursor: Option<String>,
}

/// The first frame: `initialize`, or the cursor of an earlier socket. `None` if the client left.
async fn open(
    app: &App,
    peer: &SocketPeer,
    socket: &mut WebSocket,
    offered: SocketConnection,
) -> Result<Option<OpenedSocket>, CloseReason> {
    let (caller, agent) = (&peer.caller, peer.agent.as_deref());
    let authority = StreamAuthority::of(caller).since(offered.id.clone(), offered.issued);
    let deadline = Instant::now() + FIRST_MESSAGE;
    loop {
        let received = tokio::select! {
            biased;
            _ = authority.lapses(&app.issuer.revocations) => {
                return Err(websocket::lapsed(&app.streams, &offered.id));
            }
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
            let connection = app
                .access
                .verify_connection(caller, &resume.connection)
                .map_err(|_| {
                    (
                        CloseCode::UnknownConnection,
                        "no such connection: send initialize",
                    )
                })?;
            if resume.cursor.as_deref().is_some_and(|cursor| cursor != "0") {
                app.metrics.resumed("websocket");
            }
            return Ok(Some(OpenedSocket {
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
        let over_bytes = allowance.and_then(|allowance| allowance.receive(text.len()));
        let opened = initialize(app, caller, &message, agent, Some(offered), over_bytes).await;
        let opened = opened.map_err(|_| {
            (
                CloseCode::TryAgainLater,
                "the session store cannot be reached",
            )
        })?;
        return Ok(Some(OpenedSocket {
            connection: opened.connection,
            cursor: Some("0".into()),
            answer: Some(opened.answer),
        }));
    }
}

async fn read(
    app: Arc<App>,
    mut stream: SplitStream<WebSocket>,
    peer: SocketPeer,
    connection: ConnectionToken,
    authority: StreamAuthority,
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
            Some(Ok(Frame::Text(_))) if authority.is_over(&app.issuer.revocations) => {}
            Some(Ok(Frame::Text(text))) => {
                if let Some(allowance) = &peer.caller.allowance {
                    let slowed = tokio::select! {
                        slowed = allowance.wait_for_rate() => slowed,
                        _ = ended.cancelled() => return,
                    };
                    if let Some(limit) = slowed {
                        app.metrics.limited(limit);
                    }
                }
                let bytes = Bytes::copy_from_slice(text.as_bytes());
                if receive(&app, &peer, &connection, bytes).await.is_err() {
                    return;
                }
                peer.gauge.done();
            }
            Some(Ok(Frame::Close(_)) | Err(_)) | None => return count_refusal(&app, &peer),
            Some(Ok(Frame::Ping(payload) | Frame::Pong(payload))) => {
                peer.gauge.skip_control_frame(payload.len());
            }
            // It is no message of the protocol.
            Some(Ok(Frame::Binary(_))) => peer.gauge.done(),
        }
    }
}

/// A socket that was cut because its message did not fit is counted as others that are refused.
fn count_refusal(app: &App, peer: &SocketPeer) {
    if peer.gauge.has_refused() {
        app.metrics.limited(LimitKind::InflightBytes);
        tracing::info!("cut a WebSocket: too much is being received at once");
    }
}

/// Handles one message of the client. A message that cannot be accepted is answered on the stream;
/// if even that is impossible the socket ends, so that no message is taken for accepted that was
/// not.
async fn receive(
    app: &App,
    peer: &SocketPeer,
    connection: &ConnectionToken,
    bytes: Bytes,
) -> Result<(), GatewayError> {
    let allowance = peer.caller.allowance.as_ref();
    let over_bytes = allowance.and_then(|allowance| allowance.receive(bytes.len()));
    let source = MessageSource {
        caller: &peer.caller,
        agent: peer.agent.as_deref(),
        over_bytes,
        carrier: MessageCarrier::Socket {
            connection,
            grant: &peer.grant,
        },
    };
    let handled = match Inbound::read(bytes.clone()) {
        Ok(mut inbound) => {
            let span = trace::message_span(app.config.traces, &connection.id, &inbound);
            let handled = message::handle(app, source, &mut inbound);
            handled.instrument(span).await.map(drop)
        }
        Err(unreadable) => Err(unreadable.into()),
    };
    match handled {
        Ok(()) => Ok(()),
        Err(error) => refuse(app, connection, &bytes, error).await,
    }
}

async fn refuse(
    app: &App,
    connection: &ConnectionToken,
    bytes: &Bytes,
    error: GatewayError,
) -> Result<(), GatewayError> {
    let (code, text) = match &error {
        GatewayError::NotJson(why) => (ErrorCode::ParseError, format!("not JSON: {why}")),
        GatewayError::NotAMessage(why) => (ErrorCode::InvalidRequest, (*why).to_owned()),
        _ => return Err(error),
    };
    let event = baton_session::event::Event::Message {
        message: compose::error("null", code, &text),
    };
    let key = baton_session::command::IdempotencyKey::of(&connection.id, None, bytes);
    let posted = app.store.post(&connection.id, event, &key).await?;
    not_full(posted)
}
