//! Where connections come in. With TLS each has its handshake in a task of its own: nobody waits for
//! somebody else's.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;

use crate::app::App;
use crate::connection::{self, Link};
use crate::edge::peer::Peer;
use crate::socket::{Socket, Sockets};
use crate::tls::Tls;

/// A handshake never gets longer than this.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How many may be under way. One more, and the oldest is given up: who means it is done in moments.
const HANDSHAKES: usize = 1024;

/// Lets connections in until the gateway closes its doors. Returns when the last of them has ended,
/// WebSockets aside.
pub async fn open(mut sockets: Sockets, router: Router, app: Arc<App>) {
    let inside = TaskTracker::new();
    let mut handshakes = Handshakes::default();
    loop {
        let (socket, address) = tokio::select! {
            accepted = sockets.accept() => accepted,
            () = app.drain.closed.cancelled() => break,
        };
        let (router, app) = (router.clone(), app.clone());
        match app.config.transport.tls.clone() {
            None => {
                let link = link(&socket, address, false);
                inside.spawn(connection::serve(socket, link, router, app));
            }
            Some(tls) => {
                let tracker = inside.clone();
                let task = inside.spawn(async move {
                    let link = link(&socket, address, true);
                    let Some(stream) = shake_hands(socket, tls, &link, &app).await else {
                        return;
                    };
                    tracker.spawn(connection::serve(stream, link, router, app));
                });
                handshakes.begin(task.abort_handle());
            }
        }
    }
    drop(sockets);
    inside.close();
    inside.wait().await;
}

fn link(socket: &Socket, address: SocketAddr, secure: bool) -> Link {
    Link {
        peer: Peer {
            // An IPv4 client of an IPv6 socket.
            address: address.ip().to_canonical(),
            secure,
        },
        gave_up: socket.gave_up(),
    }
}

async fn shake_hands(
    socket: Socket,
    tls: Tls,
    link: &Link,
    app: &App,
) -> Option<tokio_rustls::server::TlsStream<Socket>> {
    let limit = app.config.transport.request_timeout.min(HANDSHAKE);
    let handshake = TlsAcceptor::from(tls.config()).accept(socket);
    let peer = link.peer.address;
    tokio::select! {
        done = timeout(limit, handshake) => match done {
            Ok(Ok(stream)) => return Some(stream),
            Ok(Err(error)) => tracing::debug!(%peer, %error, "a TLS handshake failed"),
            Err(_) => tracing::debug!(%peer, "a TLS handshake took too long"),
        },
        () = app.drain.closed.cancelled() => {}
    }
    None
}

/// Those under way, and some that are done.
#[derive(Default)]
struct Handshakes(VecDeque<AbortHandle>);

impl Handshakes {
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
        let mut handshakes = Handshakes::default();
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
