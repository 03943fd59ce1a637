//! What a process says of itself: every few seconds a few figures, and those of each minute of the
//! last hour. Each process keeps its own and writes them as one small value, which ends with it: so
//! any gateway can show the whole cluster, without anything beside the store.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

pub use self::sample::MetricSample;
use crate::clock::unix_seconds;
use crate::metrics::{Registry, page};
use crate::store::{Error, Store};

mod sample;

/// How often a process reports, and hears what it is asked to do.
pub const PACE: Duration = Duration::from_secs(5);
/// A process that has not reported for so long is gone.
const LASTS: Duration = Duration::from_secs(20);
const MINUTES: usize = 60;

/// What a process is asked to do: to end in order.
pub const DRAIN: &str = "drain";

/// One process's reports, until it stops.
pub struct ReportTask {
    pub store: Arc<dyn Store>,
    /// Its name among all processes.
    pub process: String,
    /// What it is: gateway, worker, or both.
    pub role: &'static str,
    pub version: &'static str,
    pub registry: Arc<Registry>,
    /// What only this process knows: its agent, who uses it most.
    pub details: Box<dyn Fn() -> Value + Send + Sync>,
    /// Cancelled by the order to end, and by whoever else stops the process.
    pub drain: CancellationToken,
    pub stop: CancellationToken,
}

#[derive(Serialize)]
struct ProcessReport<'a> {
    role: &'a str,
    version: &'a str,
    /// In seconds since 1970.
    started: u64,
    at: u64,
    draining: bool,
    /// Since the start.
    counters: &'a BTreeMap<&'static str, f64>,
    gauges: &'a BTreeMap<&'static str, f64>,
    minutes: &'a VecDeque<MinuteFigures>,
    details: Value,
}

/// What happened within one minute, and how it stood at its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct MinuteFigures {
    /// In minutes since 1970.
    at: u64,
    counters: BTreeMap<&'static str, f64>,
    gauges: BTreeMap<&'static str, f64>,
    /// Seconds below which half, and 99 of 100, stayed.
    latencies: BTreeMap<&'static str, [f64; 2]>,
}

/// The last hour, as far as the process has lived.
#[derive(Default)]
struct HourFigures {
    minutes: VecDeque<MinuteFigures>,
    /// As it stood when the running minute began.
    base: Option<(u64, MetricSample)>,
}

impl HourFigures {
    fn add(&mut self, second: u64, sample: MetricSample) {
        let minute = second / 60;
        match &self.base {
            Some((at, _)) if *at == minute => {}
            Some((at, base)) => {
                self.minutes.push_back(MinuteFigures {
                    at: *at,
                    counters: sample.counters_since(base),
                    gauges: sample.gauges.clone(),
                    latencies: sample.latencies_since(base),
                });
                while self.minutes.len() > MINUTES {
                    self.minutes.pop_front();
                }
                self.base = Some((minute, sample));
            }
            None => self.base = Some((minute, sample)),
        }
    }
}

/// Whoever cannot report goes on all the same: nobody depends on it.
pub async fn run(task: ReportTask) {
    let (mut hour, started) = (HourFigures::default(), unix_seconds());
    let mut ticks = interval(PACE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failing = false;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = task.stop.cancelled() => return,
        }
        let at = unix_seconds();
        let sample = MetricSample::read(&page(&task.registry));
        hour.add(at, sample.clone());
        let report = ProcessReport {
            role: task.role,
            version: task.version,
            started,
            at,
            draining: task.drain.is_cancelled(),
            counters: &sample.counters,
            gauges: &sample.gauges,
            minutes: &hour.minutes,
            details: (task.details)(),
        };
        let report = serde_json::to_vec(&report).expect("figures always encode");
        let report = Bytes::from(report);
        let order = task.store.report(&task.process, &report, LASTS);
        match order.await {
            Ok(order) => {
                failing = false;
                if order.as_deref() == Some(DRAIN) && !task.drain.is_cancelled() {
                    tracing::info!("an administrator asks this process to end in order");
                    task.drain.cancel();
                }
            }
            // Others tell of it.
            Err(Error::Unavailable(_)) => {}
            Err(error) if !failing => {
                failing = true;
                tracing::warn!(%error, "operators do not see this process: its report is not kept");
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(messages: u32) -> MetricSample {
        MetricSample::read(&format!(
            "baton_gateway_messages_total{{method=\"x\"}} {messages}\nbaton_gateway_streams 2\n"
        ))
    }

    #[test]
    fn a_minute_has_what_happened_in_it_and_an_hour_has_sixty() {
        let mut hour = HourFigures::default();
        hour.add(600, sample(5));
        hour.add(630, sample(8));
        assert!(hour.minutes.is_empty(), "it is not over");
        hour.add(661, sample(9));
        assert_eq!(hour.minutes.len(), 1);
        assert_eq!(hour.minutes[0].at, 10);
        assert_eq!(hour.minutes[0].counters["messages"], 4.0);
        assert_eq!(hour.minutes[0].gauges["streams"], 2.0);
        for minute in 12..200 {
            hour.add(minute * 60, sample(9));
        }
        assert_eq!(hour.minutes.len(), MINUTES);
        assert_eq!(hour.minutes.back().map(|last| last.at), Some(198));
        let text = serde_json::to_string(&hour.minutes).unwrap();
        assert!(text.len() < 16 << 10, "{} bytes", text.len());
    }
}
