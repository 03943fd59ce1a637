//! Keeps a push connection up, where it is needed.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use super::PubSub;
use super::node_subscription::{NodeSubscription, PushConnection};
use crate::store::redis::servers::{RedisServers, ServerKind};
use crate::store::redis::slot_map::SlotMap;

/// How often a silent connection is asked whether it still lives.
const PROBE: Duration = Duration::from_secs(5);

/// Brings the subscription up again whenever it is not; ends with its listener, or when nothing is
/// wanted of its node any more.
pub(super) async fn supervise(push: Weak<PubSub>, subscription: Arc<NodeSubscription>) {
    let Some(servers) = push.upgrade().map(|push| push.servers.clone()) else {
        return;
    };
    let mut changes = TopologyChanges::of(&servers);
    let mut pause = Duration::from_millis(20);
    // The first subscription is not for this task to make.
    let mut at_rest = true;
    loop {
        if at_rest {
            let connection = subscription.connection();
            let moved = tokio::select! {
                _ = subscription.changed.notified() => false,
                moved = changes.next(&servers, connection.as_ref()) => moved,
                _ = sleep(PROBE) => false,
            };
            // The old primary may live on and keep the connection: nobody publishes there any more.
            if moved {
                subscription.disconnect();
            }
        }
        let Some(push) = push.upgrade() else { return };
        // A connection can be dead without saying so.
        if let Some(connection) = subscription.connection()
            && at_rest
            && !connection.answers().await
        {
            subscription.disconnect();
        }
        push.spread();
        if push.prune(&subscription.home) {
            subscription.disconnect();
            return;
        }
        at_rest = subscription.resubscribe(&push).await.is_ok();
        drop(push);
        if at_rest {
            pause = Duration::from_millis(20);
        } else {
            if let ServerKind::Cluster(slots) = &servers.kind {
                slots.request_refresh();
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }
}

/// Reports that the primary or the slots may have moved.
enum TopologyChanges {
    Slots(watch::Receiver<Arc<SlotMap>>),
    Primary,
}

impl TopologyChanges {
    fn of(servers: &RedisServers) -> Self {
        match &servers.kind {
            ServerKind::Cluster(slots) => Self::Slots(slots.changes()),
            _ => Self::Primary,
        }
    }

    /// True if the connection leads to the wrong server now.
    async fn next(&mut self, servers: &RedisServers, connection: Option<&PushConnection>) -> bool {
        match (self, connection) {
            // Fails only without a sender, and the servers have that.
            (Self::Slots(changes), _) => {
                let _ = changes.changed().await;
                false
            }
            (Self::Primary, Some(connection)) => {
                servers.moved(connection.address.as_ref()).await;
                true
            }
            (Self::Primary, None) => std::future::pending().await,
        }
    }
}
