//! The metrics of a worker: name, help and meaning. Those of the processes of agents have a file
//! of their own.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use baton_session::clock::unix_millis;
use baton_session::command::{CommandKind, QueuedCommand};
use baton_session::metrics::{LabeledCounter, LatencyHistogram, Registry};
use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Unit;
use serde_json::value::RawValue;

pub use self::agent_processes::AgentProcessMetrics;
pub use self::models::ModelMetrics;
use crate::rpc::Failure;
use crate::stop_reason::StopReason;

mod agent_processes;
mod models;

/// In seconds: turns may take their time.
const TURN_BUCKETS: [f64; 12] = [
    0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0,
];

/// Behind another turn commands wait as long as that takes.
const WAIT_BUCKETS: [f64; 13] = [
    0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0,
];

#[derive(Clone, Debug)]
pub struct WorkerMetrics {
    pub(crate) slots: Gauge,
    pub(crate) sessions: Gauge,
    pub(crate) turns: Gauge,
    pub(crate) ended: LabeledCounter,
    pub(crate) turn: LatencyHistogram,
    pub(crate) wait: LatencyHistogram,
    pub(crate) append: LatencyHistogram,
    pub(crate) events: Counter,
    pub(crate) opened: Counter,
    pub(crate) unopened: Counter,
    pub(crate) takeovers: Counter,
    pub(crate) fenced: Counter,
    pub(crate) rewritten: Counter,
    pub(crate) withheld: LabeledCounter,
    pub(crate) lease_age: AgeGauge,
    pub agent_processes: AgentProcessMetrics,
    pub models: ModelMetrics,
}

impl Default for WorkerMetrics {
    fn default() -> Self {
        Self {
            slots: Gauge::default(),
            sessions: Gauge::default(),
            turns: Gauge::default(),
            ended: LabeledCounter::default(),
            turn: LatencyHistogram::with_buckets(TURN_BUCKETS),
            wait: LatencyHistogram::with_buckets(WAIT_BUCKETS),
            append: LatencyHistogram::default(),
            events: Counter::default(),
            opened: Counter::default(),
            unopened: Counter::default(),
            takeovers: Counter::default(),
            fenced: Counter::default(),
            rewritten: Counter::default(),
            withheld: LabeledCounter::default(),
            lease_age: AgeGauge::default(),
            agent_processes: AgentProcessMetrics::default(),
            models: ModelMetrics::default(),
        }
    }
}

impl WorkerMetrics {
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("worker");
        let help = "Sessions that may be held here at once";
        registry.register("slots", help, self.slots.clone());
        let help = "Sessions held here";
        registry.register("sessions", help, self.sessions.clone());
        let help = "Turns under way here";
        registry.register("turns_running", help, self.turns.clone());
        let help = "Turns that were answered here, by how they ended";
        registry.register("turns", help, self.ended.clone());
        let help = "How long turns took, from their beginning here to their answer";
        self.turn.register(registry, "turn_duration", help);
        let help = "How long commands waited, since a gateway took them";
        self.wait.register(registry, "wait", help);
        let help = "How long appends to the logs of sessions took, repetitions included";
        self.append.register(registry, "append", help);
        let help = "Events appended to the logs of sessions";
        registry.register("events", help, self.events.clone());
        let help = "Times that the agent was opened for a session";
        registry.register("agent_opens", help, self.opened.clone());
        let help = "Times that the agent could not be opened for a session";
        registry.register("agent_failures", help, self.unopened.clone());
        let help = "Turns that were begun elsewhere and went on here";
        registry.register("takeovers", help, self.takeovers.clone());
        let help = "Sessions that had to be dropped because another worker has them";
        registry.register("fenced", help, self.fenced.clone());
        let help = "Events that the store had lost and that were written again";
        registry.register("rewritten", help, self.rewritten.clone());
        let help = "What clients said and agents were not told: methods, fields of params, fields \
                    of _meta";
        registry.register("withheld", help, self.withheld.clone());
        let help = "Time since all leases were renewed";
        registry.register_with_unit("lease_age", help, Unit::Seconds, self.lease_age.clone());
        self.agent_processes.register(registry);
        self.models.register(registry);
    }

    /// A command's time in the inbox is over.
    pub(crate) fn observe_wait(&self, queued: &QueuedCommand) {
        let waited = unix_millis().saturating_sub(queued.command.taken_at);
        let trace = queued.command.trace.as_ref();
        self.wait.observe(Duration::from_millis(waited), trace);
    }

    /// A prompt was answered, whether or not it came to a turn.
    pub(crate) fn answered(&self, how: &'static str) {
        self.ended.get_or_create(&[("outcome", how)]).inc();
    }

    /// Counts a prompt that was refused without a turn.
    pub(crate) fn refused(&self, queued: &QueuedCommand) {
        if queued.command.kind == CommandKind::Prompt {
            self.observe_wait(queued);
            self.answered("error");
        }
    }

    pub(crate) fn start_turn(&self) -> TurnTimer {
        TurnTimer {
            began: Instant::now(),
            metrics: self.clone(),
            _running: GaugeGuard::one_more(&self.turns),
        }
    }

    /// Counts the session for as long as the guard lives.
    pub(crate) fn count_session(&self) -> GaugeGuard {
        GaugeGuard::one_more(&self.sessions)
    }
}

/// A turn under way.
pub(crate) struct TurnTimer {
    began: Instant,
    metrics: WorkerMetrics,
    _running: GaugeGuard,
}

impl TurnTimer {
    pub fn ends(self, queued: &QueuedCommand, outcome: &Result<Box<RawValue>, Failure>) {
        let how = match outcome {
            Ok(answer) => StopReason::of(answer).map_or("other", StopReason::as_str),
            Err(_) => "error",
        };
        self.metrics.answered(how);
        let trace = queued.command.trace.as_ref();
        self.metrics.turn.observe(self.began.elapsed(), trace);
    }
}

/// One of those that a gauge counts.
pub(crate) struct GaugeGuard(Gauge);

impl GaugeGuard {
    fn one_more(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// A gauge of the time since an event, computed when it is read.
#[derive(Clone)]
pub(crate) struct AgeGauge {
    start: Instant,
    /// Milliseconds after the start.
    last: Arc<AtomicU64>,
}

impl AgeGauge {
    pub fn now(&self) {
        let after = self.start.elapsed().as_millis() as u64;
        self.last.store(after, Ordering::Relaxed);
    }
}

impl Default for AgeGauge {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            last: Arc::default(),
        }
    }
}

impl fmt::Debug for AgeGauge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AgeGauge")
    }
}

impl EncodeMetric for AgeGauge {
    fn encode(&self, mut encoder: MetricEncoder) -> fmt::Result {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        let age = self.start.elapsed().saturating_sub(last);
        encoder.encode_gauge(&age.as_secs_f64())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}
