//! Redis, by the scripts that docs/operate/backup.md names: from a server that works to another one, as their users.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use reqwest::StatusCode;
use serde_json::json;
use tempfile::TempDir;

use super::{loaded, plain, refused, session_token, succeeded, with_token};
use crate::revocation::{is_refused, works};
use crate::support::cluster::{STRICT, address, ready, url, write_keys};
use crate::support::http::{new_session, prompt};
use crate::support::process::{Process, baton, free_port};
use crate::support::sse::counted;
use crate::support::{Client, Redis, until};

/// A gateway and a worker, with keys that stay.
struct Site {
    dir: TempDir,
    port: u16,
}

impl Site {
    fn new() -> Self {
        let dir = TempDir::new_in("/var/tmp").expect("a temporary directory");
        write_keys(&dir.path().join("keys.json"));
        Self {
            dir,
            port: free_port(),
        }
    }

    async fn start(&self, store: impl Fn(&str) -> PathBuf) -> [Process; 2] {
        let mut worker = baton();
        worker
            .arg("worker")
            .arg("--store-file")
            .arg(store("worker"));
        let worker = Process::start(self.dir.path(), "worker", &mut worker);
        let mut gateway = baton();
        gateway.args(["gateway", "--listen", &address(self.port), "--keys"]);
        gateway.arg(self.dir.path().join("keys.json"));
        gateway.arg("--store-file").arg(store("gateway"));
        let gateway = Process::start(self.dir.path(), "gateway", &mut gateway);
        ready(self.port).await;
        [gateway, worker]
    }

    async fn client(&self) -> Client {
        let url = url(self.port);
        until("an agent is registered", async || {
            Client::try_initialize(&url).await
        })
        .await
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

fn script(name: &str, arguments: &[&Path]) -> Output {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../deploy")
        .join(name);
    let mut command = Command::new(file);
    command.env("BATON", env!("CARGO_BIN_EXE_baton"));
    command.args(arguments).output().expect("the script runs")
}

#[tokio::test]
async fn a_redis_is_restored_as_the_page_says() {
    let site = Site::new();
    let mut redis = Redis::start_with(&[STRICT]).await;
    let mut processes = site.start(|role| redis.store_file(role)).await;
    let client = site.client().await;
    let mut opened = client.one_shot(new_session(json!("n"))).await;
    let answer = opened.response(&json!("n")).await;
    let session = answer["result"]["sessionId"].as_str().unwrap().to_owned();
    let token = session_token(&answer);
    let mut stream = client.session_stream(&session, None).await;
    client.post(prompt(json!(1), &session, "/count 20")).await;
    assert_eq!(stream.turn(&json!(1)).await, counted(20, 1));
    let busy = client.new_session().await;
    let mut talk = client.session_stream(&busy, None).await;
    client
        .post(prompt(json!(1), &busy, "/count 400 delay=5"))
        .await;
    while talk.next().await.expect("it goes on").chunk().is_none() {}

    let (admin, file) = (redis.store_file("admin"), site.at("backup.rdb"));
    succeeded(&script("redis-backup", &[&admin, &file]));
    assert_eq!(super::modes(&file), 0o600);
    let again = script("redis-backup", &[&admin, &file]);
    refused(&again, 64, "choose another name");
    let worker = redis.store_file("worker");
    let denied = script("redis-backup", &[&worker, &site.at("denied.rdb")]);
    assert!(!denied.status.success() && !site.at("denied.rdb").exists());
    client.post(prompt(json!(2), &session, "/count 30")).await;
    assert_eq!(stream.turn(&json!(2)).await, counted(30, 2));
    let lost = stream.last_id.clone();
    processes.iter_mut().for_each(Process::kill);
    redis.process.kill();

    let data = site.at("redis");
    succeeded(&script("redis-restore", &[&file, &data]));
    refused(&script("redis-restore", &[&file, &data]), 74, "not empty");
    let users = admin.parent().unwrap().parent().unwrap();
    let mut server = Command::new("redis-server");
    server.args(["--port", &redis.port.to_string(), "--bind", "127.0.0.1"]);
    server.args(["--appendonly", "yes", "--save", "", "--dir"]);
    server.arg(&data).arg("--aclfile");
    server.arg(users.join("redis/users.acl"));
    let _restored = Process::start(site.dir.path(), "redis-log", &mut server);
    until("Redis answers", async || {
        let pong = redis.asked_by("admin", &["ping"]);
        (pong == "PONG").then_some(())
    })
    .await;
    let _processes = site.start(|role| redis.store_file(role)).await;

    is_refused(&client).await;
    let again = || prompt(json!(9), &session, "/count 1");
    let status = with_token(&client.url, &token, again()).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let client = site.client().await;
    let (stream, chunks, _) = loaded(&client, &session).await;
    assert_eq!(chunks, counted(20, 1));
    drop(stream);
    let mut stream = client.session_stream(&session, Some(&lost)).await;
    assert_eq!(stream.next().await.expect("an event").event, "reset");
    client.post(prompt(json!(3), &session, "/count 50")).await;
    assert_eq!(stream.turn(&json!(3)).await, counted(50, 2));
    let mut stream = client.session_stream(&session, Some(&lost)).await;
    assert_eq!(stream.next().await.expect("an event").event, "reset");

    let (mut stream, mut chunks, _) = loaded(&client, &busy).await;
    while chunks.len() < 400 {
        chunks.extend(stream.next().await.expect("the turn goes on").chunk());
    }
    assert_eq!(chunks, counted(400, 1));
    works(&client).await;
}

#[tokio::test]
async fn a_backup_of_redis_that_cannot_be_trusted_is_refused() {
    let site = Site::new();
    let redis = Redis::start().await;
    redis.asked_by("admin", &["set", "key", &"value".repeat(100)]);
    let file = site.at("backup.rdb");
    succeeded(&script(
        "redis-backup",
        &[&redis.store_file("admin"), &file],
    ));
    let whole = fs::read(&file).unwrap();
    let middle = whole.len() / 2;
    let mut spoiled = whole.clone();
    spoiled[middle] ^= 1;
    let data = site.at("redis");
    for bytes in [&whole[..middle], &spoiled, b"rubbish"] {
        let file = site.at("spoiled.rdb");
        fs::write(&file, bytes).unwrap();
        refused(&script("redis-restore", &[&file, &data]), 74, "damaged");
        assert!(!data.exists());
    }
}

#[tokio::test]
async fn who_may_mark_a_redis_as_restored() {
    let redis = Redis::start_with(&[STRICT]).await;
    let mark = |role: &str| {
        let mut command = plain();
        command.args(["store", "mark-restored", "--store-file"]);
        command.arg(redis.store_file(role)).output().unwrap()
    };
    let key = ["get", "baton:{format}:restored"];
    assert_eq!(redis.asked_by("admin", &key), "");
    for role in ["gateway", "admin"] {
        succeeded(&mark(role));
        assert_eq!(redis.asked_by("admin", &key).len(), 8);
    }
    assert!(!mark("worker").status.success());
    let said = redis.asked_by("admin", &["hkeys", "baton:{revoked}:all"]);
    assert_eq!(said, "a everybody");
}
