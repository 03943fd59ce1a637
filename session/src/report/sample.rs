//! Some of a process's metrics at one moment, under names that are short.

use std::collections::BTreeMap;

/// Counted since the start, over all labels.
const COUNTERS: [(&str, &str); 15] = [
    ("baton_gateway_messages_total", "messages"),
    ("baton_gateway_events_total", "delivered"),
    ("baton_gateway_refused_total", "refused"),
    ("baton_gateway_failed_total", "failed"),
    ("baton_gateway_limited_total", "limited"),
    ("baton_gateway_resumes_total", "resumes"),
    ("baton_gateway_resets_total", "resets"),
    ("baton_gateway_stalled_total", "stalled"),
    ("baton_gateway_request_seconds_count", "requests"),
    ("baton_worker_turns_total", "turns"),
    ("baton_worker_events_total", "written"),
    ("baton_worker_takeovers_total", "takeovers"),
    ("baton_worker_fenced_total", "fenced"),
    ("baton_worker_agent_failures_total", "agent_failures"),
    ("baton_redis_errors_total", "store_errors"),
];

/// As it stands, over all labels.
const GAUGES: [(&str, &str); 10] = [
    ("baton_gateway_connections", "connections"),
    ("baton_gateway_streams", "streams"),
    ("baton_gateway_queue", "queued"),
    ("baton_worker_slots", "slots"),
    ("baton_worker_sessions", "sessions"),
    ("baton_worker_turns_running", "turns_running"),
    ("baton_worker_lease_age_seconds", "lease_age"),
    ("baton_worker_agent_processes", "agent_processes"),
    ("baton_worker_agent_memory_bytes", "agent_memory"),
    ("process_resident_memory_bytes", "memory"),
];

/// How long something took, over all labels.
const LATENCIES: [(&str, &str); 5] = [
    ("baton_gateway_request_seconds_bucket", "request"),
    ("baton_gateway_delivery_seconds_bucket", "delivery"),
    ("baton_worker_wait_seconds_bucket", "wait"),
    ("baton_worker_turn_duration_seconds_bucket", "turn"),
    ("baton_worker_append_seconds_bucket", "append"),
];

#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricSample {
    pub counters: BTreeMap<&'static str, f64>,
    pub gauges: BTreeMap<&'static str, f64>,
    /// Name → upper bound in microseconds → how many stayed below it.
    buckets: BTreeMap<&'static str, BTreeMap<u64, f64>>,
}

impl MetricSample {
    /// Of a page of metrics, as `/metrics` has it.
    pub fn read(page: &str) -> Self {
        let mut sample = Self::default();
        let lines = page.lines().filter(|line| !line.starts_with('#'));
        for (name, labels, value) in lines.filter_map(split) {
            if let Some(short) = find(&COUNTERS, name) {
                *sample.counters.entry(short).or_default() += value;
            } else if let Some(short) = find(&GAUGES, name) {
                *sample.gauges.entry(short).or_default() += value;
            } else if let Some(short) = find(&LATENCIES, name)
                && let Some(bound) = upper_bound(labels)
            {
                let buckets = sample.buckets.entry(short).or_default();
                *buckets.entry(bound).or_default() += value;
            }
        }
        sample
    }

    pub fn counters_since(&self, base: &Self) -> BTreeMap<&'static str, f64> {
        let before = |name| base.counters.get(name).copied().unwrap_or_default();
        let all = self.counters.iter();
        let since = all.map(|(name, value)| (*name, (value - before(name)).max(0.0)));
        since.filter(|(_, value)| *value > 0.0).collect()
    }

    /// By the bounds of the buckets: half, and 99 of 100, took no longer.
    pub fn latencies_since(&self, base: &Self) -> BTreeMap<&'static str, [f64; 2]> {
        let none = BTreeMap::new();
        let all = self.buckets.iter().filter_map(|(name, buckets)| {
            let before = base.buckets.get(name).unwrap_or(&none);
            let since: Vec<(u64, f64)> = buckets
                .iter()
                .map(|(bound, count)| (*bound, count - before.get(bound).unwrap_or(&0.0)))
                .collect();
            let total = since.last().map_or(0.0, |(_, count)| *count);
            let below = |share: f64| {
                let found = since.iter().find(|(_, count)| *count >= total * share);
                // Beyond the last bound it is at least that.
                let finite = since.iter().rev().find(|(bound, _)| *bound < u64::MAX);
                let bound = found.filter(|(bound, _)| *bound < u64::MAX).or(finite);
                bound.map_or(0.0, |(bound, _)| *bound as f64 / 1e6)
            };
            (total > 0.0).then(|| (*name, [below(0.5), below(0.99)]))
        });
        all.collect()
    }
}

fn find(table: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    let found = table.iter().find(|(known, _)| *known == name);
    found.map(|(_, short)| *short)
}

/// Name, labels and value. An exemplar may follow.
fn split(line: &str) -> Option<(&str, &str, f64)> {
    let (name, rest) = line.split_at(line.find(['{', ' '])?);
    let (labels, value) = match rest.strip_prefix('{') {
        Some(rest) => rest.split_once("} ")?,
        None => ("", rest.trim_start()),
    };
    let value = value.split(' ').next()?.parse().ok()?;
    Some((name, labels, value))
}

fn upper_bound(labels: &str) -> Option<u64> {
    let (_, bound) = labels.split_once("le=\"")?;
    match bound.split('"').next()? {
        "+Inf" => Some(u64::MAX),
        bound => Some((bound.parse::<f64>().ok()? * 1e6).round() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# HELP baton_gateway_messages Messages.\n\
        baton_gateway_messages_total{method=\"session/prompt\"} 3\n\
        baton_gateway_messages_total{method=\"other\"} 2\n\
        baton_gateway_streams 7\n\
        baton_gateway_unknown_total 9\n\
        baton_gateway_delivery_seconds_bucket{le=\"0.001\"} 50\n\
        baton_gateway_delivery_seconds_bucket{le=\"0.01\"} 99 # {trace_id=\"a\"} 0.002 1\n\
        baton_gateway_delivery_seconds_bucket{le=\"+Inf\"} 100\n\
        # EOF\n";

    #[test]
    fn figures_are_taken_from_a_page_of_metrics() {
        let sample = MetricSample::read(PAGE);
        assert_eq!(sample.counters, BTreeMap::from([("messages", 5.0)]));
        assert_eq!(sample.gauges, BTreeMap::from([("streams", 7.0)]));
        let none = MetricSample::default();
        assert_eq!(sample.counters_since(&none)["messages"], 5.0);
        assert!(sample.counters_since(&sample).is_empty());
        assert_eq!(sample.latencies_since(&none)["delivery"], [0.001, 0.01]);
        assert!(sample.latencies_since(&sample).is_empty());
        for junk in ["", "x", "x{", "x{le=\"", "x y", "{} 1", "x{} "] {
            assert_eq!(MetricSample::read(junk), none, "{junk}");
        }
    }
}
