//! Building blocks of metrics, and the metrics of the Redis client. Each part of Baton has a table
//! of its own and counts whether or not anybody reads it; a process that shows metrics puts the
//! tables into one registry.

use std::time::{Duration, SystemTime};

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::{MetricType, TypedMetric};
pub use prometheus_client::registry::Registry;
use prometheus_client::registry::Unit;

use crate::trace::TraceContext;

/// The media type of a [`page`].
pub const PAGE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics as OpenMetrics has them.
pub fn page(registry: &Registry) -> String {
    let mut text = String::new();
    encode(&mut text, registry).expect("writing to a string cannot fail");
    text
}

/// A counter for each value of one label.
pub type LabeledCounter = Family<[(&'static str, &'static str); 1], Counter>;

/// In seconds, from what is in memory to what nobody waits for any longer.
const BUCKETS: [f64; 14] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// How long something took. Each bucket names the trace of the last one in it, if that was traced.
#[derive(Clone, Debug)]
pub struct LatencyHistogram(HistogramWithExemplars<[(&'static str, String); 2]>);

impl LatencyHistogram {
    pub fn with_buckets(buckets: impl IntoIterator<Item = f64>) -> Self {
        Self(HistogramWithExemplars::new(buckets.into_iter()))
    }

    pub fn observe(&self, took: Duration, trace: Option<&TraceContext>) {
        let place = trace.and_then(TraceContext::place);
        let place = place
            .map(|(trace, span)| [("trace_id", trace.to_owned()), ("span_id", span.to_owned())]);
        let now = place.is_some().then(SystemTime::now);
        self.0.observe(took.as_secs_f64(), place, now);
    }

    pub fn register(&self, registry: &mut Registry, name: &str, help: &str) {
        registry.register_with_unit(name, help, Unit::Seconds, self.clone());
    }
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::with_buckets(BUCKETS)
    }
}

impl EncodeMetric for LatencyHistogram {
    fn encode(&self, encoder: MetricEncoder) -> Result<(), std::fmt::Error> {
        self.0.encode(encoder)
    }

    fn metric_type(&self) -> MetricType {
        self.0.metric_type()
    }
}

impl TypedMetric for LatencyHistogram {
    const TYPE: MetricType = MetricType::Histogram;
}

/// How the store on Redis fares, as this process sees it.
#[derive(Clone, Debug, Default)]
pub struct StoreMetrics {
    pub steps: LatencyHistogram,
    pub given_up: Counter,
    errors: LabeledCounter,
}

impl StoreMetrics {
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("store");
        let help = "How long steps on Redis took, repetitions included";
        self.steps.register(registry, "step", help);
        let help = "Tries of steps on Redis that failed, by why; they are repeated";
        registry.register("errors", help, self.errors.clone());
        let help = "Steps on Redis that were given up after five seconds";
        registry.register("given_up", help, self.given_up.clone());
    }

    pub(crate) fn failed(&self, why: &'static str) {
        self.errors.get_or_create(&[("reason", why)]).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_names_the_last_trace_in_it() {
        let mut registry = Registry::with_prefix("baton");
        let latency = LatencyHistogram::default();
        latency.register(&mut registry, "wait", "How long it took");
        let trace =
            TraceContext::from_text("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        latency.observe(Duration::from_millis(7), Some(&trace));
        let unsampled =
            TraceContext::from_text("00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00");
        latency.observe(Duration::from_millis(70), Some(&unsampled));
        latency.observe(Duration::from_secs(70), None);
        let page = page(&registry);
        let line = |start: &str| {
            let found = page.lines().find(|line| line.starts_with(start));
            found.unwrap_or_else(|| panic!("no {start} in {page}"))
        };
        assert!(line("baton_wait_seconds_bucket{le=\"0.005\"}").ends_with(" 0"));
        let seven = line("baton_wait_seconds_bucket{le=\"0.01\"}");
        assert!(
            seven.contains(
                " 1 # {trace_id=\"0af7651916cd43dd8448eb211c80319c\",span_id=\"b7ad6b7169203331\"\
                 } 0.007 "
            ),
            "{seven}"
        );
        assert!(line("baton_wait_seconds_bucket{le=\"0.1\"}").ends_with(" 2"));
        assert!(line("baton_wait_seconds_bucket{le=\"10.0\"}").ends_with(" 2"));
        assert!(line("baton_wait_seconds_bucket{le=\"+Inf\"}").ends_with(" 3"));
    }
}
