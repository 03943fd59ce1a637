//! Every metric of the gateway: name, help and meaning in one place.

use axum::http::{Method, StatusCode};
use baton_session::metrics::{LabeledCounter, LatencyHistogram, Registry};
use baton_session::trace::TraceContext;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Unit;
use tokio::time::Instant;

use crate::limits::LimitKind;

/// A number for each agent that workers have registered.
type AgentGauge = Family<[(&'static str, String); 1], Gauge>;

#[derive(Clone, Debug, Default)]
pub struct GatewayMetrics {
    pub messages: Counter,
    pub refused: Counter,
    pub unavailable: Counter,
    pub failed: Counter,
    pub events: Counter,
    pub resets: Counter,
    pub drained: Counter,
    pub catch_ups: Counter,
    pub resyncs: Counter,
    pub lost_tails: Counter,
    pub streams: Gauge,
    pub connections: Gauge,
    crowded: Family<[(&'static str, &'static str); 2], Counter>,
    pub delivery: LatencyHistogram,
    request: Family<[(&'static str, &'static str); 2], LatencyHistogram>,
    resumes: LabeledCounter,
    stalled: LabeledCounter,
    limited: LabeledCounter,
    tokens_refused: LabeledCounter,
    queue: AgentGauge,
    workers: AgentGauge,
}

impl GatewayMetrics {
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("gateway");
        let help = "How long requests took until their answer began, by method and class of status";
        registry.register_with_unit("request", help, Unit::Seconds, self.request.clone());
        let help = "JSON-RPC messages received from clients";
        registry.register("messages", help, self.messages.clone());
        let help = "Requests answered with a 4xx status";
        registry.register("refused", help, self.refused.clone());
        let help = "Requests answered with 503 because the store was away";
        registry.register("unavailable", help, self.unavailable.clone());
        let help = "Requests answered with another 5xx status";
        registry.register("failed", help, self.failed.clone());
        let help = "Connection and session tokens that were refused, by why";
        registry.register("tokens_refused", help, self.tokens_refused.clone());
        let help = "Requests, messages and streams refused or slowed down because of their \
            caller's limits";
        registry.register("limited", help, self.limited.clone());
        let help = "Open connections of clients";
        registry.register("connections", help, self.connections.clone());
        let help = "Connections closed because there were too many, by limit, and whether an \
            idle one or the new one";
        registry.register("connections_closed", help, self.crowded.clone());
        let help = "Open SSE streams and WebSockets";
        registry.register("streams", help, self.streams.clone());
        let help = "Messages written to clients";
        registry.register("events", help, self.events.clone());
        let help =
            "How long events waited for the streams that carry them, since they arrived here";
        self.delivery.register(registry, "delivery", help);
        let help = "Streams that went on from a client's cursor, by kind";
        registry.register("resumes", help, self.resumes.clone());
        let help = "Streams that could not go on where the client was";
        registry.register("resets", help, self.resets.clone());
        let help = "Streams ended between turns because the gateway stops";
        registry.register("drained", help, self.drained.clone());
        let help = "Streams given up because their clients did not read, by kind";
        registry.register("stalled", help, self.stalled.clone());
        let help = "Reads from the store for streams that were behind what is kept here";
        registry.register("catch_ups", help, self.catch_ups.clone());
        let help =
            "Times that signals of the store were lost and all streams looked for themselves";
        registry.register("resyncs", help, self.resyncs.clone());
        let help = "Logs that were found shorter than they had been";
        registry.register("lost_tails", help, self.lost_tails.clone());
        let help = "Sessions that wait for a worker, by agent";
        registry.register("queue", help, self.queue.clone());
        let help = "Workers alive, by agent";
        registry.register("workers", help, self.workers.clone());
    }

    /// A stream was given up because its client did not read.
    pub fn stalled(&self, kind: &'static str) {
        tracing::info!(kind, "gave a stream up: its client does not read");
        self.stalled.get_or_create(&[("kind", kind)]).inc();
    }

    /// There was one connection too many: an idle one was closed, or else the new one.
    pub fn crowded(&self, limit: &'static str, idle: bool) {
        let closed = if idle { "idle" } else { "new" };
        tracing::debug!(limit, closed, "closed a connection: there are too many");
        let labels = [("limit", limit), ("closed", closed)];
        self.crowded.get_or_create(&labels).inc();
    }

    /// A client came back with a cursor.
    pub fn resumed(&self, kind: &'static str) {
        self.resumes.get_or_create(&[("kind", kind)]).inc();
    }

    /// A caller was told, or made, to wait.
    pub fn limited(&self, limit: LimitKind) {
        let limit = [("limit", limit.as_str())];
        self.limited.get_or_create(&limit).inc();
    }

    /// A token of ours, or what looks like one, was refused.
    pub fn token_refused(&self, why: &'static str) {
        tracing::debug!(why, "refused a token");
        self.tokens_refused.get_or_create(&[("reason", why)]).inc();
    }

    /// How many workers an agent has, and how many sessions wait for one.
    pub fn agent(&self, name: &str, workers: usize, waiting: u64) {
        let agent = [("agent", name.to_owned())];
        self.workers.get_or_create(&agent).set(workers as i64);
        self.queue.get_or_create(&agent).set(waiting as i64);
    }

    /// There is no such agent any more.
    pub fn no_agent(&self, name: &str) {
        let agent = [("agent", name.to_owned())];
        self.workers.remove(&agent);
        self.queue.remove(&agent);
    }

    /// Counts a stream for as long as the guard lives.
    pub fn stream_guard(&self) -> StreamGuard {
        self.streams.inc();
        StreamGuard(self.streams.clone())
    }

    fn count_status(&self, status: StatusCode) {
        if status == StatusCode::SERVICE_UNAVAILABLE {
            self.unavailable.inc();
        } else if status.is_client_error() {
            self.refused.inc();
        } else if status.is_server_error() {
            self.failed.inc();
        }
    }
}

/// Times a request until it is dropped: also if nobody waits for its answer any more.
pub struct RequestTimer<'a> {
    metrics: &'a GatewayMetrics,
    began: Instant,
    method: &'static str,
    status: &'static str,
    trace: Option<TraceContext>,
}

impl<'a> RequestTimer<'a> {
    pub fn start(metrics: &'a GatewayMetrics, method: &Method) -> Self {
        Self {
            metrics,
            began: Instant::now(),
            method: match *method {
                Method::GET => "GET",
                Method::POST => "POST",
                Method::DELETE => "DELETE",
                _ => "other",
            },
            status: "none",
            trace: None,
        }
    }

    /// The answer begins.
    pub fn record(&mut self, status: StatusCode, trace: Option<TraceContext>) {
        self.metrics.count_status(status);
        self.trace = trace;
        self.status = match status.as_u16() / 100 {
            1 => "1xx",
            2 => "2xx",
            3 => "3xx",
            4 => "4xx",
            _ => "5xx",
        };
    }
}

impl Drop for RequestTimer<'_> {
    fn drop(&mut self) {
        let labels = [("method", self.method), ("status", self.status)];
        let request = self.metrics.request.get_or_create(&labels);
        request.observe(self.began.elapsed(), self.trace.as_ref());
    }
}

pub struct StreamGuard(Gauge);

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}
