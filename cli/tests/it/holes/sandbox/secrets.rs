//! The store's password is in no command line and no environment, however it was given.

use std::fs;

use tempfile::TempDir;

use crate::support::cluster::{Redis, address, ready, redis_cli, write_keys};
use crate::support::process::{Process, baton, free_port};
use crate::support::{Client, until};

const PASSWORD: &str = "hunter2-hunter2";

#[tokio::test]
async fn f3_the_stores_password_is_in_no_command_line_and_no_environment() {
    let dir = TempDir::new().expect("a temporary directory");
    let redis = Redis::start().await;
    redis_cli(redis.port, &["config", "set", "requirepass", PASSWORD]);
    let store = format!("redis://:{PASSWORD}@127.0.0.1:{}", redis.port);
    let (keys, port) = (dir.path().join("keys.json"), free_port());
    write_keys(&keys);
    let mut command = baton();
    command.args([
        "gateway",
        "--store",
        &store,
        "--listen",
        &address(port),
        "--keys",
    ]);
    let gateway = Process::start(dir.path(), "gateway", command.arg(keys));
    let mut command = baton();
    let worker = Process::start(
        dir.path(),
        "worker",
        command.arg("worker").env("BATON_STORE", &store),
    );
    ready(port).await;
    // Both have found their way to Redis.
    let url = format!("http://{}/acp", address(port));
    until("the agent is there", async || {
        Client::try_initialize(&url).await
    })
    .await;
    for process in [gateway, worker] {
        for name in ["cmdline", "environ"] {
            // Not even ours to read, unless we are root.
            let text = fs::read(format!("/proc/{}/{name}", process.id())).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            assert!(!text.contains(PASSWORD), "{name}: {text}");
        }
    }
}
