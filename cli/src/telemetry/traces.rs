//! Which traces are made, and where they and metrics go. The variables of OpenTelemetry count as
//! everywhere; where there is an option as well, that wins.

use baton_gateway::TraceSampling;
use baton_session::trace::TARGET;
use clap::Args;
use opentelemetry::global;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

use super::collector::{CollectorEndpoint, OtlpCollector};
use super::exporter;
use super::metrics::{self, MetricsExport};
use super::signal::{OtlpSignal, variable};
use crate::exit::ConfigurationError;
use crate::headings::OBSERVABILITY;

#[derive(Args)]
pub struct TraceOptions {
    /// OTLP collector for traces and metrics, such as http://127.0.0.1:4318
    ///
    /// The variables of OpenTelemetry apply as well; this option takes precedence over them.
    #[arg(
        long,
        env = "BATON_OTLP_ENDPOINT",
        value_name = "URL",
        hide_env_values = true,
        help_heading = OBSERVABILITY
    )]
    otlp_endpoint: Option<String>,
    /// Share of new traces that are recorded, from 0 to 1
    ///
    /// A trace that began elsewhere is recorded if it is recorded there.
    #[arg(long, env = "BATON_TRACE_SAMPLE", value_name = "RATIO", help_heading = OBSERVABILITY)]
    trace_sample: Option<f64>,
    /// Record a span for every operation on Redis
    #[arg(
        long,
        env = "BATON_TRACE_STORE",
        value_parser = clap::builder::BoolishValueParser::new(),
        help_heading = OBSERVABILITY
    )]
    trace_store: bool,
}

impl TraceOptions {
    /// Which spans a gateway makes.
    pub fn made(&self) -> TraceSampling {
        match (self.endpoint(OtlpSignal::Traces), self.trace_sample) {
            (None, _) => TraceSampling::None,
            (Some(_), None) => TraceSampling::All,
            (Some(_), Some(ratio)) => TraceSampling::Recorded(ratio),
        }
    }

    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if let Some(ratio) = self.trace_sample
            && !(0.0..=1.0).contains(&ratio)
        {
            faults.push(format!("--trace-sample {ratio}: must be between 0 and 1"));
        }
        let traces = self.collector(OtlpSignal::Traces).err().unwrap_or_default();
        // Mostly the same ones.
        let mut metrics = self
            .collector(OtlpSignal::Metrics)
            .err()
            .unwrap_or_default();
        metrics.retain(|fault| !traces.contains(fault));
        faults.extend(traces);
        faults.extend(metrics);
        if self.endpoint(OtlpSignal::Metrics).is_some() {
            faults.extend(metrics::interval().err());
        }
        faults
    }

    /// `None` if nobody wants the signal.
    fn endpoint(&self, signal: OtlpSignal) -> Option<CollectorEndpoint> {
        let disabled = variable("OTEL_SDK_DISABLED");
        let disabled = disabled.is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let is_wanted = !disabled && signal.is_wanted();
        CollectorEndpoint::of(signal, self.otlp_endpoint.as_deref()).filter(|_| is_wanted)
    }

    fn collector(&self, signal: OtlpSignal) -> Result<Option<OtlpCollector>, Vec<String>> {
        let endpoint = self.endpoint(signal);
        endpoint
            .map(|endpoint| OtlpCollector::of(signal, endpoint))
            .transpose()
    }

    /// `None` without a collector, or if something is wrong with the options.
    pub(super) fn provider(
        &self,
        resource: &Resource,
    ) -> anyhow::Result<Option<SdkTracerProvider>> {
        if !self.faults().is_empty() {
            return Ok(None);
        }
        let Ok(Some(collector)) = self.collector(OtlpSignal::Traces) else {
            return Ok(None);
        };
        let exporter = exporter::open(&collector);
        let exporter = exporter.map_err(|fault| ConfigurationError(vec![fault]))?;
        let mut provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.clone());
        // Gateways make no others than those that are to be recorded.
        if self.trace_sample.is_some() {
            let all = Box::new(Sampler::AlwaysOn);
            provider = provider.with_sampler(Sampler::ParentBased(all));
        }
        global::set_text_map_propagator(TraceContextPropagator::new());
        Ok(Some(provider.build()))
    }

    /// The same for metrics.
    pub(super) fn metrics(&self, resource: &Resource) -> anyhow::Result<Option<MetricsExport>> {
        if !self.faults().is_empty() {
            return Ok(None);
        }
        let Ok(Some(collector)) = self.collector(OtlpSignal::Metrics) else {
            return Ok(None);
        };
        let opened = metrics::interval()
            .and_then(|interval| MetricsExport::open(&collector, interval, resource));
        Ok(Some(
            opened.map_err(|fault| ConfigurationError(vec![fault]))?,
        ))
    }

    /// Takes our own spans and no others: not those of the exporter's client, for one.
    pub(super) fn layer<S>(&self, provider: &SdkTracerProvider) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let level = if self.trace_store {
            LevelFilter::TRACE
        } else {
            LevelFilter::INFO
        };
        let ours =
            filter_fn(move |metadata| metadata.target() == TARGET && metadata.level() <= &level);
        tracing_opentelemetry::layer()
            .with_tracer(provider.tracer("baton"))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            // A message may name its parent after its span was entered.
            .with_context_activation(false)
            .with_filter(ours.with_max_level_hint(level))
    }
}
