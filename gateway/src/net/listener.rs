//! Where connections come in. With TLS each has its handshake in a task of its own: nobody waits
//! for somebody else's.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;

use crate::metrics::GatewayMetrics;
use crate::net::byte_meter::MessageGauge;
use crate::net::connection::{self, ConnectionInfo, ConnectionSettings};
use crate::net::connection_limits::ConnectionSlots;
use crate::net::peer::ClientPeer;
use crate::net::socket::{ClientSocket, SocketListener};
use crate::net::tls::TlsCertificate;
use crate::net::transport::TransportConfig;

/// A handshake never gets longer than this.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How many may be under way. One more, and the oldest is given up: who means it is done in
/// moments.
const HANDSHAKES: usize = 1024;
/// How long is waited for a descriptor, before it is tried again.
const PAUSE: Duration = Duration::from_millis(500);

/// Lets connections in until the gateway stops accepting. Returns when the last of them has ended,
/// WebSockets aside.
pub async fn accept_connections(
    mut sockets: SocketListener,
    router: Router,
    transport: TransportConfig,
    settings: Arc<ConnectionSettings>,
    metrics: Arc<GatewayMetrics>,
) {
    let tasks = TaskTracker::new();
    let mut handshakes = PendingHandshakes::default();
    let connections = ConnectionSlots::new(transport.connections, metrics);
    loop {
        let accepted = tokio::select! {
            accepted = accept(&mut sockets, &connections) => accepted,
            () = settings.closed.cancelled() => break,
        };
        let Some((mut socket, address)) = accepted else {
            continue;
        };
        // An IPv4 client of an IPv6 socket.
        let address = address.ip().to_canonical();
        let trusted = transport.proxies.trust(address);
        let Some(slot) = connections.admit(address, trusted) else {
            continue;
        };
        let end = slot.end();
        let secure = transport.tls.is_some();
        let link = ConnectionInfo {
            peer: ClientPeer { address, secure },
            gave_up: socket.gave_up(),
            trusted,
            used: slot.use_of(),
            gauge: MessageGauge::default(),
        };
        socket.hold_slot(slot);
        let (router, settings) = (router.clone(), settings.clone());
        match transport.tls.clone() {
            None => {
                tasks.spawn(
                    end.run_until_cancelled_owned(connection::serve(
                        socket, link, router, settings,
                    )),
                );
            }
            Some(tls) => {
                let tracker = tasks.clone();
                let task = tasks.spawn(async move {
                    let shaken =
                        end.run_until_cancelled(shake_hands(socket, tls, &link, &settings));
                    let Some(Some(stream)) = shaken.await else {
                        return;
                    };
                    let serving = connection::serve(stream, link, router, settings);
                    tracker.spawn(end.run_until_cancelled_owned(serving));
                });
                handshakes.begin(task.abort_handle());
            }
        }
    }
    drop(sockets);
    tasks.close();
    tasks.wait().await;
}

/// Those that have to make room are gone before the next one comes. `None`: none could be taken.
async fn accept(
    sockets: &mut SocketListener,
    connections: &ConnectionSlots,
) -> Option<(ClientSocket, SocketAddr)> {
    let _ = timeout(PAUSE, connections.room_made()).await;
    match sockets.accept().await {
        Ok(accepted) => Some(accepted),
        Err(error) => {
            tracing::error!(%error, "cannot accept a connection");
            connections.shed();
            sleep(PAUSE).await;
            None
        }
    }
}

async fn shake_hands(
    socket: ClientSocket,
    tls: TlsCertificate,
    link: &ConnectionInfo,
    settings: &ConnectionSettings,
) -> Option<tokio_rustls::server::TlsStream<ClientSocket>> {
    let limit = settings.request_timeout.min(HANDSHAKE);
    let handshake = TlsAcceptor::from(tls.config()).accept(socket);
    let peer = link.peer.address;
    tokio::select! {
        done = timeout(limit, handshake) => match done {
            Ok(Ok(stream)) => return Some(stream),
            Ok(Err(error)) => tracing::debug!(%peer, %error, "a TLS handshake failed"),
            Err(_) => tracing::debug!(%peer, "a TLS handshake took too long"),
        },
        () = settings.closed.cancelled() => {}
    }
    None
}

/// Those under way, and some that are done.
#[derive(Default)]
struct PendingHandshakes(VecDeque<AbortHandle>);

impl PendingHandshakes {
    fn begin(&mut self, task: AbortHandle) {
        if self.0.len() >= HANDSHAKES {
            self.0.retain(|task| !task.is_finished());
        }
        if self.0.len() >= HANDSHAKES
            && let Some(oldest) = self.0.pop_front()
        {
            oldest.abort();
        }
        self.0.push_back(task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    #[tokio::test]
    async fn one_too_many_costs_the_oldest_that_is_not_done() {
        let mut handshakes = PendingHandshakes::default();
        let done = tokio::spawn(async {});
        let handle = done.abort_handle();
        done.await.unwrap();
        handshakes.begin(handle);
        let mut stuck: Vec<_> = (0..HANDSHAKES)
            .map(|_| tokio::spawn(pending::<()>()))
            .collect();
        for task in &stuck {
            handshakes.begin(task.abort_handle());
        }
        // The one that was done has made room.
        tokio::task::yield_now().await;
        assert!(!stuck[0].is_finished());
        handshakes.begin(tokio::spawn(pending::<()>()).abort_handle());
        assert!((&mut stuck[0]).await.unwrap_err().is_cancelled());
        assert!(!stuck[1].is_finished());
        assert_eq!(handshakes.0.len(), HANDSHAKES);
    }
}
