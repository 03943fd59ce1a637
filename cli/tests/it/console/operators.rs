//! The operators' view: any gateway answers for the whole cluster, and only to administrators.

use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::Visit;
use crate::auth::{A, B};
use crate::stdio::{descendants, is_gone};
use crate::support::{Cluster, Served, until};

/// Two gateways and two workers; `key:alice` with A is an administrator, `key:bob` with B is not.
async fn cluster(dir: &TempDir) -> Cluster {
    let keys = dir.path().join("api-keys.json");
    crate::auth::write_keys(dir.path(), &[("alice", A), ("bob", B)]);
    let text = std::fs::read_to_string(&keys).expect("just written");
    let mut entries: Value = serde_json::from_str(&text).expect("JSON");
    entries["keys"][0]["admin"] = json!(true);
    std::fs::write(&keys, entries.to_string()).expect("writable");
    let keys = keys.to_str().expect("a path");
    Cluster::start_unused(&["--auth", "keys", "--auth-keys", keys, "--audit-log", "-"]).await
}

async fn ask(url: &str, key: Option<&str>, path: &str, body: Option<Value>) -> Response {
    let url = format!("{}{path}", url.trim_end_matches("/acp"));
    let method = if body.is_some() {
        Method::POST
    } else {
        Method::GET
    };
    let mut request = reqwest::Client::new().request(method, url);
    if let Some(key) = key {
        request = request.header("authorization", format!("Bearer {key}"));
    }
    if let Some(body) = body {
        request = request.header("content-type", "application/json");
        request = request.body(body.to_string());
    }
    request.send().await.expect("the gateway answers")
}

async fn shown(url: &str) -> Value {
    let answer = ask(url, Some(A), "/v1/operator/cluster", None).await;
    assert_eq!(answer.status(), StatusCode::OK);
    let text = answer.text().await.expect("a body");
    serde_json::from_str(&text).expect("JSON")
}

fn of_role<'a>(cluster: &'a Value, role: &str) -> Vec<&'a str> {
    let processes = cluster["processes"].as_array().expect("a list").iter();
    let found = processes.filter(|process| process["report"]["role"] == role);
    found
        .map(|process| process["process"].as_str().expect("a name"))
        .collect()
}

#[tokio::test]
async fn an_operator_sees_and_steers_the_cluster_in_a_browser() {
    let dir = TempDir::new().expect("a temporary directory");
    let mut cluster = cluster(&dir).await;
    let mut visit = Visit::start("operators.mjs", &cluster.url(), &format!("{A} {B}"));
    visit.asks("a worker has ended").await;
    let (first, second) = cluster.workers.split_at_mut(1);
    let status = tokio::select! {
        status = first[0].exit_status() => status,
        status = second[0].exit_status() => status,
    };
    assert!(status.success());
    visit.did("a worker has ended");
    visit.passes().await;
    let audited: String = cluster.gateways.iter().map(|one| one.output()).collect();
    for decision in ["process_drained", "session_closed", "revoked"] {
        let named = format!("\"decision\":\"{decision}\"");
        let lines = audited.lines().filter(|line| line.contains(&named));
        let own = lines.filter(|line| line.contains("\"principal\":\"key:alice\""));
        assert!(own.count() > 0, "{decision}: {audited}");
    }
}

