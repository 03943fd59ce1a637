use std::sync::atomic::AtomicU64;
use std::time::Duration;

use number_data_point::Value::AsDouble;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::{CounterWithExemplar, HistogramWithExemplars};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge as GaugeMetric;
use prometheus_client::metrics::histogram::Histogram as HistogramMetric;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Unit;

use super::*;

const START: Duration = Duration::from_secs(1_000);
const NOW: Duration = Duration::from_secs(1_060);
const START_NANOS: u64 = 1_000_000_000_000;
const NOW_NANOS: u64 = 1_060_000_000_000;

type Labels = [(&'static str, &'static str); 1];
/// The span ids of an exemplar.
type Place = Vec<(String, String)>;

/// The metrics of a registry after `fill`.
fn taken(fill: impl FnOnce(&mut Registry)) -> Vec<Metric> {
    let mut registry = Registry::with_prefix("baton");
    fill(&mut registry);
    snapshot(&registry, UNIX_EPOCH + START, UNIX_EPOCH + NOW).expect("it can be read")
}

fn one(metrics: Vec<Metric>) -> (Metric, Data) {
    let [metric] = metrics.try_into().expect("one metric");
    let data = metric.data.clone().expect("with something in it");
    (metric, data)
}

fn sum(metrics: Vec<Metric>) -> (Metric, Sum) {
    match one(metrics) {
        (metric, Data::Sum(sum)) => (metric, sum),
        (_, other) => panic!("a sum, not {other:?}"),
    }
}

fn gauge(metrics: Vec<Metric>) -> (Metric, Gauge) {
    match one(metrics) {
        (metric, Data::Gauge(gauge)) => (metric, gauge),
        (_, other) => panic!("a gauge, not {other:?}"),
    }
}

fn histogram(metrics: Vec<Metric>) -> (Metric, HistogramDataPoint) {
    match one(metrics) {
        (metric, Data::Histogram(histogram)) => {
            assert_eq!(histogram.aggregation_temporality, 2, "cumulative");
            let [point] = histogram.data_points.try_into().expect("one point");
            (metric, point)
        }
        (_, other) => panic!("a histogram, not {other:?}"),
    }
}

fn texts(attributes: &[KeyValue]) -> Vec<(&str, &str)> {
    let pairs = attributes.iter().map(|pair| {
        let value = pair.value.as_ref().and_then(|value| value.value.as_ref());
        match value {
            Some(any_value::Value::StringValue(text)) => (pair.key.as_str(), text.as_str()),
            other => panic!("a text, not {other:?}"),
        }
    });
    pairs.collect()
}

fn place(labels: &[(&str, &str)]) -> Place {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    labels.iter().map(owned).collect()
}

#[test]
fn a_counter_is_a_sum_since_the_start() {
    let (metric, sum) = sum(taken(|registry| {
        let counter = Counter::<u64>::default();
        registry.register("events", "Messages written to clients", counter.clone());
        counter.inc_by(42);
    }));
    assert_eq!(metric.name, "baton_events");
    assert_eq!(metric.description, "Messages written to clients.");
    assert_eq!(metric.unit, "");
    assert!(sum.is_monotonic);
    assert_eq!(sum.aggregation_temporality, 2, "cumulative");
    let [point] = sum.data_points.try_into().expect("one point");
    assert_eq!(point.value, Some(AsDouble(42.0)));
    assert_eq!(point.start_time_unix_nano, START_NANOS);
    assert_eq!(point.time_unix_nano, NOW_NANOS);
    assert!(point.attributes.is_empty());
}

#[test]
fn a_family_has_a_point_for_each_of_its_labels() {
    let family = Family::<Labels, Counter>::default();
    let empty = taken(|registry| registry.register("stalled", "Streams", family.clone()));
    assert!(empty.is_empty(), "nothing to tell yet");
    family.get_or_create(&[("kind", "session")]).inc_by(2);
    family.get_or_create(&[("kind", "a \"kind\"\n")]).inc();
    let (_, sum) = sum(taken(|registry| {
        let part = registry.sub_registry_with_prefix("gateway");
        let part = part.sub_registry_with_label(("zone".into(), "a".into()));
        part.register("stalled", "Streams", family);
    }));
    let mut points: Vec<_> = sum
        .data_points
        .iter()
        .map(|point| (texts(&point.attributes), point.value))
        .collect();
    points.sort_by_key(|(labels, _)| labels.clone());
    assert_eq!(
        points,
        [
            (
                vec![("zone", "a"), ("kind", "a \"kind\"\n")],
                Some(AsDouble(1.0))
            ),
            (
                vec![("zone", "a"), ("kind", "session")],
                Some(AsDouble(2.0))
            ),
        ]
    );
}

