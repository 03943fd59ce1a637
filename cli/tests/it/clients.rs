//! The three official clients, unmodified, over HTTP and WebSocket, against both shapes of Baton. The
//! replicas are behind round robin, and once more behind each balancer that routes by session.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::support::balancer::Kind;
use crate::support::process::Process;
use crate::support::tls::Secured;
use crate::support::{Cluster, Served, within};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients")
}

pub fn rust() -> Command {
    // Built by `make setup`, beside this build and not mixed with it.
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/clients/debug/scenario"))
}

pub fn typescript() -> Command {
    typescript_with("scenario.mjs")
}

fn typescript_with(file: &str) -> Command {
    let mut command = Command::new("node");
    command.arg(folder().join("typescript").join(file));
    command
}

pub fn python() -> Command {
    python_with("scenario.py")
}

fn python_with(file: &str) -> Command {
    let mut command = Command::new(python_interpreter());
    command.arg(folder().join("python").join(file));
    command
}

/// The one that has the SDK.
pub fn python_interpreter() -> PathBuf {
    folder().join("python/.venv/bin/python")
}

pub async fn plays(client: Command, transport: &str, url: &str) {
    plays_with(client, transport, url, &[]).await;
}

async fn plays_with(mut client: Command, transport: &str, url: &str, rest: &[&str]) {
    client.args([transport, url]).args(rest);
    plays_alone(client).await;
}

/// With all its arguments.
pub async fn plays_alone(mut client: Command) {
    let dir = TempDir::new().expect("a temporary directory");
    let mut process = Process::start(dir.path(), "client", &mut client);
    let status = within("the client's scenario", process.exit_status()).await;
    let output = process.output();
    assert!(
        status.success() && output.ends_with("scenario passed\n"),
        "{output}"
    );
}

macro_rules! scenarios {
    ($($name:ident: $client:ident over $transport:literal on $shape:ident;)*) => {
        $(#[tokio::test]
        async fn $name() {
            let baton = $shape::start().await;
            plays($client(), $transport, &baton.url()).await;
        })*
    };
}

scenarios! {
    rust_over_http: rust over "http" on Served;
    rust_over_websocket: rust over "ws" on Served;
    typescript_over_http: typescript over "http" on Served;
    typescript_over_websocket: typescript over "ws" on Served;
    python_over_http: python over "http" on Served;
    python_over_websocket: python over "ws" on Served;
    rust_over_http_with_replicas: rust over "http" on Cluster;
    rust_over_websocket_with_replicas: rust over "ws" on Cluster;
    typescript_over_http_with_replicas: typescript over "http" on Cluster;
    typescript_over_websocket_with_replicas: typescript over "ws" on Cluster;
    python_over_http_with_replicas: python over "http" on Cluster;
    python_over_websocket_with_replicas: python over "ws" on Cluster;
}

/// One after the other: they look at the list of sessions.
async fn all_play_behind(balancer: Kind) {
    let cluster = Cluster::start_behind(balancer).await;
    for transport in ["http", "ws"] {
        for client in [rust(), typescript(), python()] {
            plays(client, transport, &cluster.url()).await;
        }
    }
}

#[tokio::test]
async fn all_of_them_behind_nginx() {
    all_play_behind(Kind::Nginx).await;
}

#[tokio::test]
async fn all_of_them_behind_haproxy() {
    all_play_behind(Kind::Haproxy).await;
}

#[tokio::test]
async fn all_of_them_behind_envoy() {
    all_play_behind(Kind::Envoy).await;
}

#[tokio::test]
async fn typescript_goes_on_after_it_was_refused() {
    let baton = Served::start_with(&["--limit-turns", "1"]).await;
    for transport in ["http", "ws"] {
        plays(typescript_with("limited.mjs"), transport, &baton.url()).await;
    }
}

/// All of them, over both transports, with an agent that may be any: it gets these prompts.
pub async fn all_visit(url: &str, prompts: &[&str]) {
    for transport in ["http", "ws"] {
        let clients = [
            rust(),
            typescript_with("visit.mjs"),
            python_with("visit.py"),
        ];
        for client in clients {
            plays_with(client, transport, url, prompts).await;
        }
    }
}

/// As operators set a client up whose authority is their own.
async fn plays_with_tls(mut client: Command, transport: &str) {
    let baton = Secured::start(&[]).await;
    client.env("NODE_EXTRA_CA_CERTS", baton.authority_file());
    client.env("SSL_CERT_FILE", baton.authority_file());
    plays(client, transport, &baton.url()).await;
}

#[tokio::test]
async fn typescript_over_https() {
    plays_with_tls(typescript(), "http").await;
}

#[tokio::test]
async fn typescript_over_secure_websocket() {
    plays_with_tls(typescript(), "ws").await;
}

// Python over https would be HTTP/2, on which its library hands an event out only when the next bytes
// come: the scenario passes, in up to a minute.
#[tokio::test]
async fn python_over_secure_websocket() {
    plays_with_tls(python(), "ws").await;
}
