//! Metrics of the processes that agents run in.

use baton_session::metrics::{LabeledCounter, LatencyHistogram, Registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Unit;

/// In seconds.
const START_BUCKETS: [f64; 10] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

#[derive(Clone, Debug)]
pub struct AgentProcessMetrics {
    pub(crate) processes: Gauge,
    pub(crate) memory: Gauge,
    pub(crate) ready: Gauge,
    pub(crate) starts: LabeledCounter,
    pub(crate) start: LatencyHistogram,
    pub(crate) taken: LabeledCounter,
    pub(crate) without_memory: Counter,
}

impl Default for AgentProcessMetrics {
    fn default() -> Self {
        Self {
            processes: Gauge::default(),
            memory: Gauge::default(),
            ready: Gauge::default(),
            starts: LabeledCounter::default(),
            start: LatencyHistogram::with_buckets(START_BUCKETS),
            taken: LabeledCounter::default(),
            without_memory: Counter::default(),
        }
    }
}

impl AgentProcessMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Processes of agents, with those that are kept ready";
        registry.register("agent_processes", help, self.processes.clone());
        let help = "Memory of the processes of agents and of all they have started";
        let memory = self.memory.clone();
        registry.register_with_unit("agent_memory", help, Unit::Bytes, memory);
        let help = "Processes of agents that are kept ready";
        registry.register("agent_ready", help, self.ready.clone());
        let help = "Processes of agents that were started, by outcome";
        registry.register("agent_starts", help, self.starts.clone());
        let help = "How long agents took to start";
        self.start.register(registry, "agent_start_duration", help);
        let help = "Processes that sessions needed, by whether one was ready";
        registry.register("agent_takes", help, self.taken.clone());
        let help = "Times that a session was left to others because there was no memory for its \
                    agent";
        registry.register("agent_memory_refusals", help, self.without_memory.clone());
    }
}
