//! Metrics that came to the collector, written as on the page of metrics, so that both can be compared.

use std::collections::BTreeMap;

use axum::http::HeaderMap;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::{Metric, metric::Data, number_data_point::Value};
use prost::Message as _;

use super::{Sent, attributes};

/// Every series by its name and labels.
pub type Series = BTreeMap<String, f64>;

pub struct Reading {
    pub headers: HeaderMap,
    pub resource: BTreeMap<String, String>,
    pub series: Series,
}

impl Reading {
    pub(super) fn read(sent: Sent) -> Self {
        let request = ExportMetricsServiceRequest::decode(sent.body);
        let request = request.expect("a request of the protocol");
        let [from] = request.resource_metrics.try_into().expect("one process");
        let metrics = from.scope_metrics.into_iter().flat_map(|it| it.metrics);
        let mut series = Series::new();
        metrics.for_each(|metric| add(&mut series, metric));
        Self {
            headers: sent.headers,
            resource: attributes(from.resource.expect("a resource").attributes),
            series,
        }
    }
}

/// As one that makes a page from OTLP does it.
fn add(series: &mut Series, metric: Metric) {
    let name = metric.name;
    let mut put = |name: String, labels: BTreeMap<String, String>, value: f64| {
        let before = series.insert(named(&name, &labels), value);
        assert!(before.is_none(), "{name} twice");
    };
    let labels = |list: Vec<KeyValue>| attributes(list);
    match metric.data.expect("something") {
        Data::Sum(sum) => {
            assert!(sum.is_monotonic);
            for point in sum.data_points {
                assert!(point.start_time_unix_nano < point.time_unix_nano);
                let name = format!("{name}_total");
                put(name, labels(point.attributes), number(point.value));
            }
        }
        Data::Gauge(gauge) => {
            for point in gauge.data_points {
                put(name.clone(), labels(point.attributes), number(point.value));
            }
        }
        Data::Histogram(histogram) => {
            for point in histogram.data_points {
                let labels = labels(point.attributes);
                let sum = point.sum.expect("a sum");
                put(format!("{name}_sum"), labels.clone(), sum);
                put(format!("{name}_count"), labels.clone(), point.count as f64);
                let bounds = point.explicit_bounds.into_iter().chain([f64::INFINITY]);
                let mut all = 0;
                for (bound, count) in bounds.zip(point.bucket_counts) {
                    all += count;
                    let mut labels = labels.clone();
                    labels.insert("le".into(), format!("{bound:?}"));
                    put(format!("{name}_bucket"), labels, all as f64);
                }
            }
        }
        other => panic!("nothing that is on the page: {other:?}"),
    }
}

fn number(value: Option<Value>) -> f64 {
    match value.expect("a value") {
        Value::AsDouble(number) => number,
        Value::AsInt(number) => number as f64,
    }
}

fn named(name: &str, labels: &BTreeMap<String, String>) -> String {
    let labels = labels.iter().map(|(name, value)| format!("{name}={value}"));
    format!("{name}{{{}}}", labels.collect::<Vec<_>>().join(","))
}

/// The page itself. None of our labels has a comma or a quote in it.
pub fn page(text: &str) -> Series {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let series = lines.map(|line| {
        let line = line
            .split(" # ")
            .next()
            .expect("what is before an exemplar");
        let (series, value) = line.rsplit_once(' ').expect("a name and a value");
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let labels = labels.trim_end_matches('}').split(',');
        let labels = labels.filter(|label| !label.is_empty()).map(|label| {
            let (name, value) = label.split_once('=').expect("a label");
            let value = value.trim_matches('"');
            let value = match name {
                "le" => format!("{:?}", value.parse::<f64>().expect("a bound")),
                _ => value.to_owned(),
            };
            (name.to_owned(), value)
        });
        (
            named(name, &labels.collect()),
            value.parse().expect("a number"),
        )
    });
    series.collect()
}
