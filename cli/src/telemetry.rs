//! Logs go to standard error, so that standard output stays for people and pipes. Traces and
//! metrics go to a collector, if there is one.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use baton_session::trace::TARGET;
use opentelemetry_sdk::trace::SdkTracerProvider;
use prometheus_client::registry::Registry;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::filter::{FilterExt as _, LevelFilter, filter_fn};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, Layer, prelude::*, registry};

use self::metrics::MetricsExport;
pub use self::traces::TraceOptions;

mod collector;
mod exporter;
mod failures;
mod https;
mod metrics;
mod resource;
mod signal;
mod traces;

/// The embedded database tells how it tidies up; nobody asked.
pub const DEFAULT: &str = "info,fjall=error,lsm_tree=error";

/// How long stopping waits for what has not been sent.
const LAST: Duration = Duration::from_secs(2);

/// The exporters to the collector, if there is one.
pub struct Telemetry {
    traces: Option<SdkTracerProvider>,
    metrics: Option<MetricsExport>,
}

/// `BATON_LOG` sets the level, `BATON_LOG_FORMAT=json` the format. Options with faults send
/// nothing: whoever runs with them has to complain. Must be called on the runtime, where exporters
/// live.
pub fn start(
    traces: Option<(&TraceOptions, &'static str)>,
    default: &str,
) -> anyhow::Result<Telemetry> {
    let (provider, metrics) = match traces {
        Some((options, service)) => {
            let resource = resource::resource(service);
            (options.provider(&resource)?, options.metrics(&resource)?)
        }
        None => (None, None),
    };
    // That it may tell of every level keeps it from slowing down those that are off.
    let told = filter_fn(is_told).with_max_level_hint(LevelFilter::TRACE);
    let logs = logs().with_filter(filter(default).and(told));
    match (traces, &provider) {
        (Some((options, _)), Some(provider)) => {
            registry().with(logs).with(options.layer(provider)).init();
        }
        _ => registry().with(logs).init(),
    }
    Ok(Telemetry {
        traces: provider,
        metrics,
    })
}

impl Telemetry {
    /// From now on the collector gets what this registry holds, too.
    pub fn report(&self, registry: Arc<Registry>) {
        if let Some(metrics) = &self.metrics {
            metrics.report(registry);
        }
    }

    /// Sends what is left, unless that takes too long or somebody is in a hurry.
    pub async fn finish(self, hurry: &CancellationToken) {
        let spans = async {
            if let Some(provider) = self.traces {
                let _ = spawn_blocking(move || provider.shutdown_with_timeout(LAST)).await;
            }
        };
        let metrics = async {
            if let Some(metrics) = self.metrics {
                let _ = timeout(LAST, metrics.finish()).await;
            }
        };
        tokio::select! {
            biased;
            _ = hurry.cancelled() => {}
            _ = async { tokio::join!(spans, metrics) } => {}
        }
    }
}

fn logs<S>() -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let colours = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(colours)
        .with_writer(std::io::stderr);
    if std::env::var("BATON_LOG_FORMAT").as_deref() == Ok("json") {
        lines.json().boxed()
    } else {
        lines.with_target(false).boxed()
    }
}

/// Spans are for the collector alone.
fn filter(default: &str) -> EnvFilter {
    let filter = EnvFilter::try_from_env("BATON_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let no_spans = format!("{TARGET}=off").parse();
    filter.add_directive(no_spans.expect("a directive"))
}

/// Some targets are never logged, whatever `BATON_LOG` says: the WebSocket library would quote
/// every message. The exporter would log every failure, with its headers. Failures are logged by
/// [`exporter::ReportedExporter`]; only that spans are dropped before they get there is news.
fn is_told(metadata: &Metadata<'_>) -> bool {
    let target = metadata.target();
    let quotes = target.starts_with("tungstenite") && *metadata.level() == Level::TRACE;
    let exports = target.starts_with("opentelemetry")
        && metadata.name() != "BatchSpanProcessor.SpanDroppingStarted";
    !quotes && !exports
}
