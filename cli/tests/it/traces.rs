//! Traces: one from the client to the delivered answer, and nothing that a collector could spoil, for metrics
//! as well.

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::support::cluster::{address, ready, url, write_keys};
use crate::support::http::{JSON, prompt};
use crate::support::process::{Process, baton, free_port};
use crate::support::websocket::Socket;
use crate::support::{Client, Collector, Redis, until};

const SPAN: &str = "00f067aa0ba902b7";

/// The `traceparent` of a client's span in a trace that is named by a digit.
pub fn parent(digit: char, sampled: bool) -> (String, String) {
    let trace = digit.to_string().repeat(32);
    let flags = if sampled { "01" } else { "00" };
    (format!("00-{trace}-{SPAN}-{flags}"), trace)
}

/// Two gateways and a worker on a Redis, each by its name.
struct Scene {
    collector: Collector,
    _redis: Redis,
    processes: Vec<Process>,
    ports: [u16; 2],
    _dir: TempDir,
}

impl Scene {
    async fn start(variables: &[(&str, &str)], arguments: &[&str]) -> Self {
        let (collector, redis) = (Collector::start().await, Redis::start().await);
        let dir = TempDir::new().expect("a temporary directory");
        let keys = dir.path().join("keys.json");
        write_keys(&keys);
        let ports = [free_port(), free_port()];
        let mut processes = Vec::new();
        for (name, port) in [
            ("gateway-0", Some(ports[0])),
            ("gateway-1", Some(ports[1])),
            ("worker", None),
        ] {
            let mut command = baton();
            match port {
                Some(port) => {
                    command.args(["gateway", "--listen", &address(port), "--keys"]);
                    command.arg(&keys);
                }
                None => {
                    command.arg("worker");
                }
            }
            command.args(["--store", &redis.store()]).args(arguments);
            command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint);
            command.env("OTEL_SERVICE_NAME", name);
            command.env("OTEL_BSP_SCHEDULE_DELAY", "50");
            command.envs(variables.iter().copied());
            processes.push(Process::start(dir.path(), name, &mut command));
        }
        for port in ports {
            ready(port).await;
        }
        until("an agent is registered", async || {
            Client::try_initialize(&url(ports[0])).await
        })
        .await;
        Self {
            collector,
            _redis: redis,
            processes,
            ports,
            _dir: dir,
        }
    }

    async fn client(&self, gateway: usize) -> Client {
        Client::initialize(&url(self.ports[gateway])).await
    }
}

/// Sends a prompt with this `traceparent` in a header, past the schema's eyes.
async fn prompt_with(client: &Client, id: u64, session: &str, header: Option<&str>, meta: Value) {
    let mut message = prompt(json!(id), session, "hello");
    if !meta.is_null() {
        message["params"]["_meta"] = meta;
    }
    let mut headers = vec![JSON];
    headers.extend(header.map(|value| ("traceparent", value)));
    headers.extend(header.map(|_| ("tracestate", "vendor=a")));
    let response = client.send(&headers, message.to_string()).await;
    assert_eq!(response.status(), 202);
}

