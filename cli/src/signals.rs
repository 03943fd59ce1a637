//! The stop signal.

use baton_gateway::StopSignals;
use tokio::signal::unix::{SignalKind, signal};

/// Returns when somebody presses Ctrl-C. It is heard from the call on.
pub fn interrupted() -> std::io::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        interrupt.recv().await;
    })
}

/// The first SIGTERM or SIGINT asks for an orderly end, the second for one at once.
pub fn stop() -> std::io::Result<StopSignals> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let token = StopSignals::default();
    let stop = token.clone();
    tokio::spawn(async move {
        for (token, text) in [
            (stop.drain, "stopping; once more stops at once"),
            (stop.now, "stopping at once"),
        ] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            tracing::info!("{text}");
            token.cancel();
        }
    });
    Ok(token)
}