#[tokio::test]
async fn every_gateway_knows_all_processes_and_a_gateway_is_drained_by_another() {
    let dir = TempDir::new().expect("a temporary directory");
    let mut cluster = cluster(&dir).await;
    for number in 0..2 {
        until("all processes have reported", async || {
            let shown = shown(&cluster.gateway_url(number)).await;
            let (gateways, workers) = (of_role(&shown, "gateway"), of_role(&shown, "worker"));
            let is_whole = gateways.len() == 2 && workers.len() == 2;
            is_whole.then(|| assert!(shown["memory"][0]["used"].as_u64() > Some(100_000)))
        })
        .await;
    }
    let first = shown(&cluster.gateway_url(0)).await;
    let own = first["gateway"].as_str().expect("a name").to_owned();
    assert!(of_role(&first, "gateway").contains(&own.as_str()));
    let second = cluster.gateway_url(1);
    let order = json!({ "process": own });
    let drained = ask(&second, Some(A), "/v1/operator/drain", Some(order));
    assert_eq!(drained.await.status(), StatusCode::ACCEPTED);
    let left = cluster.gateways[0].exit_status().await;
    assert!(left.success(), "{}", cluster.gateways[0].output());
    until("it is not shown any more", async || {
        let shown = shown(&cluster.gateway_url(1)).await;
        (!of_role(&shown, "gateway").contains(&own.as_str())).then_some(())
    })
    .await;
}

#[tokio::test]
async fn nobody_else_sees_or_steers_anything() {
    let dir = TempDir::new().expect("a temporary directory");
    let cluster = cluster(&dir).await;
    let url = cluster.url();
    let process = json!({ "process": "gateway-x" });
    let asked = [
        ("/v1/operator/cluster", None),
        ("/v1/operator/drain", Some(process.clone())),
        (
            "/v1/operator/revoke",
            Some(json!({ "principal": "key:alice" })),
        ),
        (
            "/v1/operator/close",
            Some(json!({ "session": "x", "caller": "key:alice" })),
        ),
        ("/v1/demo/kill", Some(json!({ "session": "x" }))),
    ];
    for (path, body) in &asked {
        let nobody = ask(&url, None, path, body.clone()).await;
        assert_eq!(nobody.status(), StatusCode::UNAUTHORIZED, "{path}");
        // It looks as if there were nothing.
        let bob = ask(&url, Some(B), path, body.clone()).await;
        let nothing = ask(&url, Some(B), "/v1/nothing", body.clone()).await;
        assert_eq!(bob.status(), StatusCode::NOT_FOUND, "{path}");
        assert_eq!(bob.text().await.unwrap(), nothing.text().await.unwrap());
    }
    ask(&url, Some(A), "/v1/caller", None)
        .await
        .error_for_status()
        .unwrap();
    // An administrator's mistakes are told.
    for (path, body) in [
        ("/v1/operator/drain", process),
        ("/v1/operator/revoke", json!({ "session": "x" })),
        ("/v1/operator/revoke", json!({})),
        (
            "/v1/operator/revoke",
            json!({ "principal": "x".repeat(2000) }),
        ),
        ("/v1/operator/drain", json!({ "process": "x".repeat(8000) })),
    ] {
        let answer = ask(&url, Some(A), path, Some(body)).await;
        assert!(answer.status().is_client_error(), "{path}");
        assert!(answer.text().await.unwrap().contains("message"));
    }
}

#[tokio::test]
async fn a_demonstration_kills_a_worker_and_nothing_is_lost() {
    let demo = Served::start_with(&["--ephemeral", "--demo"]).await;
    Visit::start("demo.mjs", &demo.url(), "").passes().await;
}

#[tokio::test]
async fn the_processes_of_a_demonstration_that_is_killed_end() {
    let mut demo = Served::start_with(&["--ephemeral", "--demo"]).await;
    let processes = descendants(&demo.process.id().to_string());
    // Two workers, Redis and its parent.
    assert!(processes.len() >= 4, "{processes:?}");
    demo.process.kill();
    for process in processes {
        is_gone(&process).await;
    }
}

#[test]
fn a_demonstration_is_for_this_machine() {
    for elsewhere in [
        &["--listen", "0.0.0.0:0", "--insecure"][..],
        &["--allow-host", "baton.example"],
        &["--allow-origin", "https://baton.example"],
    ] {
        let output = crate::support::process::baton()
            .args(["serve", "--ephemeral", "--demo"])
            .args(elsewhere)
            .output()
            .expect("baton runs");
        assert_eq!(output.status.code(), Some(64), "{elsewhere:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("--demo"), "{said}");
    }
}