/// From a client that sends to one gateway and reads at the other.
async fn one_trace_leads_to_the_delivered_answer(protocol: &str, arguments: &[&str]) -> Scene {
    let variables = [("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)];
    let scene = Scene::start(&variables, arguments).await;
    let client = scene.client(0).await;
    let session = client.new_session().await;
    let elsewhere = client.at(&url(scene.ports[1]));
    let mut stream = elsewhere.session_stream(&session, None).await;
    // Given up by its worker, so that the prompt needs a claim.
    for method in ["session/close", "session/resume"] {
        let params = json!({ "sessionId": session, "cwd": "/tmp", "mcpServers": [] });
        let request = json!({ "jsonrpc": "2.0", "id": method, "method": method, "params": params });
        client.post(request).await;
        stream.response(&json!(method)).await;
    }
    let (header, trace) = parent('a', true);
    prompt_with(&client, 1, &session, Some(&header), Value::Null).await;
    stream.turn(&json!(1)).await;

    let collector = &scene.collector;
    let request = collector.span(&trace, "POST /acp").await;
    assert_eq!((&*request.service, &*request.parent), ("gateway-0", SPAN));
    assert_eq!(request.state, "vendor=a");
    assert_eq!(request.says("http.request.method"), Some("POST"));
    assert_eq!(request.says("http.route"), Some("/acp"));
    assert_eq!(request.says("http.response.status_code"), Some("202"));
    assert_eq!(request.says("rpc.method"), Some("session/prompt"));
    assert_eq!(request.says("session.id"), Some(&*session));
    assert_eq!(request.says("error.type"), None);
    let connection = request
        .says("connection.id")
        .expect("a connection")
        .to_owned();
    assert!(!client.token.contains(&connection), "the id, not the token");

    let claim = collector.span(&trace, "session.claim").await;
    let turn = collector.span(&trace, "session.turn").await;
    for span in [&claim, &turn] {
        assert_eq!((&*span.service, &span.parent), ("worker", &request.id));
        assert_eq!(span.says("session.id"), Some(&*session));
    }
    assert_eq!(turn.says("connection.id"), Some(&*connection));
    assert_eq!(turn.says("stop_reason"), Some("end_turn"));
    let agent = collector.span(&trace, "agent.prompt").await;
    assert_eq!((&*agent.service, &agent.parent), ("worker", &turn.id));
    let append = collector.span(&trace, "store.append").await;
    assert_eq!((&*append.service, &append.parent), ("worker", &turn.id));
    let delivery = collector.span(&trace, "deliver").await;
    assert_eq!(
        (&*delivery.service, &delivery.parent),
        ("gateway-1", &turn.id)
    );
    assert_eq!(delivery.says("session.id"), Some(&*session));
    assert_eq!(delivery.says("connection.id"), Some(&*connection));
    assert_eq!(delivery.says("stream"), Some("session"));
    assert_eq!(delivery.state, "vendor=a");
    scene
}

#[tokio::test]
async fn one_trace_leads_from_the_client_to_the_delivered_answer_over_http() {
    let scene = one_trace_leads_to_the_delivered_answer("http/protobuf", &[]).await;
    let steps = |name: &str| name.starts_with("store.") && name != "store.append";
    let spans = scene.collector.spans();
    assert!(!spans.iter().any(|span| steps(&span.name)), "nobody asked");
}

#[tokio::test]
async fn one_trace_leads_from_the_client_to_the_delivered_answer_over_grpc() {
    let variables = [("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")];
    one_trace_leads_to_the_delivered_answer("grpc", &[]).await;
    // With every step on Redis, if somebody wants to see it.
    let scene = Scene::start(&variables, &["--trace-store"]).await;
    let client = scene.client(0).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    let (header, trace) = parent('b', true);
    prompt_with(&client, 1, &session, Some(&header), Value::Null).await;
    stream.turn(&json!(1)).await;
    let request = scene.collector.span(&trace, "POST /acp").await;
    let step = scene.collector.span(&trace, "store.enqueue").await;
    assert_eq!(step.parent, request.id);
    assert_eq!(step.says("db.operation.name"), Some("enqueue"));
    let traces: Vec<_> = scene.collector.spans();
    let outside = traces.iter().filter(|span| span.parent.is_empty());
    let outside: Vec<_> = outside.map(|span| &*span.name).collect();
    assert!(
        outside.iter().all(|name| name.ends_with("/acp")),
        "what nobody asked for begins no trace: {outside:?}"
    );
}

#[tokio::test]
async fn a_message_names_its_parent_and_the_nearer_one_counts() {
    let scene = Scene::start(&[], &[]).await;
    let client = scene.client(0).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    let (inner, trace) = parent('c', true);
    let meta = json!({ "traceparent": inner, "tracestate": "vendor=b" });
    prompt_with(&client, 1, &session, None, meta.clone()).await;
    stream.turn(&json!(1)).await;
    let request = scene.collector.span(&trace, "POST /acp").await;
    assert_eq!((&*request.parent, &*request.state), (SPAN, "vendor=b"));
    assert_eq!(request.links, 0);
    scene.collector.span(&trace, "deliver").await;
    // Both: the header's, and a link to the message's.
    let (outer, outer_trace) = parent('d', true);
    prompt_with(&client, 2, &session, Some(&outer), meta).await;
    stream.turn(&json!(2)).await;
    let request = scene.collector.span(&outer_trace, "POST /acp").await;
    assert_eq!((&*request.parent, request.links), (SPAN, 1));
    // What cannot be understood is as good as nothing.
    for (id, nonsense) in (3..).zip(["", "00-0-0-01", "x\ny"]) {
        let meta = json!({ "traceparent": nonsense, "tracestate": "a\nb" });
        prompt_with(&client, id, &session, None, meta).await;
        stream.turn(&json!(id)).await;
    }
    let mut socket = Socket::open(&url(scene.ports[1]), false).await;
    socket
        .send(json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "protocolVersion": 1 } }))
        .await;
    socket.next().await;
    let (inner, trace) = parent('e', true);
    let mut message = prompt(json!(1), &session, "hello");
    message["params"]["_meta"] = json!({ "traceparent": inner });
    socket.send(message).await;
    while socket.next().await["id"] != 1 {}
    let message = scene.collector.span(&trace, "WEBSOCKET /acp").await;
    assert_eq!(message.service, "gateway-1");
    assert_eq!(message.says("rpc.method"), Some("session/prompt"));
    let delivery = scene.collector.span(&trace, "deliver").await;
    assert_eq!(delivery.says("stream"), Some("connection"));
}

