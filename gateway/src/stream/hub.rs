//! All tailed logs of this process, fed by one push connection to the store. A log is tailed while
//! somebody reads it.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use baton_session::id::LogId;
use baton_session::store::{self, Signal, SignalListener, Store, Topic as StoreTopic};
use baton_session::sync::MutexExt as _;
use tokio::sync::{Mutex as AsyncMutex, mpsc};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::tailed_log::{FrameBudget, LogNotice, TailedLog};
use super::wake::StreamWake;
use crate::auth::revocations::KnownRevocations;
use crate::metrics::GatewayMetrics;

const SIGNAL_QUEUE: usize = 64 * 1024;
/// Signals are hints: this often the ends of all tailed logs are compared with the store's.
const HEAD_CHECK: Duration = Duration::from_secs(5);
const HEAD_CHECK_BATCH: usize = 500;
const GATES: usize = 64;

pub struct Hub {
    store: Arc<dyn Store>,
    revocations: Arc<KnownRevocations>,
    metrics: Arc<GatewayMetrics>,
    listener: Arc<dyn SignalListener>,
    tailed_logs: Mutex<HashMap<LogId, Arc<TailedLog>>>,
    budget: FrameBudget,
    /// A subscription must not overtake the end of an earlier one to the same log.
    gates: [AsyncMutex<()>; GATES],
}

/// One reader of a tailed log, until it is dropped.
pub struct LogSubscription {
    pub tailed: Arc<TailedLog>,
    pub reader: u64,
    /// Notices that were there before.
    pub notices: u64,
    hub: Arc<Hub>,
}

impl Hub {
    pub async fn start(
        store: Arc<dyn Store>,
        revocations: Arc<KnownRevocations>,
        metrics: Arc<GatewayMetrics>,
        stop: CancellationToken,
    ) -> store::Result<Arc<Self>> {
        let (sink, signals) = mpsc::channel(SIGNAL_QUEUE);
        let listener = store.listen(sink).await?;
        // Known before the first request is served.
        listener.subscribe(&StoreTopic::Revocations).await?;
        revocations.read_all(&*store).await?;
        let gates = std::array::from_fn(|_| AsyncMutex::new(()));
        let hub = Arc::new(Self {
            store,
            revocations,
            metrics,
            listener,
            tailed_logs: Mutex::default(),
            budget: FrameBudget::default(),
            gates,
        });
        tokio::spawn(hub.clone().relay(signals, stop.clone()));
        tokio::spawn(hub.clone().check_heads(stop));
        Ok(hub)
    }

