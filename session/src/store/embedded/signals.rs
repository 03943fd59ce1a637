//! Signals within one process.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio::sync::mpsc;

use crate::store::sink::Sink;
use crate::store::{Listener, Result, Signal, Topic};
use crate::sync::MutexExt as _;

#[derive(Default)]
pub(super) struct Switchboard {
    lines: Mutex<HashMap<Topic, Vec<Arc<Line>>>>,
    next_line: AtomicU64,
}

struct Line {
    number: u64,
    sink: Sink,
}

impl Switchboard {
    pub fn connect(self: Arc<Self>, sink: mpsc::Sender<Signal>) -> Arc<dyn Listener> {
        let number = self.next_line.fetch_add(1, Ordering::Relaxed);
        let line = Arc::new(Line {
            number,
            sink: Sink::new(sink),
        });
        Arc::new(Connected {
            switchboard: self,
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

struct Connected {
    switchboard: Arc<Switchboard>,
    line: Arc<Line>,
}

#[async_trait]
impl Listener for Connected {
    async fn subscribe(&self, topic: &Topic) -> Result<()> {
        let mut lines = self.switchboard.lines.locked();
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
        let mut lines = self.switchboard.lines.locked();
        if let Some(subscribed) = lines.get_mut(topic) {
            subscribed.retain(|line| line.number != self.line.number);
            if subscribed.is_empty() {
                lines.remove(topic);
            }
        }
    }
}
