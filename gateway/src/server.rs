//! Serves until told to stop. The caller owns the socket and the stop signal.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

use crate::admin::{self, AdminListener};
use crate::app::App;
use crate::net::connection::ConnectionSettings;
use crate::net::listener;
use crate::net::socket::SocketListener;
use crate::router::router;

/// How long streams may take to notice that they were cut, and connections to close.
const LAST_WORDS: Duration = Duration::from_secs(1);
const SETTLE: Duration = Duration::from_secs(5);

/// HTTP/1.1 and HTTP/2 on one port, with TLS or without, WebSocket on the same path. Returns when
/// the process was told to stop and nothing is open any more, or the grace is over. Administrators
/// are served until then, if there is a port for them.
pub async fn serve(
    listener: TcpListener,
    for_admins: Option<AdminListener>,
    app: Arc<App>,
) -> std::io::Result<()> {
    let admin = for_admins.map(|listener| tokio::spawn(admin::serve(listener, app.clone())));
    let sockets = SocketListener {
        listener,
        stall_timeout: app.config.stall,
    };
    let mut server = tokio::spawn(listener::accept_connections(
        sockets,
        router(app.clone()),
        app.config.transport.clone(),
        Arc::new(ConnectionSettings {
            request_timeout: app.config.transport.request_timeout,
            stall: app.config.stall,
            closed: app.drain.closed.clone(),
        }),
        app.metrics.clone(),
    ));
    let mut ended = None;
    let ends = async {
        ended = Some((&mut server).await);
        // It does so when its last connection is closed. WebSockets are not its any more.
        if app.drain.closed.is_cancelled() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        _ = drained(&app) => {}
        _ = ends => {}
    }
    app.stop.cancel();
    let _ = timeout(LAST_WORDS, app.drain.empty()).await;
    app.drain.closed.cancel();
    let outcome = match ended {
        Some(ended) => ended,
        None => timeout(LAST_WORDS, server).await.unwrap_or(Ok(())),
    };
    if let Some(admin) = admin {
        let _ = timeout(LAST_WORDS, admin).await;
    }
    // The ends of the streams are recorded before the process is gone.
    let _ = timeout(SETTLE, app.streams.stream_registry.settle()).await;
    Ok(outcome?)
}

async fn drained(app: &App) {
    let grace = app.drain.pace.grace;
    app.drain.begun.cancelled().await;
    tracing::info!(
        grace_ms = grace.as_millis() as u64,
        "draining: streams end between turns"
    );
    // A balancer takes its time to notice. One that never does finds the socket closed, which sends
    // it elsewhere, while there is still time to finish what it brought until then.
    let open = tokio::select! {
        _ = app.drain.done() => false,
        _ = app.stop.cancelled() => false,
        _ = sleep(grace / 2) => true,
    };
    if !open {
        return;
    }
    tracing::info!("no longer accepts connections");
    app.drain.closed.cancel();
    tokio::select! {
        _ = app.drain.empty() => {}
        _ = app.stop.cancelled() => {}
        _ = sleep(grace / 2) => tracing::warn!("the grace is over: what is still open is cut"),
    }
}
