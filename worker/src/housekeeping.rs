//! Compacts idle sessions and removes expired ones. Any worker may do it: the store prevents two
//! from doing it at the same time.

use std::sync::Arc;
use std::time::Duration;

use baton_session::id::Partition;
use baton_session::store::{Store, TidyPolicy};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

const INTERVAL: Duration = Duration::from_secs(5);
/// A conversation that goes on is left alone: what it wrote last is read again soon.
const IDLE_FOR: Duration = Duration::from_secs(10);

pub(crate) async fn run(store: Arc<dyn Store>, session_ttl: Duration, stop: CancellationToken) {
    let when = TidyPolicy {
        rested: IDLE_FOR,
        unused: session_ttl,
    };
    let mut ticker = interval(INTERVAL);
    ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let look = async {
        loop {
            ticker.tick().await;
            for partition in (0..store.partitions()).map(Partition) {
                match store.tidy(partition, &when).await {
                    Ok(tidied) if tidied.expired > 0 => {
                        tracing::info!(sessions = tidied.expired, "removed expired sessions");
                    }
                    Ok(_) => {}
                    Err(error) => tracing::debug!(%error, "housekeeping failed"),
                }
            }
        }
    };
    tokio::select! {
        () = look => {}
        () = stop.cancelled() => {}
    }
}
