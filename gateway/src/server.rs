//! Serves until told to stop. The caller owns the socket and the stop signal.

use std::sync::Arc;
use std::time::Duration;

use axum::serve::ListenerExt as _;
use tokio::net::TcpListener;

use crate::app::App;
use crate::router::router;

const SETTLE: Duration = Duration::from_secs(5);

/// HTTP/1.1 and HTTP/2 on one port, WebSocket on the same path. Returns when `app.stop` fired and
/// requests under way are done, or after `grace`.
pub async fn serve(listener: TcpListener, app: Arc<App>, grace: Duration) -> std::io::Result<()> {
    // Without this, small writes of HTTP/2 and WebSocket wait 40 ms for an acknowledgement.
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "could not set TCP_NODELAY");
        }
    });
    let stop = app.stop.clone();
    let server = axum::serve(listener, router(app.clone()))
        .with_graceful_shutdown(async move { stop.cancelled().await });
    let overrun = async {
        app.stop.cancelled().await;
        tokio::time::sleep(grace).await;
    };
    let outcome = tokio::select! {
        done = server => done,
        _ = overrun => {
            tracing::warn!(grace_ms = grace.as_millis() as u64, "some requests were still open after the grace period");
            Ok(())
        }
    };
    // The ends of the streams are recorded before the process is gone.
    let _ = tokio::time::timeout(SETTLE, app.ledger.settle()).await;
    outcome
}