#[tokio::test]
async fn what_is_not_sampled_leaves_nothing_behind() {
    let scene = Scene::start(&[], &["--trace-sample", "0"]).await;
    let client = scene.client(0).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    let (unsampled, _) = parent('b', false);
    let (sampled, trace) = parent('f', true);
    let headers = [None, Some(&*unsampled), Some(&*sampled)];
    for (id, header) in (1..).zip(headers) {
        prompt_with(&client, id, &session, header, Value::Null).await;
        stream.turn(&json!(id)).await;
    }
    // Spans are sent in the order of their ends, so what came before would be there.
    for name in ["POST /acp", "session.turn", "store.append", "deliver"] {
        scene.collector.span(&trace, name).await;
    }
    let spans = scene.collector.spans();
    assert!(spans.iter().all(|span| span.trace == trace), "{spans:?}");
}

#[tokio::test]
async fn a_message_of_a_recorded_trace_is_traced_though_its_request_is_not() {
    let scene = Scene::start(&[], &["--trace-sample", "0"]).await;
    let client = scene.client(0).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    let (inner, trace) = parent('c', true);
    let meta = json!({ "traceparent": inner });
    prompt_with(&client, 1, &session, None, meta.clone()).await;
    stream.turn(&json!(1)).await;
    let request = scene.collector.span(&trace, "POST /acp").await;
    assert_eq!((&*request.parent, request.links), (SPAN, 0));
    assert_eq!(request.says("rpc.method"), Some("session/prompt"));
    assert_eq!(request.says("session.id"), Some(&*session));
    assert_eq!(request.says("http.response.status_code"), Some("202"));
    let turn = scene.collector.span(&trace, "session.turn").await;
    assert_eq!(turn.parent, request.id);
    scene.collector.span(&trace, "deliver").await;
    // The header's is nearer, and says that it is not recorded.
    let (outer, _) = parent('d', false);
    prompt_with(&client, 2, &session, Some(&outer), meta).await;
    stream.turn(&json!(2)).await;
    let (last, last_trace) = parent('e', true);
    prompt_with(&client, 3, &session, Some(&last), Value::Null).await;
    stream.turn(&json!(3)).await;
    scene.collector.span(&last_trace, "deliver").await;
    let spans = scene.collector.spans();
    let requests = spans.iter().filter(|span| span.name == "POST /acp");
    let traces: Vec<_> = requests.map(|span| &span.trace).collect();
    assert_eq!(traces, [&trace, &last_trace]);
}

#[tokio::test]
async fn errors_are_told_by_their_codes_and_names_are_few() {
    let scene = Scene::start(&[], &[]).await;
    let client = scene.client(0).await;
    let stranger = json!({ "jsonrpc": "2.0", "id": 1, "method": "what/ever", "params": {} });
    let (header, trace) = parent('a', true);
    let headers = [JSON, ("traceparent", &*header)];
    client.send(&headers, stranger.to_string()).await;
    let request = scene.collector.span(&trace, "POST /acp").await;
    assert_eq!(request.says("rpc.method"), Some("_OTHER"));
    assert_eq!(request.says("error.type"), Some("-32601"));
    let (header, trace) = parent('b', true);
    let headers = [("content-type", "text/plain"), ("traceparent", &*header)];
    client.send(&headers, "{}").await;
    let request = scene.collector.span(&trace, "POST /acp").await;
    assert_eq!(request.says("http.response.status_code"), Some("415"));
    assert_eq!(request.says("error.type"), Some("-32600"));
    // Whatever agent a path names, there or not.
    let (header, trace) = parent('c', true);
    let headers = [JSON, ("traceparent", &*header)];
    let elsewhere = client.at(&format!("{}/nobody", client.url));
    elsewhere.send(&headers, stranger.to_string()).await;
    let request = scene.collector.span(&trace, "POST /acp/{agent}").await;
    assert_eq!(request.says("http.route"), Some("/acp/{agent}"));
}

