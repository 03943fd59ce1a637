//! Every metric of the gateway: name, help and meaning in one place.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::app::App;
use crate::edge::peer::Peer;
use crate::limits::{Limit, Refusal};

pub struct Metrics {
    registry: Arc<Registry>,
    pub requests: Counter,
    pub refused: Counter,
    pub unavailable: Counter,
    pub failed: Counter,
    pub events: Counter,
    pub resets: Counter,
    pub drained: Counter,
    pub catch_ups: Counter,
    pub resyncs: Counter,
    pub lost_tails: Counter,
    stalled: Family<[(&'static str, &'static str); 1], Counter>,
    limited: Family<[(&'static str, &'static str); 1], Counter>,
    pub streams: Gauge<i64, AtomicI64>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("baton_gateway");
        let counter = |registry: &mut Registry, name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let requests = counter(
            &mut registry,
            "messages",
            "JSON-RPC messages received from clients",
        );
        let refused = counter(
            &mut registry,
            "refused",
            "Requests answered with a 4xx status",
        );
        let unavailable = counter(
            &mut registry,
            "unavailable",
            "Requests answered with 503 because the store was away",
        );
        let failed = counter(
            &mut registry,
            "failed",
            "Requests answered with another 5xx status",
        );
        let events = counter(&mut registry, "events", "Messages written to clients");
        let resets = counter(
            &mut registry,
            "resets",
            "Streams that could not go on where the client was",
        );
        let drained = counter(
            &mut registry,
            "drained",
            "Streams ended between turns because the gateway stops",
        );
        let catch_ups = counter(
            &mut registry,
            "catch_ups",
            "Reads from the store for streams that were behind what is kept here",
        );
        let resyncs = counter(
            &mut registry,
            "resyncs",
            "Times that signals of the store were lost and all streams looked for themselves",
        );
        let lost_tails = counter(
            &mut registry,
            "lost_tails",
            "Logs that were found shorter than they had been",
        );
        let stalled = Family::default();
        registry.register(
            "stalled",
            "Streams given up because their clients did not read, by kind",
            stalled.clone(),
        );
        let limited = Family::default();
        registry.register(
            "limited",
            "Requests, messages and streams refused or slowed down because of their caller's limits",
            limited.clone(),
        );
        let streams = Gauge::default();
        registry.register(
            "streams",
            "Open SSE streams and WebSockets",
            streams.clone(),
        );
        Self {
            registry: Arc::new(registry),
            requests,
            refused,
            unavailable,
            failed,
            events,
            resets,
            drained,
            catch_ups,
            resyncs,
            lost_tails,
            stalled,
            limited,
            streams,
        }
    }
}

impl Metrics {
    pub fn registry(&self) -> Arc<Registry> {
        self.registry.clone()
    }

    pub fn render(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string cannot fail");
        text
    }

    /// A stream was given up because its client did not read.
    pub fn stalled(&self, kind: &'static str) {
        tracing::info!(kind, "gave a stream up: its client does not read");
        self.stalled.get_or_create(&[("kind", kind)]).inc();
    }

    /// A caller was told, or made, to wait.
    pub fn limited(&self, limit: Limit) {
        self.limited
            .get_or_create(&[("limit", limit.as_str())])
            .inc();
    }

    /// Counts a stream for as long as the guard lives.
    pub fn stream_guard(&self) -> StreamGuard {
        self.streams.inc();
        StreamGuard(self.streams.clone())
    }
}

/// Counts requests by what became of them.
pub async fn count_refusals(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>().copied();
    let response = next.run(request).await;
    if let Some(refusal) = response.extensions().get::<Refusal>() {
        app.metrics.limited(refusal.limit);
    }
    let status = response.status();
    if status.is_client_error() || status.is_server_error() {
        let peer = peer.map(|peer| tracing::field::display(peer.address));
        tracing::debug!(status = status.as_u16(), peer, "refused a request");
    }
    if status == StatusCode::SERVICE_UNAVAILABLE {
        app.metrics.unavailable.inc();
    } else if status.is_client_error() {
        app.metrics.refused.inc();
    } else if status.is_server_error() {
        app.metrics.failed.inc();
    }
    response
}

pub struct StreamGuard(Gauge<i64, AtomicI64>);

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}