#[test]
fn a_gauge_is_what_it_is_now() {
    let (metric, gauge) = gauge(taken(|registry| {
        let gauge = GaugeMetric::<i64>::default();
        registry.register_with_unit("memory", "What is taken", Unit::Bytes, gauge.clone());
        gauge.set(-3);
    }));
    assert_eq!(metric.name, "baton_memory_bytes", "as on the page");
    assert_eq!(metric.unit, "By");
    let [point] = gauge.data_points.try_into().expect("one point");
    assert_eq!(point.value, Some(AsDouble(-3.0)));
    assert_eq!(point.start_time_unix_nano, 0, "it counts nothing");
    assert_eq!(point.time_unix_nano, NOW_NANOS);
}

#[test]
fn an_info_is_a_gauge_of_one() {
    let info = Info::new([("version", "0.1.0")]);
    let (metric, gauge) = gauge(taken(|registry| {
        registry.register("build", "What runs", info)
    }));
    assert_eq!(metric.name, "baton_build_info");
    let [point] = gauge.data_points.try_into().expect("one point");
    assert_eq!(point.value, Some(AsDouble(1.0)));
    assert_eq!(texts(&point.attributes), [("version", "0.1.0")]);
}

#[test]
fn each_bucket_of_a_histogram_counts_its_own() {
    let (metric, point) = histogram(taken(|registry| {
        let histogram = HistogramMetric::new([0.1, 1.0, 10.0]);
        registry.register_with_unit("turn", "Turns", Unit::Seconds, histogram.clone());
        for value in [0.05, 0.1, 0.5, 20.0, 30.0, 40.0] {
            histogram.observe(value);
        }
    }));
    assert_eq!(metric.name, "baton_turn_seconds");
    assert_eq!(metric.unit, "s");
    assert_eq!(point.explicit_bounds, [0.1, 1.0, 10.0]);
    assert_eq!(
        point.bucket_counts,
        [2, 1, 0, 3],
        "the last is what is above"
    );
    assert_eq!(point.count, 6);
    assert_eq!(point.sum, Some(0.05 + 0.1 + 0.5 + 20.0 + 30.0 + 40.0));
    assert_eq!(point.start_time_unix_nano, START_NANOS);
    assert_eq!(point.time_unix_nano, NOW_NANOS);
    assert!(point.exemplars.is_empty());
}

#[test]
fn exemplars_name_their_spans() {
    let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "00f067aa0ba902b7");
    let then = UNIX_EPOCH + Duration::from_millis(1_050_500);
    let (_, point) = histogram(taken(|registry| {
        let histogram = HistogramWithExemplars::<Place>::new([1.0].into_iter());
        registry.register("turn", "Turns", histogram.clone());
        let labels = [
            ("trace_id", trace),
            ("span_id", span),
            ("agent", "scripted"),
        ];
        histogram.observe(0.5, Some(place(&labels)), Some(then));
        histogram.observe(5.0, Some(place(&[("trace_id", "not hex")])), None);
    }));
    let [first, second] = point.exemplars.try_into().expect("one of each bucket");
    assert_eq!(first.value, Some(exemplar::Value::AsDouble(0.5)));
    assert_eq!(first.time_unix_nano, 1_050_500_000_000);
    assert_eq!(
        first.trace_id,
        0x0af7651916cd43dd8448eb211c80319c_u128.to_be_bytes()
    );
    assert_eq!(first.span_id, 0x00f067aa0ba902b7_u64.to_be_bytes());
    assert_eq!(texts(&first.filtered_attributes), [("agent", "scripted")]);
    assert_eq!(second.time_unix_nano, NOW_NANOS);
    assert!(second.trace_id.is_empty() && second.span_id.is_empty());
    assert_eq!(
        texts(&second.filtered_attributes),
        [("trace_id", "not hex")]
    );

    let (_, sum) = sum(taken(|registry| {
        let counter = CounterWithExemplar::<Place, u64, AtomicU64>::default();
        registry.register("turns", "Turns", counter.clone());
        counter.inc_by(1, Some(place(&[("trace_id", trace)])), Some(then));
    }));
    let exemplar = &sum.data_points[0].exemplars[0];
    assert_eq!(exemplar.trace_id, first.trace_id);
    assert_eq!(exemplar.time_unix_nano, first.time_unix_nano);
}
