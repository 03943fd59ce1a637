//! Metrics of model calls and tool calls of the native agent.

use std::time::Duration;

use baton_session::metrics::Registry;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Unit;

/// In seconds: a model may have to be loaded.
const FIRST_TOKEN_BUCKETS: [f64; 12] = [
    0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 120.0, 300.0,
];

/// By the names that the operator has given the models.
type ByModel<const N: usize> = [(&'static str, String); N];

#[derive(Clone, Debug)]
pub struct ModelMetrics {
    calls: Family<ByModel<2>, Counter>,
    tokens: Family<ByModel<2>, Counter>,
    retries: Family<ByModel<1>, Counter>,
    first_token: Family<ByModel<1>, Histogram, fn() -> Histogram>,
    tools: Family<[(&'static str, &'static str); 2], Counter>,
}

impl Default for ModelMetrics {
    fn default() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(FIRST_TOKEN_BUCKETS);
        Self {
            calls: Family::default(),
            tokens: Family::default(),
            retries: Family::default(),
            first_token: Family::new_with_constructor(histogram),
            tools: Family::default(),
        }
    }
}

impl ModelMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Calls of models, by how they ended";
        registry.register("model_calls", help, self.calls.clone());
        let help = "Tokens that models have read and written";
        registry.register("model_tokens", help, self.tokens.clone());
        let help = "Calls of models that were repeated before an answer began";
        registry.register("model_retries", help, self.retries.clone());
        let help = "Time from the call of a model to the first piece of its answer";
        let first = self.first_token.clone();
        registry.register_with_unit("model_first_token", help, Unit::Seconds, first);
        let help = "Tool calls of models, by how they ended";
        registry.register("tool_calls", help, self.tools.clone());
    }

    /// The first piece of an answer is there.
    pub(crate) fn begun(&self, model: &str, after: Duration, retries: u32) {
        let model = [("model", model.to_owned())];
        self.first_token
            .get_or_create(&model)
            .observe(after.as_secs_f64());
        if retries > 0 {
            self.retries.get_or_create(&model).inc_by(retries.into());
        }
    }

    /// `outcome`: `ok`, or the kind of error.
    pub(crate) fn called(&self, model: &str, outcome: &'static str) {
        let labels = [("model", model.to_owned()), ("outcome", outcome.to_owned())];
        self.calls.get_or_create(&labels).inc();
    }

    /// Tokens of one call, by their kind.
    pub(crate) fn counted(&self, model: &str, kinds: [(&'static str, u64); 4]) {
        for (kind, count) in kinds {
            let labels = [("model", model.to_owned()), ("kind", kind.to_owned())];
            self.tokens.get_or_create(&labels).inc_by(count);
        }
    }

    /// `tool`: one of our own, or `mcp`, because servers choose the names of theirs.
    pub(crate) fn tool_ended(&self, tool: &'static str, outcome: &'static str) {
        let labels = [("tool", tool), ("outcome", outcome)];
        self.tools.get_or_create(&labels).inc();
    }
}
