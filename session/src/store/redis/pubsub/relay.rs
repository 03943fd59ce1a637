//! Passes messages of a push connection on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use redis::{PushInfo, PushKind, Value};

use super::message::signal;
use super::node_subscription::NodeSubscription;
use crate::store::signal_sink::SignalSink;

/// Turns pushes into signals, without ever making the connection wait.
pub(super) struct PushRelay {
    pub sink: SignalSink,
    // Weak, as this belongs to a connection, which in turn is kept there.
    pub subscription: Weak<NodeSubscription>,
    pub open: Arc<AtomicBool>,
}

impl PushRelay {
    pub fn take(&self, info: PushInfo) -> Result<(), ()> {
        match info.kind {
            PushKind::SMessage => {
                if self.open.load(Ordering::SeqCst)
                    && let Some(signal) = signal(info.data)
                {
                    self.sink.send(signal);
                }
            }
            PushKind::Disconnection => {
                if let Some(subscription) = self.subscription.upgrade() {
                    subscription.broke(&self.open);
                }
            }
            // Unless we asked for it, the slot has moved to another node.
            PushKind::SUnsubscribe => self.dropped(&info.data),
            _ => {}
        }
        Ok(())
    }

    fn dropped(&self, data: &[Value]) {
        let Some(Value::BulkString(channel)) = data.first() else {
            return;
        };
        if let (Ok(channel), Some(subscription)) =
            (std::str::from_utf8(channel), self.subscription.upgrade())
        {
            subscription.dropped(channel);
        }
    }
}
