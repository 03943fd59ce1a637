//! The content of a registry at a moment, as OTLP. Names are those of the page of metrics, without
//! the `_total` of counters: exporters that make such a page from OTLP add it.

use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry::{SpanId, TraceId};
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Exemplar, Gauge, Histogram, HistogramDataPoint, Metric,
    NumberDataPoint, Sum, exemplar, metric::Data, number_data_point,
};
use prometheus_client::encoding::prometheus_protobuf::{encode, prometheus_data_model as page};
use prometheus_client::registry::Registry;

#[cfg(test)]
mod tests;

const TEMPORALITY: AggregationTemporality = AggregationTemporality::Cumulative;

/// Counters have counted since `start`.
pub fn snapshot(
    registry: &Registry,
    start: SystemTime,
    now: SystemTime,
) -> Result<Vec<Metric>, std::fmt::Error> {
    let moment = SnapshotTime {
        start: nanos(start),
        now: nanos(now),
    };
    let families = encode(registry)?.into_iter();
    Ok(families.map(|family| moment.family(family)).collect())
}

struct SnapshotTime {
    start: u64,
    now: u64,
}

impl SnapshotTime {
    fn family(&self, family: page::MetricFamily) -> Metric {
        let kind = family.r#type();
        let points = family.metric.into_iter();
        let data = match kind {
            page::MetricType::Counter => Data::Sum(Sum {
                data_points: points.filter_map(|point| self.counter(point)).collect(),
                aggregation_temporality: TEMPORALITY.into(),
                is_monotonic: true,
            }),
            page::MetricType::Histogram => Data::Histogram(Histogram {
                data_points: points.filter_map(|point| self.histogram(point)).collect(),
                aggregation_temporality: TEMPORALITY.into(),
            }),
            // There are no others in a registry.
            _ => Data::Gauge(Gauge {
                data_points: points.filter_map(|point| self.gauge(point)).collect(),
            }),
        };
        let name = match kind {
            page::MetricType::Counter => family.name.strip_suffix("_total").unwrap_or(&family.name),
            _ => &family.name,
        };
        Metric {
            name: name.to_owned(),
            description: family.help,
            unit: unit(&family.unit).to_owned(),
            data: Some(data),
            ..Default::default()
        }
    }

    fn counter(&self, point: page::Metric) -> Option<NumberDataPoint> {
        let counter = point.counter?;
        let exemplars = counter.exemplar.into_iter();
        Some(NumberDataPoint {
            attributes: attributes(point.label),
            start_time_unix_nano: self.start,
            time_unix_nano: self.now,
            exemplars: exemplars.map(|it| self.exemplar(it)).collect(),
            value: Some(number_data_point::Value::AsDouble(counter.value)),
            ..Default::default()
        })
    }

    fn gauge(&self, point: page::Metric) -> Option<NumberDataPoint> {
        Some(NumberDataPoint {
            attributes: attributes(point.label),
            time_unix_nano: self.now,
            value: Some(number_data_point::Value::AsDouble(point.gauge?.value)),
            ..Default::default()
        })
    }

    /// The page counts in each bucket those before it as well; OTLP does not. The last one has no
    /// bound there.
    fn histogram(&self, point: page::Metric) -> Option<HistogramDataPoint> {
        let histogram = point.histogram?;
        let mut before = 0;
        let counts = histogram.bucket.iter().map(|bucket| {
            let count = bucket.cumulative_count - before;
            before = bucket.cumulative_count;
            count
        });
        let bucket_counts = counts.collect();
        let bounds = histogram.bucket.iter().map(|bucket| bucket.upper_bound);
        let explicit_bounds = bounds.filter(|bound| bound.is_finite()).collect();
        let exemplars = histogram.bucket.into_iter().filter_map(|it| it.exemplar);
        Some(HistogramDataPoint {
            attributes: attributes(point.label),
            start_time_unix_nano: self.start,
            time_unix_nano: self.now,
            count: histogram.sample_count,
            sum: Some(histogram.sample_sum),
            bucket_counts,
            explicit_bounds,
            exemplars: exemplars.map(|it| self.exemplar(it)).collect(),
            ..Default::default()
        })
    }

    /// Readers of the page take an exemplar without a time for one of now, too.
    fn exemplar(&self, exemplar: page::Exemplar) -> Exemplar {
        let mut made = Exemplar {
            time_unix_nano: self.now,
            value: Some(exemplar::Value::AsDouble(exemplar.value)),
            ..Default::default()
        };
        if let Some(time) = exemplar.timestamp {
            let seconds = u64::try_from(time.seconds).unwrap_or_default();
            made.time_unix_nano = seconds * 1_000_000_000 + time.nanos.unsigned_abs() as u64;
        }
        for label in exemplar.label {
            let (name, value) = (label.name.as_str(), label.value.as_str());
            match (name, TraceId::from_hex(value), SpanId::from_hex(value)) {
                ("trace_id", Ok(id), _) => made.trace_id = id.to_bytes().to_vec(),
                ("span_id", _, Ok(id)) => made.span_id = id.to_bytes().to_vec(),
                _ => made.filtered_attributes.push(attribute(label)),
            }
        }
        made
    }
}

/// As OpenTelemetry writes it, where it has another word.
fn unit(unit: &str) -> &str {
    match unit {
        "seconds" => "s",
        "bytes" => "By",
        other => other,
    }
}

fn attributes(labels: Vec<page::LabelPair>) -> Vec<KeyValue> {
    labels.into_iter().map(attribute).collect()
}

fn attribute(label: page::LabelPair) -> KeyValue {
    KeyValue {
        key: label.name,
        value: Some(AnyValue {
            value: Some(any_value::Value::StringValue(label.value)),
        }),
        ..Default::default()
    }
}

fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
