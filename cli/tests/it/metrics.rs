//! What is counted and timed, and that it is what happened.

use baton_session::id::{ConnectionId, Partition};
use serde_json::json;
use tempfile::TempDir;

use crate::support::cluster::{address, ready, url};
use crate::support::http::{JSON, prompt};
use crate::support::metrics::{page, value};
use crate::support::process::{Process, baton, free_port};
use crate::support::{Client, Cluster, Collector, Redis, until};

/// A cluster whose two workers tell about themselves, and where.
async fn watched() -> (Cluster, [String; 2]) {
    let mut cluster = Cluster::start().await;
    let ports = [free_port(), free_port()];
    for (number, port) in ports.into_iter().enumerate() {
        cluster.workers[number].kill();
        cluster.workers[number] = cluster.worker_with(number, |command| {
            command.env("BATON_PROBE_LISTEN", address(port));
        });
        ready(port).await;
    }
    (cluster, ports.map(url))
}

/// The sum over the pages of these.
async fn total(urls: &[String], metric: &str) -> f64 {
    let mut total = 0.0;
    for url in urls {
        total += value(&page(url).await, metric);
    }
    total
}

#[tokio::test]
async fn a_turn_leaves_its_marks_wherever_it_passes() {
    let (cluster, workers) = watched().await;
    let client = Client::initialize(&cluster.gateway_url(0)).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    client.post(prompt(json!(1), &session, "/count 3")).await;
    stream.turn(&json!(1)).await;
    // No turn comes of this one.
    let mut odd = prompt(json!(2), &session, "hello");
    odd["params"]["prompt"] = json!([{ "type": "smell" }]);
    assert_eq!(client.send(&[JSON], odd.to_string()).await.status(), 202);
    stream.response(&json!(2)).await;
    for (metric, expected) in [
        ("baton_worker_turns_total{outcome=\"end_turn\"}", 1.0),
        ("baton_worker_turns_total{outcome=\"invalid\"}", 1.0),
        ("baton_worker_turn_duration_seconds_count", 1.0),
        ("baton_worker_takeovers_total", 0.0),
        ("baton_worker_fenced_total", 0.0),
        ("baton_worker_slots", 2048.0),
    ] {
        assert_eq!(total(&workers, metric).await, expected, "{metric}");
    }
    for metric in [
        "baton_worker_events_total",
        "baton_worker_append_seconds_count",
        "baton_worker_wait_seconds_count",
        "baton_worker_agent_opens_total",
        "baton_worker_lease_age_seconds",
        "baton_store_step_seconds_count",
        concat!(
            "baton_build_info{version=\"",
            env!("CARGO_PKG_VERSION"),
            "\"}"
        ),
    ] {
        assert!(total(&workers, metric).await > 0.0, "{metric}");
    }
    let gateway = page(&cluster.gateway_url(0)).await;
    for metric in [
        "baton_gateway_request_seconds_count{method=\"POST\",status=\"2xx\"}",
        "baton_gateway_request_seconds_count{method=\"GET\",status=\"2xx\"}",
        "baton_gateway_delivery_seconds_count",
        "baton_store_step_seconds_count",
        concat!(
            "baton_build_info{version=\"",
            env!("CARGO_PKG_VERSION"),
            "\"}"
        ),
    ] {
        assert!(value(&gateway, metric) > 0.0, "{metric} in {gateway}");
    }
    assert!(gateway.ends_with("# EOF\n"));
    until("nothing is held", async || {
        let held = total(&workers, "baton_worker_sessions").await;
        let turns = total(&workers, "baton_worker_turns_running").await;
        (held + turns == 0.0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_worker_that_slept_is_fenced_and_another_takes_over() {
    let (cluster, workers) = watched().await;
    let client = Client::initialize(&cluster.url()).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    let text = "/count 400 delay=20";
    client.post(prompt(json!(1), &session, text)).await;
    while stream.next().await.expect("it goes on").chunk().is_none() {}
    let running = async |number: usize| {
        let page = page(&workers[number]).await;
        value(&page, "baton_worker_turns_running") == 1.0
    };
    let sleeper = if running(0).await { 0 } else { 1 };
    assert!(running(sleeper).await);
    cluster.workers[sleeper].signal("STOP");
    let other = &workers[1 - sleeper];
    until("the other has taken over", async || {
        let taken = value(&page(other).await, "baton_worker_takeovers_total");
        (taken == 1.0).then_some(())
    })
    .await;
    cluster.workers[sleeper].signal("CONT");
    until("the sleeper knows", async || {
        let page = page(&workers[sleeper]).await;
        (value(&page, "baton_worker_fenced_total") == 1.0).then_some(())
    })
    .await;
    stream.turn(&json!(1)).await;
    let ended = "baton_worker_turns_total{outcome=\"end_turn\"}";
    assert_eq!(total(&workers, ended).await, 1.0);
}

#[tokio::test]
async fn what_waits_for_a_worker_is_counted_by_agent() {
    let mut cluster = Cluster::start().await;
    let client = Client::initialize(&cluster.url()).await;
    let sessions = [client.new_session().await, client.new_session().await];
    for worker in &mut cluster.workers {
        worker.signal("TERM");
        assert!(worker.exit_status().await.success());
    }
    for (id, session) in sessions.iter().enumerate() {
        client.post(prompt(json!(id), session, "hello")).await;
    }
    let queue = async |expected: f64| {
        let page = page(&cluster.gateway_url(1)).await;
        let queue = value(&page, "baton_gateway_queue{agent=\"scripted\"}");
        (queue == expected).then_some(())
    };
    until("two wait", async || queue(2.0).await).await;
    let _worker = cluster.worker(0);
    until("none waits", async || queue(0.0).await).await;
    until("the worker is known", async || {
        let page = page(&cluster.gateway_url(1)).await;
        let workers = value(&page, "baton_gateway_workers{agent=\"scripted\"}");
        (workers == 1.0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn refusals_and_returns_are_counted_by_what_they_are() {
    let cluster = Cluster::start().await;
    let gateway = cluster.gateway_url(0);
    let mut client = Client::initialize(&gateway).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    client.post(prompt(json!(1), &session, "hello")).await;
    stream.turn(&json!(1)).await;
    let cursor = stream.last_id.clone();
    drop(stream);
    drop(client.session_stream(&session, Some(&cursor)).await);
    let good = client.token.clone();
    let broken = format!("{}x", &good[..good.len() - 1]);
    let other = ConnectionId::mint(Partition(0)).to_string();
    for token in [&other, &broken, &broken] {
        client.token = token.clone();
        let message = prompt(json!(2), &session, "hello").to_string();
        assert_eq!(client.send(&[JSON], message).await.status(), 404);
    }
    let page = page(&gateway).await;
    for (metric, expected) in [
        ("baton_gateway_resumes_total{kind=\"session\"}", 1.0),
        (
            "baton_gateway_tokens_refused_total{reason=\"malformed\"}",
            1.0,
        ),
        (
            "baton_gateway_tokens_refused_total{reason=\"signature\"}",
            2.0,
        ),
        ("baton_gateway_refused_total", 3.0),
    ] {
        assert_eq!(value(&page, metric), expected, "{metric} in {page}");
    }
}

#[tokio::test]
async fn a_redis_that_is_away_shows_and_a_worker_says_what_it_waits_for() {
    let (mut cluster, workers) = watched().await;
    cluster.redis.process.kill();
    let gateway = cluster.gateway_url(0);
    until("errors are counted", async || {
        let errors = "baton_store_errors_total{reason=\"connection\"}";
        let everywhere = [&workers[0], &workers[1], &gateway];
        for url in everywhere {
            if value(&page(url).await, errors) == 0.0 {
                return None;
            }
        }
        Some(())
    })
    .await;
    let probe = workers[0].replace("/acp", "/readyz");
    let says = async || {
        let response = reqwest::get(&probe).await.expect("an answer");
        (
            response.status().as_u16(),
            response.text().await.expect("a text"),
        )
    };
    let (status, text) = says().await;
    assert_eq!(status, 503);
    assert!(text.starts_with("waiting for the store: "), "{text}");
    let alive = reqwest::get(probe.replace("readyz", "healthz")).await;
    assert!(alive.expect("an answer").status().is_success());
    cluster.redis.restart().await;
    until("it is ready again", async || {
        (says().await.0 == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_worker_that_starts_says_what_it_waits_for() {
    let dir = TempDir::new().expect("a temporary directory");
    let redis = Redis::start().await;
    let port = free_port();
    // An agent that says nothing.
    let mut command = baton();
    command.args([
        "worker",
        "--store",
        &redis.store(),
        "--agent",
        "stdio:sleep 600",
    ]);
    command.args(["--probe-listen", &address(port)]);
    let mut worker = Process::start(dir.path(), "worker", &mut command);
    let probe = format!("http://{}/readyz", address(port));
    let text = until("it answers", async || {
        reqwest::get(&probe).await.ok()?.text().await.ok()
    })
    .await;
    assert_eq!(text, "waiting for the agent to start\n");
    worker.signal("TERM");
    assert!(worker.exit_status().await.success());
}

#[tokio::test]
async fn a_traced_request_is_the_example_in_its_bucket() {
    let collector = Collector::start().await;
    let dir = TempDir::new().expect("a temporary directory");
    let port = free_port();
    let mut command = baton();
    command.args(["serve", "--ephemeral", "--listen", &address(port)]);
    command.args(["--otlp-endpoint", &collector.endpoint]);
    let _process = Process::start(dir.path(), "serve", &mut command);
    ready(port).await;
    let client = Client::initialize(&url(port)).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let parent = format!("00-{trace}-b7ad6b7169203331-01");
    let message = prompt(json!(1), &session, "hello").to_string();
    let headers = [JSON, ("traceparent", &*parent)];
    assert_eq!(client.send(&headers, message).await.status(), 202);
    stream.turn(&json!(1)).await;
    for metric in [
        "baton_gateway_request_seconds_bucket",
        "baton_gateway_delivery_seconds_bucket",
        "baton_worker_wait_seconds_bucket",
        "baton_worker_turn_duration_seconds_bucket",
        "baton_worker_append_seconds_bucket",
    ] {
        let example = format!("# {{trace_id=\"{trace}\",span_id=\"");
        until(metric, async || {
            let page = page(&url(port)).await;
            let mut lines = page.lines().filter(|line| line.starts_with(metric));
            lines.any(|line| line.contains(&example)).then_some(())
        })
        .await;
    }
}
