//! Which traces are made, and where they go. The variables of OpenTelemetry count as everywhere; where there
//! is an option as well, that wins.

use std::env;
use std::time::Duration;

use baton_session::id::random_text;
use baton_session::trace::TARGET;
use clap::Args;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{KeyValue, global};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

use super::exporter::{self, Collector, Protocol};
use crate::exit::Misconfigured;

#[derive(Args)]
pub struct TraceOptions {
    /// Collector that traces are sent to by OTLP, as http://127.0.0.1:4318; without one none are made
    #[arg(
        long,
        env = "BATON_OTLP_ENDPOINT",
        value_name = "URL",
        hide_env_values = true
    )]
    otlp_endpoint: Option<String>,
    /// How many of the traces that begin here are recorded, from 0 to 1. Others go by where they began
    #[arg(long, env = "BATON_TRACE_SAMPLE", value_name = "RATIO")]
    trace_sample: Option<f64>,
    /// A span for every step on Redis, too
    #[arg(
        long,
        env = "BATON_TRACE_STORE",
        value_parser = clap::builder::BoolishValueParser::new()
    )]
    trace_store: bool,
}

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

impl TraceOptions {
    pub fn are_on(&self) -> bool {
        let disabled = variable(&["OTEL_SDK_DISABLED"]);
        let disabled = disabled.is_some_and(|value| value.eq_ignore_ascii_case("true"));
        !disabled && self.endpoint().is_some()
    }

    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if let Some(ratio) = self.trace_sample
            && !(0.0..=1.0).contains(&ratio)
        {
            faults.push(format!("--trace-sample {ratio}: must be between 0 and 1"));
        }
        if self.are_on() {
            faults.extend(self.collector().err().into_iter().flatten());
        }
        faults
    }

    /// As it was given, and the name by which.
    fn endpoint(&self) -> Option<(&'static str, String)> {
        let given = self.otlp_endpoint.clone().filter(|url| !url.is_empty());
        let given = given.map(|url| ("--otlp-endpoint", url));
        given.or_else(|| {
            [
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
                "OTEL_EXPORTER_OTLP_ENDPOINT",
            ]
            .into_iter()
            .find_map(|name| Some((name, variable(&[name])?)))
        })
    }

    fn collector(&self) -> Result<Collector, Vec<String>> {
        let mut faults = Vec::new();
        let protocol = match protocol() {
            Ok(protocol) => protocol,
            Err(fault) => {
                faults.push(fault);
                Protocol::Http
            }
        };
        let compression = variable(&[
            "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION",
            "OTEL_EXPORTER_OTLP_COMPRESSION",
        ]);
        if compression.is_some_and(|value| value != "none") {
            faults.push("OTEL_EXPORTER_OTLP_COMPRESSION: must be none, or not set".into());
        }
        let (name, url) = self.endpoint().unwrap_or_default();
        let is_url = reqwest::Url::parse(&url)
            .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        if !is_url {
            // Not what was given: there may be a password in it.
            faults.push(format!(
                "{name}: must be a URL of http or https, such as http://127.0.0.1:4318"
            ));
        }
        // The standard has one base for all signals, or an address for this one.
        let whole = name == "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" || protocol == Protocol::Grpc;
        let collector = Collector {
            url: match whole {
                true => url,
                false => format!("{}/v1/traces", url.trim_end_matches('/')),
            },
            protocol,
            timeout: timeout(),
        };
        match faults.is_empty() {
            true => Ok(collector),
            false => Err(faults),
        }
    }

    /// `None` without a collector, or if something is wrong with the options.
    pub(super) fn provider(
        &self,
        service: &'static str,
    ) -> anyhow::Result<Option<SdkTracerProvider>> {
        if !self.are_on() || !self.faults().is_empty() {
            return Ok(None);
        }
        let collector = self.collector().map_err(Misconfigured)?;
        let exporter = exporter::open(&collector);
        let exporter = exporter.map_err(|fault| Misconfigured(vec![fault]))?;
        let mut provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource(service));
        if let Some(ratio) = self.trace_sample {
            let ratio = Sampler::TraceIdRatioBased(ratio);
            provider = provider.with_sampler(Sampler::ParentBased(Box::new(ratio)));
        }
        global::set_text_map_propagator(TraceContextPropagator::new());
        Ok(Some(provider.build()))
    }

    /// Takes our own spans and no others: not those of the exporter's client, for one.
    pub(super) fn layer<S>(&self, provider: &SdkTracerProvider) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let level = match self.trace_store {
            true => LevelFilter::TRACE,
            false => LevelFilter::INFO,
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

fn protocol() -> Result<Protocol, String> {
    let given = variable(&[
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
    ]);
    match given.as_deref() {
        None | Some("http/protobuf") => Ok(Protocol::Http),
        Some("grpc") => Ok(Protocol::Grpc),
        Some(other) => Err(format!(
            "OTEL_EXPORTER_OTLP_PROTOCOL {other:?}: must be grpc or http/protobuf"
        )),
    }
}

fn timeout() -> Duration {
    let given = variable(&[
        "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
        "OTEL_EXPORTER_OTLP_TIMEOUT",
    ]);
    let given = given.and_then(|given| given.parse().ok());
    given.map_or(DEFAULT_TIMEOUT, Duration::from_millis)
}

/// Which process it is. What the environment says counts more.
fn resource(service: &'static str) -> Resource {
    let told = Resource::builder().build();
    let is_told = |name: &'static str| told.get(&name.into()).is_some();
    let named = told
        .get(&"service.name".into())
        .is_some_and(|name| !name.as_str().starts_with("unknown_service"));
    let mut resource = Resource::builder();
    if !named {
        resource = resource.with_service_name(service);
    }
    if !is_told("service.version") {
        let version = env!("CARGO_PKG_VERSION");
        resource = resource.with_attribute(KeyValue::new("service.version", version));
    }
    if !is_told("service.instance.id") {
        let id = random_text(12);
        resource = resource.with_attribute(KeyValue::new("service.instance.id", id));
    }
    resource.build()
}

/// The first of these that is set to something.
fn variable(names: &[&str]) -> Option<String> {
    let set = |name: &&str| env::var(name).ok().filter(|value| !value.is_empty());
    names.iter().find_map(set)
}
