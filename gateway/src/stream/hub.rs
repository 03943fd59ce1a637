//! All topics of this process, fed by one push connection to the store. A topic exists while
//! somebody reads it.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use baton_session::event::Event;
use baton_session::id::LogId;
use baton_session::store::{self, Signal, SignalListener, Store, Topic as StoreTopic};
use baton_session::sync::MutexExt as _;
use tokio::sync::{Mutex as AsyncMutex, mpsc};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::topic::{Kept, Look, Notice, Topic};
use super::wake::Wake;
use crate::metrics::Metrics;
use crate::revoked::Revoked;

const SIGNAL_QUEUE: usize = 64 * 1024;
/// Signals are hints: this often the ends of all tailed logs are compared with the store's.
const HEAD_CHECK: Duration = Duration::from_secs(5);
const HEAD_CHECK_BATCH: usize = 500;
const GATES: usize = 64;

pub struct Hub {
    store: Arc<dyn Store>,
    revoked: Arc<Revoked>,
    metrics: Arc<Metrics>,
    listener: Arc<dyn SignalListener>,
    topics: Mutex<HashMap<LogId, Arc<Topic>>>,
    /// A subscription must not overtake the end of an earlier one to the same log.
    gates: [AsyncMutex<()>; GATES],
}

/// A place at a topic; leaves it when dropped.
pub struct Subscription {
    pub topic: Arc<Topic>,
    pub reader: u64,
    /// Notices that were there before.
    pub notices: u64,
    hub: Arc<Hub>,
    /// It has had everything once, so that what comes is news.
    live: bool,
}

impl Hub {
    pub async fn start(
        store: Arc<dyn Store>,
        revoked: Arc<Revoked>,
        metrics: Arc<Metrics>,
        stop: CancellationToken,
    ) -> store::Result<Arc<Self>> {
        let (sink, signals) = mpsc::channel(SIGNAL_QUEUE);
        let listener = store.listen(sink).await?;
        // Known before the first request is served.
        listener.subscribe(&StoreTopic::Revocations).await?;
        revoked.read_all(&*store).await?;
        let gates = std::array::from_fn(|_| AsyncMutex::new(()));
        let hub = Arc::new(Self {
            store,
            revoked,
            metrics,
            listener,
            topics: Mutex::default(),
            gates,
        });
        tokio::spawn(hub.clone().relay(signals, stop.clone()));
        tokio::spawn(hub.clone().check_heads(stop));
        Ok(hub)
    }