    fn tailed_logs(&self) -> MutexGuard<'_, HashMap<LogId, Arc<TailedLog>>> {
        self.tailed_logs.locked()
    }

    /// Returns once the store has confirmed: everything written from now on reaches the reader.
    pub async fn subscribe(
        self: &Arc<Self>,
        log: &LogId,
        wake: impl Into<StreamWake>,
    ) -> store::Result<LogSubscription> {
        let wake = wake.into();
        let subscription = {
            let mut tailed_logs = self.tailed_logs();
            let tailed = tailed_logs
                .entry(log.clone())
                .or_insert_with(|| Arc::new(TailedLog::new(log.clone(), self.budget.clone())))
                .clone();
            let (reader, notices) = (tailed.add_reader(wake), tailed.notice_count());
            // From here on the place is given back even if this future is dropped.
            LogSubscription {
                tailed,
                reader,
                notices,
                hub: self.clone(),
            }
        };
        let tailed = &subscription.tailed;
        tailed
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
                Some(Signal::Frame(log, frame)) => self.on(&log, |tailed| tailed.insert(frame)),
                Some(Signal::Grown(log, seq)) => self.on(&log, |tailed| tailed.announce(seq)),
                Some(Signal::Attached(session, connection)) => {
                    self.on(&LogId::Session(session), |tailed| {
                        tailed.notify(LogNotice::Attached(connection))
                    });
                }
                Some(Signal::Taken {
                    log,
                    connection,
                    holder,
                }) => {
                    self.on(&log, |tailed| {
                        tailed.notify(LogNotice::Taken { connection, holder })
                    });
                }
                Some(Signal::Revoked(revocation)) => self.revocations.add(revocation),
                Some(Signal::Lost) => {
                    self.metrics.resyncs.inc();
                    self.revocations.mark_incomplete();
                    let tailed_logs: Vec<_> = self.tailed_logs().values().cloned().collect();
                    tailed_logs
                        .iter()
                        .for_each(|tailed| tailed.notify(LogNotice::Resync));
                    let hub = self.clone();
                    tokio::spawn(async move {
                        hub.reread_revocations().await;
                        hub.compare_heads().await;
                    });
                }
                Some(
                    Signal::Inbox(_)
                    | Signal::Command(..)
                    | Signal::SetupChanged(_)
                    | Signal::Ready(_)
                    | Signal::Handed(_),
                ) => {}
            }
        }
    }

    fn on(&self, log: &LogId, act: impl FnOnce(&TailedLog)) {
        let tailed = self.tailed_logs().get(log).cloned();
        if let Some(tailed) = tailed {
            act(&tailed);
        }
    }

    async fn check_heads(self: Arc<Self>, stop: CancellationToken) {
        let mut ticker = interval(HEAD_CHECK);
        ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticker.tick() => {
                    self.revocations.refresh(&*self.store).await;
                    self.release_idle_frames();
                    self.clone().compare_heads().await;
                }
                _ = stop.cancelled() => return,
            }
        }
    }

    /// Not to be put off until the next check: what is missing is let in.
    async fn reread_revocations(&self) {
        if let Err(error) = self.revocations.read_all(&*self.store).await {
            tracing::warn!(%error, "could not read what was revoked");
        }
    }

    fn release_idle_frames(&self) {
        let tailed_logs: Vec<_> = self.tailed_logs().values().cloned().collect();
        tailed_logs.iter().for_each(|tailed| tailed.rest());
    }

    async fn compare_heads(self: Arc<Self>) {
        let tailed_logs: Vec<_> = self.tailed_logs().values().cloned().collect();
        for batch in tailed_logs.chunks(HEAD_CHECK_BATCH) {
            let logs: Vec<_> = batch.iter().map(|tailed| tailed.log.clone()).collect();
            // Before the question: what comes in while it is under way must not look like a loss.
            let known: Vec<_> = batch.iter().map(|tailed| tailed.grown_to()).collect();
            match self.store.heads(&logs).await {
                Ok(heads) => {
                    for ((tailed, head), known) in batch.iter().zip(heads).zip(known) {
                        self.compare(tailed, head, known);
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "could not compare streams with the store");
                }
            }
        }
    }

    fn compare(&self, tailed: &TailedLog, head: u64, known: u64) {
        if head >= known {
            return tailed.grow(head);
        }
        // All of it: it was deleted, unless the store has lost everything. Its readers know.
        if head > 0 {
            tracing::warn!(log = ?tailed.log, head, known, "the store lost the end of a log");
            self.metrics.lost_tails.inc();
        }
        tailed.shrink(head);
    }

    async fn leave(self: Arc<Self>, log: LogId) {
        let _gate = self.gate(&log).lock().await;
        // Somebody may have come back, with a subscription of their own.
        if !self.tailed_logs().contains_key(&log) {
            self.listener.unsubscribe(&StoreTopic::Log(log)).await;
        }
    }
}

impl Drop for LogSubscription {
    fn drop(&mut self) {
        let mut tailed_logs = self.hub.tailed_logs();
        if self.tailed.remove_reader(self.reader) > 0 {
            return;
        }
        let log = self.tailed.log.clone();
        if tailed_logs
            .get(&log)
            .is_some_and(|known| Arc::ptr_eq(known, &self.tailed))
        {
            tailed_logs.remove(&log);
            drop(tailed_logs);
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(self.hub.clone().leave(log));
            }
        }
    }
}
