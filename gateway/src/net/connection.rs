//! One connection of a client: HTTP/1.1 or HTTP/2, with its limits and timeouts.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::net::byte_meter::{MessageGauge, MeteredStream};
use crate::net::connection_limits::ConnectionUse;
use crate::net::header_timeout::{HeaderTimeout, REST};
use crate::net::peer::ClientPeer;
use crate::net::socket::StallFlag;

/// The maximum size of a request's line and headers. Their number may be 100 on HTTP/1.1, hyper's
/// default.
const HEAD_BYTES: usize = 64 << 10;
/// On one HTTP/2 connection. A client may have a stream for each of its sessions, and a balancer
/// many clients on one connection.
const STREAMS: u32 = 1000;
/// HTTP/2 connections are pinged so often.
const PING: Duration = Duration::from_secs(30);

/// The options that connections need.
pub struct ConnectionSettings {
    /// How long a client may take for the head of a request.
    pub request_timeout: Duration,
    /// How long a client may leave unread what is there for it.
    pub stall: Duration,
    /// Fires when nobody can come any more.
    pub closed: CancellationToken,
}

/// The state that all requests of a connection share.
#[derive(Clone)]
pub struct ConnectionInfo {
    /// The peer of the socket.
    pub peer: ClientPeer,
    pub gave_up: StallFlag,
    /// A trusted proxy is.
    pub trusted: bool,
    pub used: ConnectionUse,
    /// For messages, if it becomes a WebSocket.
    pub gauge: MessageGauge,
}

/// Until the client leaves, or all is said after the gateway has stopped accepting. A WebSocket
/// goes on beyond that.
pub async fn serve<S>(
    stream: S,
    link: ConnectionInfo,
    router: Router,
    settings: Arc<ConnectionSettings>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let address = link.peer.address;
    let header_timeout = HeaderTimeout::new(settings.request_timeout, link.trusted);
    let stream = MeteredStream {
        stream,
        header_timeout: header_timeout.clone(),
        gauge: link.gauge.clone(),
    };
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        let busy = link.used.begin();
        request.extensions_mut().insert(link.clone());
        let answer = router.call(request);
        async move {
            let answer = answer.await.unwrap_or_else(|never| match never {});
            Ok::<_, Infallible>(busy.until_written(answer))
        }
    });
    let protocols = protocols(&settings, &header_timeout);
    let mut connection =
        pin!(protocols.serve_connection_with_upgrades(TokioIo::new(stream), service));
    let mut closing = false;
    let mut protocol_unknown = pin!(header_timeout.protocol_unknown());
    loop {
        tokio::select! {
            // Received bytes are handled before timers that depend on them.
            biased;
            served = connection.as_mut() => {
                if let Err(error) = served {
                    tracing::debug!(peer = %address, %error, "a connection broke");
                }
                return;
            }
            () = settings.closed.cancelled(), if !closing => {
                closing = true;
                connection.as_mut().graceful_shutdown();
            }
            () = &mut protocol_unknown => {
                tracing::debug!(
                    peer = %address,
                    "closed connection: no request within the timeout"
                );
                return;
            }
        }
    }
}

fn protocols(
    settings: &ConnectionSettings,
    header_timeout: &HeaderTimeout,
) -> Builder<TokioExecutor> {
    let request_timeout = settings.request_timeout;
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(header_timeout.clone())
        .header_read_timeout(REST)
        .max_buf_size(HEAD_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        // A client that reads slowly answers pings slowly, and gets as long as for reading.
        .keep_alive_interval(request_timeout.min(PING))
        .keep_alive_timeout(request_timeout.max(settings.stall))
        .max_concurrent_streams(STREAMS)
        // No WebSocket here (RFC 8441): browsers open an HTTP/1.1 connection for that if HTTP/2
        // does not offer it.
        .max_header_list_size(HEAD_BYTES as u32);
    builder
}
