//! Versions side by side, and agents that nobody runs.

use std::collections::HashSet;
use std::io::Write as _;
use std::process::Stdio;
use std::sync::Mutex;

use baton_session::store::redis::{RedisOptions, RedisStore};
use baton_session::store::{ALIVE, AgentCard, WorkerId, WorkerStore as _};
use serde_json::{Value, json};

use super::{Several, listed, turn, worker};
use crate::support::cluster::redis_cli;
use crate::support::http::prompt;
use crate::support::process::baton;
use crate::support::{Client, Cluster, Redis, Served, until};

async fn store(redis: &Redis) -> RedisStore {
    let options = RedisOptions::new(&redis.store(), "baton");
    let connected = RedisStore::connect_with(&options).await;
    connected.expect("Redis answers")
}

fn version_of(agents: &[Value], name: &str) -> Value {
    let agent = agents.iter().find(|agent| agent["name"] == name);
    agent.map_or(Value::Null, |agent| agent["version"].clone())
}

const NEWER: &str = "of-the-next-version";

/// Until when the workers of the old version count as alive; it moves with every heartbeat.
fn old_ends(redis: &Redis) -> Vec<String> {
    let key = "baton:{agents}:alive:other";
    let members = redis_cli(redis.port, &["zrange", key, "0", "-1", "withscores"]);
    let lines: Vec<&str> = members.lines().collect();
    let others = lines.chunks(2).filter(|pair| pair[0] != NEWER);
    others.map(|pair| pair[1].to_owned()).collect()
}

/// A worker of the next version says that it lives, as often as the test does.
struct Newer {
    store: RedisStore,
    worker: WorkerId,
}

impl Newer {
    async fn lives(&self) {
        let card = AgentCard {
            name: "other".into(),
            version: "99.0.0".into(),
            initialize: json!({
                "agentCapabilities": { "promptCapabilities": { "image": false } },
                "agentInfo": { "name": "other", "version": "99.0.0" },
            }),
        };
        let registered = self.store.register(&card, &self.worker, ALIVE).await;
        registered.expect("Redis answers");
    }
}

#[tokio::test]
async fn two_versions_side_by_side_show_the_newer_and_keep_old_sessions() {
    let several = Several::start(&[]).await;
    let url = several.url_of(0, "other");
    let client = Client::initialize(&url).await;
    let session = client.new_session().await;
    turn(&client, &session, 1).await;
    let old = version_of(&listed(&url.replace("/other", "")).await, "other");
    let newer = Newer {
        store: store(&several.cluster.redis).await,
        worker: WorkerId(NEWER.into()),
    };
    newer.lives().await;
    // However often the old one says meanwhile that it lives.
    let redis = &several.cluster.redis;
    let ends = Mutex::new(HashSet::new());
    until("three heartbeats of the old version", async || {
        newer.lives().await;
        ends.lock().unwrap().extend(old_ends(redis));
        let agents = listed(&several.cluster.url()).await;
        assert_eq!(version_of(&agents, "other"), "99.0.0");
        (ends.lock().unwrap().len() > 3).then_some(())
    })
    .await;
    let (_, answer) = Client::open(&url, json!({ "protocolVersion": 1 }))
        .await
        .expect("an answer");
    let capabilities = &answer["result"]["agentCapabilities"]["promptCapabilities"];
    assert_eq!(*capabilities, json!({ "image": false }));
    turn(&client, &session, 2).await;
    // The new version is taken back: what runs is shown again.
    until("the old version is shown", async || {
        let agents = listed(&several.cluster.url()).await;
        (version_of(&agents, "other") == old).then_some(())
    })
    .await;
    turn(&client, &session, 3).await;
}

#[tokio::test]
async fn an_agent_whose_workers_restart_is_still_there() {
    let mut several = Several::start(&[]).await;
    let client = Client::initialize(&several.url_of(0, "other")).await;
    let session = client.new_session().await;
    several.other.signal("TERM");
    assert!(several.other.exit_status().await.success());
    until("nobody runs it", async || {
        let agents = listed(&several.cluster.url()).await;
        let other = agents.iter().find(|agent| agent["name"] == "other");
        (other.expect("it is known")["workers"] == 0).then_some(())
    })
    .await;
    // Whoever comes now waits for the next worker.
    let late = Client::initialize(&several.url_of(1, "other")).await;
    let mut stream = late
        .one_shot(prompt(json!("late"), &session, "/count 2"))
        .await;
    several.other = worker(&several.cluster, 2, "other");
    assert_eq!(stream.turn(&json!("late")).await.len(), 2);
    assert_eq!(several.agent_of(&session), "other");
}

/// Lines of a session of an agent that the cluster has never heard of.
async fn from_elsewhere() -> Vec<u8> {
    let elsewhere = Served::start_with(&["--ephemeral", "--agent-name", "elsewhere"]).await;
    let client = Client::initialize(&elsewhere.url()).await;
    let session = client.new_session().await;
    turn(&client, &session, 1).await;
    let url = elsewhere.url().replace("/acp", "");
    let exported = baton()
        .args(["sessions", "--url", &url, "export", &session])
        .output();
    exported.expect("baton runs").stdout
}

#[tokio::test]
async fn who_waits_for_an_agent_that_nobody_runs_is_told() {
    let cluster = Cluster::start_with(&["--withdraw-after-ms", "100"]).await;
    let url = cluster.url().replace("/acp", "");
    let mut import = baton()
        .args(["sessions", "--url", &url, "import"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("baton runs");
    let lines = from_elsewhere().await;
    let mut stdin = import.stdin.take().expect("piped");
    stdin.write_all(&lines).expect("it reads");
    drop(stdin);
    let output = import.wait_with_output().expect("baton ends");
    let session = String::from_utf8(output.stdout).expect("an id");
    let session = session.trim();
    let client = Client::initialize(&cluster.url()).await;
    let mut stream = client.one_shot(prompt(json!(1), session, "hello")).await;
    let answer = stream.response(&json!(1)).await;
    assert_eq!(answer["error"]["code"], 5003, "{answer}");
    // And once there is a worker for it, it goes on.
    let _worker = worker(&cluster, 2, "elsewhere");
    turn(&client, session, 2).await;
}
