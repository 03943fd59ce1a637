//! Exports metrics to the collector: all of them at regular intervals, as they are at that moment.
//! A failed export is not repeated, since the next one has the same and more.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::metrics::v1::{ResourceMetrics, ScopeMetrics};
use opentelemetry_sdk::Resource;
use prometheus_client::registry::Registry;
use tokio::time::{MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::push::MetricsPush;
use self::snapshot::snapshot;
use super::collector::OtlpCollector;
use super::failures::ExportFailures;
use super::signal::variable;

mod push;
mod snapshot;

const DEFAULT_INTERVAL: Duration = Duration::from_secs(60);

/// How often metrics are sent.
pub fn interval() -> Result<Duration, String> {
    let name = "OTEL_METRIC_EXPORT_INTERVAL";
    let Some(given) = variable(name) else {
        return Ok(DEFAULT_INTERVAL);
    };
    match given.parse() {
        Ok(milliseconds @ 1..) => Ok(Duration::from_millis(milliseconds)),
        _ => Err(format!(
            "{name} {given:?}: must be a number of milliseconds, 1 at least"
        )),
    }
}

/// Sends what registries hold until it is told to finish.
#[derive(Clone)]
pub struct MetricsExport {
    push: Arc<MetricsPush>,
    interval: Duration,
    resource: Resource,
    /// Of the process: from then on counters count.
    start: SystemTime,
    finish: CancellationToken,
    tasks: TaskTracker,
}

impl MetricsExport {
    pub fn open(
        collector: &OtlpCollector,
        interval: Duration,
        resource: &Resource,
    ) -> Result<Self, String> {
        Ok(Self {
            push: Arc::new(MetricsPush::open(collector)?),
            interval,
            resource: resource.clone(),
            start: SystemTime::now(),
            finish: CancellationToken::new(),
            tasks: TaskTracker::new(),
        })
    }

    /// From now on the collector gets what this registry holds.
    pub fn report(&self, registry: Arc<Registry>) {
        self.tasks.spawn(self.clone().run(registry));
    }

    /// Returns when the last ones are sent, or could not be.
    pub async fn finish(&self) {
        self.finish.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    async fn run(self, registry: Arc<Registry>) {
        let mut failures = ExportFailures::default();
        let first = tokio::time::Instant::now() + self.interval;
        let mut ticks = interval_at(first, self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let finish = self.finish.clone();
        loop {
            let one = async {
                ticks.tick().await;
                self.send(&registry, &mut failures).await;
            };
            // An export in progress is older than the last one.
            tokio::select! {
                biased;
                _ = finish.cancelled() => break,
                _ = one => {}
            }
        }
        self.send(&registry, &mut failures).await;
    }

    async fn send(&self, registry: &Registry, failures: &mut ExportFailures) {
        let outcome = match self.request(registry) {
            Ok(request) => self.push.send(request).await,
            Err(error) => Err(error),
        };
        if let Err(error) = outcome
            && let Some(times) = failures.add(1, Instant::now())
        {
            let error = format_args!("{error:#}");
            tracing::warn!(
                %error,
                times,
                "the collector takes no metrics; OTEL_METRICS_EXPORTER=none sends none"
            );
        }
    }

    fn request(&self, registry: &Registry) -> anyhow::Result<ExportMetricsServiceRequest> {
        let scope = InstrumentationScope {
            name: "baton".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Default::default()
        };
        let scope_metrics = ScopeMetrics {
            scope: Some(scope),
            metrics: snapshot(registry, self.start, SystemTime::now())?,
            ..Default::default()
        };
        let resource_metrics = ResourceMetrics {
            resource: Some((&self.resource).into()),
            scope_metrics: vec![scope_metrics],
            ..Default::default()
        };
        Ok(ExportMetricsServiceRequest {
            resource_metrics: vec![resource_metrics],
        })
    }
}