    fn topics(&self) -> MutexGuard<'_, HashMap<LogId, Arc<Topic>>> {
        self.topics.locked()
    }

    /// Returns once the store has confirmed: everything written from now on reaches the topic.
    pub async fn subscribe(
        self: &Arc<Self>,
        log: &LogId,
        wake: impl Into<Wake>,
    ) -> store::Result<Subscription> {
        let wake = wake.into();
        let subscription = {
            let mut topics = self.topics();
            let topic = topics
                .entry(log.clone())
                .or_insert_with(|| Arc::new(Topic::new(log.clone())))
                .clone();
            let (reader, notices) = (topic.add_reader(wake), topic.notice_count());
            // From here on the place is given back even if this future is dropped.
            Subscription {
                topic,
                reader,
                notices,
                hub: self.clone(),
                live: false,
            }
        };
        let topic = &subscription.topic;
        topic
            .confirmed
            .get_or_try_init(|| async {
                let _gate = self.gate(log).lock().await;
                self.listener.subscribe(&StoreTopic::Log(log.clone())).await
            })
            .await?;
        Ok(subscription)
    }

    fn gate(&self, log: &LogId) -> &AsyncMutex<()> {
        let mut hasher = DefaultHasher::new();
        log.hash(&mut hasher);
        &self.gates[hasher.finish() as usize % GATES]
    }

    async fn relay(self: Arc<Self>, mut signals: mpsc::Receiver<Signal>, stop: CancellationToken) {
        loop {
            let signal = tokio::select! {
                signal = signals.recv() => signal,
                _ = stop.cancelled() => return,
            };
            match signal {
                None => return,
                Some(Signal::Frame(log, frame)) => self.on(&log, |topic| topic.insert(frame)),
                Some(Signal::Grown(log, seq)) => self.on(&log, |topic| topic.announce(seq)),
                Some(Signal::Attached(session, connection)) => {
                    self.on(&LogId::Session(session), |topic| {
                        topic.notify(Notice::Attached(connection))
                    });
                }
                Some(Signal::Taken {
                    log,
                    connection,
                    holder,
                }) => {
                    self.on(&log, |topic| {
                        topic.notify(Notice::Taken { connection, holder })
                    });
                }
                Some(Signal::Revoked(revocation)) => self.revoked.add(revocation),
                Some(Signal::Lost) => {
                    self.metrics.resyncs.inc();
                    self.revoked.missed();
                    let topics: Vec<_> = self.topics().values().cloned().collect();
                    topics.iter().for_each(|topic| topic.notify(Notice::Resync));
                    let hub = self.clone();
                    tokio::spawn(async move {
                        hub.reread_revocations().await;
                        hub.compare_heads().await;
                    });
                }
                Some(Signal::Inbox(_) | Signal::Ready(_)) => {}
            }
        }
    }

    fn on(&self, log: &LogId, act: impl FnOnce(&Topic)) {
        let topic = self.topics().get(log).cloned();
        if let Some(topic) = topic {
            act(&topic);
        }
    }

    async fn check_heads(self: Arc<Self>, stop: CancellationToken) {
        let mut ticker = interval(HEAD_CHECK);
        ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticker.tick() => {
                    self.revoked.refresh(&*self.store).await;
                    self.rest_topics();
                    self.clone().compare_heads().await;
                }
                _ = stop.cancelled() => return,
            }
        }
    }

    /// Not to be put off until the next check: what is missing is let in.
    async fn reread_revocations(&self) {
        if let Err(error) = self.revoked.read_all(&*self.store).await {
            tracing::warn!(%error, "could not read what was revoked");
        }
    }

    fn rest_topics(&self) {
        let topics: Vec<_> = self.topics().values().cloned().collect();
        topics.iter().for_each(|topic| topic.rest());
    }

    async fn compare_heads(self: Arc<Self>) {
        let topics: Vec<_> = self.topics().values().cloned().collect();
        for batch in topics.chunks(HEAD_CHECK_BATCH) {
            let logs: Vec<_> = batch.iter().map(|topic| topic.log.clone()).collect();
            // Before the question: what comes in while it is under way must not look like a loss.
            let known: Vec<_> = batch.iter().map(|topic| topic.grown_to()).collect();
            match self.store.heads(&logs).await {
                Ok(heads) => {
                    for ((topic, head), known) in batch.iter().zip(heads).zip(known) {
                        self.compare(topic, head, known);
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "could not compare streams with the store");
                }
            }
        }
    }

    fn compare(&self, topic: &Topic, head: u64, known: u64) {
        if head >= known {
            return topic.grow(head);
        }
        // All of it: it was deleted, unless the store has lost everything. Its readers know.
        if head > 0 {
            tracing::warn!(log = ?topic.log, head, known, "the store lost the end of a log");
            self.metrics.lost_tails.inc();
        }
        topic.shrink(head);
    }

    async fn leave(self: Arc<Self>, log: LogId) {
        let _gate = self.gate(&log).lock().await;
        // Somebody may have come back, with a subscription of their own.
        if !self.topics().contains_key(&log) {
            self.listener.unsubscribe(&StoreTopic::Log(log)).await;
        }
    }
}

impl Subscription {
    /// The events from a position on.
    pub fn look(&mut self, next: u64) -> Look {
        let look = self.topic.look(next);
        match look {
            Look::UpToDate => self.live = true,
            Look::InStore => {
                self.live = false;
                self.hub.metrics.catch_ups.inc();
            }
            Look::Frames(_) => {}
        }
        look
    }

    /// The store's events from a position on.
    pub async fn read(&self, next: u64, limit: usize) -> store::Result<Vec<Kept>> {
        let frames = self.hub.store.read_confirmed(&self.topic.log, next, limit);
        let frames = frames.await?;
        Ok(frames.into_iter().map(Kept::read).collect())
    }

    /// Something of it is on its way to the client.
    pub fn handed_on(&self, frame: &Kept) {
        let Some(came) = frame.came.filter(|_| self.live) else {
            return;
        };
        let trace = match frame.events.last() {
            Some(Event::Response { to, .. }) => to.trace.as_ref(),
            _ => None,
        };
        self.hub.metrics.delivery.observe(came.elapsed(), trace);
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut topics = self.hub.topics();
        if self.topic.remove_reader(self.reader) > 0 {
            return;
        }
        let log = self.topic.log.clone();
        if topics
            .get(&log)
            .is_some_and(|known| Arc::ptr_eq(known, &self.topic))
        {
            topics.remove(&log);
            drop(topics);
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(self.hub.clone().leave(log));
            }
        }
    }
}
