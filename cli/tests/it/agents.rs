//! Several agents in one cluster: clients choose by path, sessions stay with theirs.

mod paths;
mod upgrade;

use serde_json::{Value, json};

use crate::support::http::prompt;
use crate::support::process::{Process, baton};
use crate::support::sse::counted;
use crate::support::{Client, Cluster, Served, until};

/// A cluster whose two workers run `scripted`, and one more worker that runs `other`.
struct Several {
    cluster: Cluster,
    other: Process,
}

impl Several {
    async fn start(gateway_arguments: &[&str]) -> Self {
        let cluster = Cluster::start_with(gateway_arguments).await;
        Self::joined(cluster).await
    }

    async fn joined(cluster: Cluster) -> Self {
        let other = worker(&cluster, 2, "other");
        let several = Self { cluster, other };
        until("both agents are registered", async || {
            let agents = listed(&several.cluster.url()).await;
            let alive = |agent: &Value| agent["workers"] != 0;
            (agents.len() == 2 && agents.iter().all(alive)).then_some(())
        })
        .await;
        several
    }

    /// A gateway's URL for an agent.
    fn url_of(&self, gateway: usize, agent: &str) -> String {
        format!("{}/{agent}", self.cluster.gateway_url(gateway))
    }

    /// Which agent ran the session's last turn.
    fn agent_of(&self, session: &str) -> &'static str {
        let worker = self.cluster.redis.worker_of(session);
        assert!(!worker.is_empty(), "somebody has run {session}");
        match self.other.output().contains(&worker) {
            true => "other",
            false => "scripted",
        }
    }
}

fn worker(cluster: &Cluster, number: usize, name: &str) -> Process {
    cluster.worker_with(number, |command| {
        command.env("BATON_AGENT_NAME", name);
    })
}

/// What `/v1/agents` says.
async fn listed(url: &str) -> Vec<Value> {
    let url = url.replace("/acp", "/v1/agents");
    let response = reqwest::get(url).await.expect("the gateway answers");
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "application/json");
    let text = response.text().await.expect("a body");
    let answer: Value = serde_json::from_str(&text).expect("JSON");
    answer["agents"].as_array().expect("a list").clone()
}

/// A prompt that must be the session's `number`th.
async fn turn(client: &Client, session: &str, number: u64) {
    let id = json!(format!("turn-{number}"));
    let prompt = prompt(id.clone(), session, "/count 2");
    let mut stream = client.one_shot(prompt).await;
    assert_eq!(stream.turn(&id).await, counted(2, number));
}

#[tokio::test]
async fn agents_are_listed_and_one_is_the_default() {
    let several = Several::start(&[]).await;
    let agents = listed(&several.cluster.url()).await;
    let version = env!("CARGO_PKG_VERSION");
    for (agent, (name, default, workers)) in agents
        .iter()
        .zip([("other", false, 1), ("scripted", true, 2)])
    {
        let path = format!("/acp/{name}");
        let (answer, expected) = (
            json!([
                agent["name"],
                agent["path"],
                agent["default"],
                agent["workers"],
                agent["version"],
                agent["title"]
            ]),
            json!([
                name,
                path,
                default,
                workers,
                version,
                "Baton's scripted agent"
            ]),
        );
        assert_eq!(answer, expected);
        let url = several.url_of(0, name);
        let (_, answer) = Client::open(&url, json!({ "protocolVersion": 1 }))
            .await
            .expect("an answer");
        let capabilities = &answer["result"]["agentCapabilities"];
        assert_eq!(capabilities["loadSession"], true);
        assert_eq!(*capabilities, agent["capabilities"]);
    }
}

#[tokio::test]
async fn the_default_is_what_the_gateway_is_told() {
    // Not there yet when the gateways begin, so nobody can initialize at /acp before it is.
    let cluster = Cluster::start_unused(&["--default-agent", "other"]).await;
    let several = Several::joined(cluster).await;
    let client = Client::initialize(&several.cluster.url()).await;
    let session = client.new_session().await;
    turn(&client, &session, 1).await;
    assert_eq!(several.agent_of(&session), "other");
    let defaults = listed(&several.cluster.url()).await;
    let defaults: Vec<&Value> = defaults.iter().map(|agent| &agent["default"]).collect();
    assert_eq!(defaults, [true, false]);
}

#[tokio::test]
async fn who_does_not_say_who_calls_gets_no_list() {
    let cluster = Cluster::start_with_keys().await;
    let url = cluster.url().replace("/acp", "/v1/agents");
    let response = reqwest::get(url).await.expect("the gateway answers");
    assert_eq!(response.status(), 401);
}

#[tokio::test]
async fn one_process_can_name_its_agent() {
    let served = Served::start_with(&["--agent-name", "my.agent-1_b"]).await;
    let agents = listed(&served.url()).await;
    assert_eq!(agents.len(), 1);
    assert_eq!(agents[0]["name"], "my.agent-1_b");
    for url in [served.url(), format!("{}/my.agent-1_b", served.url())] {
        let client = Client::initialize(&url).await;
        let session = client.new_session().await;
        turn(&client, &session, 1).await;
    }
}

#[test]
fn a_bad_name_is_refused_at_the_start() {
    let long = "a".repeat(65);
    for name in ["", "a/b", "a b", "..", ".hidden", "ä", &long] {
        let outputs = [
            baton()
                .args(["serve", "--ephemeral", "--agent-name", name])
                .output(),
            baton()
                .args([
                    "worker",
                    "--store",
                    "redis://127.0.0.1:1",
                    "--agent-name",
                    name,
                ])
                .output(),
            baton()
                .args([
                    "gateway",
                    "--store",
                    "redis://127.0.0.1:1",
                    "--keys",
                    "none",
                ])
                .args(["--default-agent", name])
                .output(),
        ];
        for output in outputs {
            let output = output.expect("baton runs");
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(64), "{name:?}: {said}");
            assert!(said.contains("letters, digits"), "{name:?}: {said}");
        }
    }
}
