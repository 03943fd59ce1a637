//! Metrics by OTLP: the collector gets what the page of metrics shows.

use serde_json::json;
use tempfile::TempDir;

use crate::support::cluster::{address, ready, url};
use crate::support::collector::metrics::{Reading, Series, page};
use crate::support::http::prompt;
use crate::support::process::{Process, baton, free_port};
use crate::support::{Client, Collector, until};

/// What the collector wants to see, and nobody else may.
const KEY: &str = "a-key-for-the-collector-that-nobody-may-read";

/// What a prompt changes.
const COUNTED: [&str; 3] = [
    "baton_gateway_messages_total{}",
    "baton_gateway_events_total{}",
    "baton_gateway_streams{}",
];

/// One process that serves everything.
struct Scene {
    collector: Collector,
    process: Process,
    port: u16,
    _dir: TempDir,
}

impl Scene {
    /// `COLLECTOR` in a variable stands for its address.
    async fn start(variables: &[(&str, &str)]) -> Self {
        let collector = Collector::start().await;
        let dir = TempDir::new().expect("a temporary directory");
        let port = free_port();
        let mut command = baton();
        command.args(["serve", "--ephemeral", "--listen", &address(port)]);
        for (name, value) in variables {
            command.env(name, value.replace("COLLECTOR", &collector.endpoint));
        }
        let process = Process::start(dir.path(), "serve", &mut command);
        ready(port).await;
        Self {
            collector,
            process,
            port,
            _dir: dir,
        }
    }

    async fn prompt(&self) {
        let client = Client::initialize(&url(self.port)).await;
        let session = client.new_session().await;
        let mut stream = client.one_shot(prompt(json!(1), &session, "hello")).await;
        stream.turn(&json!(1)).await;
    }

    async fn page(&self) -> Series {
        let shown = reqwest::get(url(self.port).replace("/acp", "/metrics")).await;
        let mut series = page(&shown.expect("a page").text().await.expect("text"));
        // To read the page takes one.
        series.remove("baton_gateway_connections{}");
        series
    }

    /// Metrics that came, and what of the page stood still from before they were read until after that.
    async fn compare(&self) -> (Reading, Series) {
        let mut shown = self.page().await;
        let reading = self.collector.next_reading().await;
        let after = self.page().await;
        shown.retain(|name, value| after.get(name) == Some(value));
        (reading, shown)
    }

    async fn stop(&mut self) {
        self.process.signal("TERM");
        assert!(self.process.exit_status().await.success());
    }
}

async fn the_collector_gets_what_the_page_shows(protocol: &str) {
    let headers = format!("x-key={KEY},x-other=a%20b");
    let mut scene = Scene::start(&[
        ("BATON_OTLP_ENDPOINT", "COLLECTOR"),
        ("BATON_LOG", "trace"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
        ("OTEL_EXPORTER_OTLP_HEADERS", &headers),
        ("OTEL_METRIC_EXPORT_INTERVAL", "200"),
        ("OTEL_RESOURCE_ATTRIBUTES", "zone=a"),
    ])
    .await;
    scene.prompt().await;
    let (reading, shown) = until("what counts stands still", async || {
        let (reading, shown) = scene.compare().await;
        COUNTED
            .iter()
            .all(|name| shown.contains_key(*name))
            .then_some((reading, shown))
    })
    .await;
    let mut sent = reading.series;
    sent.retain(|name, _| shown.contains_key(name));
    assert_eq!(sent, shown);
    assert!(shown[COUNTED[0]] > 0.0, "{shown:?}");

    assert_eq!(reading.headers["x-key"], KEY);
    assert_eq!(reading.headers["x-other"], "a b");
    scene.stop().await;
    assert!(!scene.process.output().contains(KEY));
    let spans = scene.collector.spans();
    let span = spans.first().expect("there were traces, too");
    assert_eq!(reading.resource, span.resource, "the same process");
    assert_eq!(reading.resource["service.name"], "baton");
    assert_eq!(reading.resource["zone"], "a");
    assert!(reading.resource.contains_key("service.instance.id"));
}

#[tokio::test]
async fn the_collector_gets_what_the_page_shows_over_http() {
    the_collector_gets_what_the_page_shows("http/protobuf").await;
}

#[tokio::test]
async fn the_collector_gets_what_the_page_shows_over_grpc() {
    the_collector_gets_what_the_page_shows("grpc").await;
}

#[tokio::test]
async fn a_process_that_stops_sends_its_last_metrics() {
    let mut scene = Scene::start(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "COLLECTOR"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "3600000"),
    ])
    .await;
    scene.prompt().await;
    let shown = scene.page().await;
    assert!(scene.collector.readings().is_empty(), "due in an hour");
    scene.stop().await;
    let [last] = scene.collector.readings().try_into().ok().expect("one");
    assert_eq!(last.series[COUNTED[0]], shown[COUNTED[0]]);
}

/// Whether there were traces and metrics. What is left is sent before a process leaves, so nothing is late.
async fn what_comes(variables: &[(&str, &str)]) -> (bool, bool) {
    let mut scene = Scene::start(variables).await;
    scene.prompt().await;
    scene.stop().await;
    let (spans, readings) = (scene.collector.spans(), scene.collector.readings());
    (!spans.is_empty(), !readings.is_empty())
}

#[tokio::test]
async fn traces_and_metrics_can_be_switched_off_each() {
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "COLLECTOR");
    let both = what_comes(&[endpoint]).await;
    assert_eq!(both, (true, true));
    let traces = what_comes(&[endpoint, ("OTEL_METRICS_EXPORTER", "none")]).await;
    assert_eq!(traces, (true, false));
    let metrics = what_comes(&[endpoint, ("OTEL_TRACES_EXPORTER", "none")]).await;
    assert_eq!(metrics, (false, true));
    let nothing = what_comes(&[endpoint, ("OTEL_SDK_DISABLED", "true")]).await;
    assert_eq!(nothing, (false, false));
    // An address of its own is the whole one.
    let own = (
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
        "COLLECTOR/v1/metrics",
    );
    assert_eq!(what_comes(&[own]).await, (false, true));
}

#[test]
fn faults_of_the_variables_are_told_at_once() {
    let output = baton()
        .args(["serve", "--ephemeral", "--otlp-endpoint", "collector"])
        .env("OTEL_EXPORTER_OTLP_HEADERS", KEY)
        .env("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/json")
        .env("OTEL_METRIC_EXPORT_INTERVAL", "0")
        .output()
        .expect("baton runs");
    assert_eq!(output.status.code(), Some(64));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    for fault in [
        "--otlp-endpoint: must be a URL",
        "OTEL_EXPORTER_OTLP_HEADERS: must be headers",
        "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL \"http/json\": must be",
        "OTEL_METRIC_EXPORT_INTERVAL \"0\": must be",
    ] {
        assert_eq!(text.matches(fault).count(), 1, "{fault}: {text}");
    }
    assert!(!text.contains(KEY), "{text}");
}
