//! Signals within one process.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio::sync::mpsc;

use crate::store::signal_sink::SignalSink;
use crate::store::{Result, Signal, SignalListener, Topic};
use crate::sync::MutexExt as _;

#[derive(Default)]
pub(super) struct SignalHub {
    lines: Mutex<HashMap<Topic, Vec<Arc<SignalSubscriber>>>>,
    next_line: AtomicU64,
}

struct SignalSubscriber {
    number: u64,
    sink: SignalSink,
}

impl SignalHub {
    pub fn connect(self: Arc<Self>, sink: mpsc::Sender<Signal>) -> Arc<dyn SignalListener> {
        let number = self.next_line.fetch_add(1, Ordering::Relaxed);
        let line = Arc::new(SignalSubscriber {
            number,
            sink: SignalSink::new(sink),
        });
        Arc::new(LocalListener {
            signal_hub: self,
            line,
        })
    }

    #[cfg(any(test, feature = "conformance"))]
    pub fn broadcast(&self, signal: Signal) {
        let lines = self.lines.locked();
        let mut told = std::collections::HashSet::new();
        for line in lines.values().flatten() {
            if told.insert(line.number) {
                line.sink.send(signal.clone());
            }
        }
    }

    pub fn send(&self, topic: &Topic, signal: Signal) {
        let lines = self.lines.locked();
        for line in lines.get(topic).into_iter().flatten() {
            line.sink.send(signal.clone());
        }
    }
}

struct LocalListener {
    signal_hub: Arc<SignalHub>,
    line: Arc<SignalSubscriber>,
}

#[async_trait]
impl SignalListener for LocalListener {
    async fn subscribe(&self, topic: &Topic) -> Result<()> {
        let mut lines = self.signal_hub.lines.locked();
        let subscribed = lines.entry(topic.clone()).or_default();
        if subscribed
            .iter()
            .all(|line| line.number != self.line.number)
        {
            subscribed.push(self.line.clone());
        }
        Ok(())
    }

    async fn unsubscribe(&self, topic: &Topic) {
        let mut lines = self.signal_hub.lines.locked();
        if let Some(subscribed) = lines.get_mut(topic) {
            subscribed.retain(|line| line.number != self.line.number);
            if subscribed.is_empty() {
                lines.remove(topic);
            }
        }
    }
}
