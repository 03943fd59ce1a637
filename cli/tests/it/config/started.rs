//! Processes that take everything from the file.

use tempfile::TempDir;

use super::{ConfigFile, clean};
use crate::support::Redis;
use crate::support::cluster::ready;
use crate::support::process::{Process, free_port};

#[tokio::test]
async fn serve_starts_from_a_file() {
    let port = free_port();
    let file = ConfigFile::new(&format!(
        "[serve]\nlisten = \"127.0.0.1:{port}\"\nephemeral = true\nadmin-listen = \"none\"\n"
    ));
    let mut command = clean();
    command.args(["serve", "--config"]).arg(file.path());
    let _process = Process::start(file.dir.path(), "serve", &mut command);
    ready(port).await;
}

#[tokio::test]
async fn gateway_and_worker_start_from_one_file() {
    let redis = Redis::start().await;
    let (port, probes) = (free_port(), free_port());
    let dir = TempDir::new().expect("a temporary directory");
    let keys = dir.path().join("keys.json");
    let mut keygen = clean();
    keygen.args(["token", "keygen", "--file"]).arg(&keys);
    assert!(keygen.status().expect("baton runs").success());
    let file = ConfigFile::new(&format!(
        r#"
        namespace = "baton"
        [gateway]
        store-file = {gateway:?}
        listen = "127.0.0.1:{port}"
        keys = {keys:?}
        admin-listen = "none"
        [worker]
        store-file = {worker:?}
        probe-listen = "127.0.0.1:{probes}"
        slots = 2
        "#,
        gateway = redis.store_file("gateway"),
        worker = redis.store_file("worker"),
    ));
    let start = |role: &str| {
        let mut command = clean();
        command.arg(role).env("BATON_CONFIG", file.path());
        Process::start(file.dir.path(), role, &mut command)
    };
    let _worker = start("worker");
    let _gateway = start("gateway");
    ready(port).await;
    ready(probes).await;
}