#[tokio::test]
async fn what_is_queued_is_sent_before_the_process_leaves() {
    let variables = [
        ("OTEL_BSP_SCHEDULE_DELAY", "3600000"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "3600000"),
    ];
    let mut scene = Scene::start(&variables, &[]).await;
    let client = scene.client(0).await;
    let session = client.new_session().await;
    let (header, trace) = parent('a', true);
    let mut stream = client.session_stream(&session, None).await;
    prompt_with(&client, 1, &session, Some(&header), Value::Null).await;
    stream.turn(&json!(1)).await;
    drop(stream);
    assert!(
        scene.collector.spans().is_empty(),
        "it would be sent in an hour"
    );
    for process in &mut scene.processes {
        process.signal("TERM");
        assert!(process.exit_status().await.success());
    }
    for name in ["POST /acp", "session.turn"] {
        scene.collector.span(&trace, name).await;
    }
    let readings = scene.collector.readings();
    for name in ["gateway-0", "gateway-1", "worker"] {
        let sent = readings
            .iter()
            .filter(|it| it.resource["service.name"] == name);
        assert_eq!(sent.count(), 1, "the metrics of {name}");
    }
}

/// What a process makes of a collector at this address.
async fn prompts_are_answered(endpoint: &str, protocol: &str) {
    let dir = TempDir::new().expect("a temporary directory");
    let port = free_port();
    let mut command = baton();
    command.args(["serve", "--ephemeral", "--listen", &address(port)]);
    command.args(["--otlp-endpoint", endpoint]);
    command.env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol);
    command.env("OTEL_BSP_SCHEDULE_DELAY", "10");
    // More than fits: what has no room is dropped.
    command.env("OTEL_BSP_MAX_QUEUE_SIZE", "8");
    command.env("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2");
    command.env("OTEL_EXPORTER_OTLP_TIMEOUT", "300");
    command.env("OTEL_METRIC_EXPORT_INTERVAL", "10");
    let mut process = Process::start(dir.path(), "serve", &mut command);
    ready(port).await;
    let client = Client::initialize(&url(port)).await;
    let session = client.new_session().await;
    for id in 1..=20 {
        let mut stream = client.one_shot(prompt(json!(id), &session, "hello")).await;
        stream.turn(&json!(id)).await;
    }
    let told = [
        "the collector takes no traces",
        "the collector takes no metrics",
    ];
    until("both are told", async || {
        let log = process.output();
        told.iter().all(|it| log.contains(it)).then_some(())
    })
    .await;
    for id in 21..=40 {
        let mut stream = client.one_shot(prompt(json!(id), &session, "hello")).await;
        stream.turn(&json!(id)).await;
    }
    process.signal("TERM");
    assert!(process.exit_status().await.success());
    let log = process.output();
    for told in told {
        assert_eq!(log.matches(told).count(), 1, "{log}");
    }
    assert!(!log.contains("ExportError"), "{log}");
}

#[tokio::test]
async fn a_collector_that_is_down_hurts_nobody() {
    let nobody = address(free_port());
    prompts_are_answered(&format!("http://{nobody}"), "http/protobuf").await;
    prompts_are_answered(&format!("http://{nobody}"), "grpc").await;
    // As far as the certificates are looked for.
    prompts_are_answered(&format!("https://{nobody}"), "http/protobuf").await;
    prompts_are_answered(&format!("https://{nobody}"), "grpc").await;
}

#[tokio::test]
async fn a_collector_that_does_not_answer_hurts_nobody() {
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let endpoint = format!("http://{}", silent.local_addr().expect("bound"));
    prompts_are_answered(&endpoint, "http/protobuf").await;
    prompts_are_answered(&endpoint, "grpc").await;
}

#[tokio::test]
async fn a_collector_that_refuses_hurts_nobody() {
    // Something else that speaks HTTP, and has no such path.
    let redirected = Collector::start().await;
    let endpoint = format!("{}/elsewhere", redirected.endpoint);
    prompts_are_answered(&endpoint, "http/protobuf").await;
}

#[test]
fn all_faults_of_the_options_are_told_at_once() {
    let output = baton()
        .args([
            "serve",
            "--ephemeral",
            "--slots",
            "0",
            "--trace-sample",
            "2",
        ])
        .args(["--otlp-endpoint", "user:secret@collector:4317"])
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
        .env("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
        .output()
        .expect("baton runs");
    assert_eq!(output.status.code(), Some(64));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    for fault in [
        "--slots 0",
        "--trace-sample 2",
        "--otlp-endpoint: must be a URL of http or https",
        "\"http/json\": must be grpc or http/protobuf",
        "OTEL_EXPORTER_OTLP_COMPRESSION",
    ] {
        assert!(text.contains(fault), "{text}");
    }
    assert!(!text.contains("secret"), "{text}");
}
