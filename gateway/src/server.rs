//! Serves until told to stop. The caller owns the socket and the stop signal.

use std::future::IntoFuture as _;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::router::router;
use crate::socket::{GaveUp, Sockets};

/// How long streams may take to notice that they were cut, and connections to close.
const LAST_WORDS: Duration = Duration::from_secs(1);
const SETTLE: Duration = Duration::from_secs(5);

/// HTTP/1.1 and HTTP/2 on one port, WebSocket on the same path. Returns when the process was told to
/// stop and nothing is open any more, or the grace is over.
pub async fn serve(listener: TcpListener, app: Arc<App>) -> std::io::Result<()> {
    let sockets = Sockets {
        listener,
        patience: app.config.stall,
    };
    let service = router(app.clone()).into_make_service_with_connect_info::<GaveUp>();
    // The socket is open until the very end: a balancer takes its time to notice.
    let leave = CancellationToken::new();
    let server =
        axum::serve(sockets, service).with_graceful_shutdown(leave.clone().cancelled_owned());
    let mut server = tokio::spawn(server.into_future());
    let ended = tokio::select! {
        ended = &mut server => Some(ended),
        _ = drained(&app) => None,
    };
    app.stop.cancel();
    let _ = timeout(LAST_WORDS, app.drain.empty()).await;
    leave.cancel();
    let outcome = match ended {
        Some(ended) => ended?,
        None => timeout(LAST_WORDS, server).await.unwrap_or(Ok(Ok(())))?,
    };
    // The ends of the streams are recorded before the process is gone.
    let _ = timeout(SETTLE, app.ledger.settle()).await;
    outcome
}

async fn drained(app: &App) {
    let grace = app.drain.pace.grace;
    app.drain.begun.cancelled().await;
    tracing::info!(
        grace_ms = grace.as_millis() as u64,
        "draining: streams end between turns"
    );
    tokio::select! {
        _ = app.drain.done() => {}
        _ = app.stop.cancelled() => {}
        _ = sleep(grace) => tracing::warn!("the grace is over: what is still open is cut"),
    }
}
