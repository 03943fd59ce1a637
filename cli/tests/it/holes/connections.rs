//! F7: connections that say nothing keep nobody out.

use std::process::Command;

use reqwest::StatusCode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::auth::{ALICE, BOB, write_keys};
use crate::support::cluster::{address, ready, url};
use crate::support::http::{bearing, prompt};
use crate::support::metrics::page as metrics;
use crate::support::process::{Process, baton, free_port};
use crate::support::sse::counted;
use crate::support::{Client, Served, until, within};

/// More than the gateway may have descriptors.
const SILENT: usize = 1100;

/// `baton serve` with so many descriptors.
struct Narrow {
    process: Process,
    port: u16,
    dir: TempDir,
}

impl Narrow {
    async fn start(descriptors: &str, arguments: &[&str]) -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        let keys = write_keys(dir.path());
        let port = free_port();
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={descriptors}"));
        command.arg(baton().get_program());
        command.args(["serve", "--ephemeral", "--listen", &address(port)]);
        command.args(["--auth", "keys", "--auth-keys", &keys]);
        command.args(arguments);
        let process = Process::start(dir.path(), "serve", &mut command);
        ready(port).await;
        Self { process, port, dir }
    }
}

/// This process holds the other ends.
fn raise_own_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, raised).expect("the soft limit may be raised to the hard one");
}

async fn silent(port: u16, count: usize) -> Vec<TcpStream> {
    let mut held = Vec::new();
    for _ in 0..count {
        let opened = within("a connection", TcpStream::connect(address(port))).await;
        held.push(opened.expect("the gateway listens"));
    }
    held
}

async fn health(port: u16) -> Option<StatusCode> {
    let answer = reqwest::get(format!("http://{}/healthz", address(port))).await;
    answer.ok().map(|answer| answer.status())
}

#[tokio::test]
async fn f7_silent_connections_keep_nobody_out_and_keys_are_still_read() {
    raise_own_limit();
    let baton = Narrow::start("1024:1024", &[]).await;
    let endpoint = url(baton.port);
    let bob = Client::with_key(&endpoint, BOB).await;
    let session = bob.new_session().await;
    let mut stream = bob.session_stream(&session, None).await;
    let _silent = silent(baton.port, SILENT).await;

    // A new connection finds room at once.
    let answered = within("an answer", health(baton.port)).await;
    assert_eq!(answered, Some(StatusCode::OK));
    // What was open before is not closed for others.
    bob.post(prompt(json!(1), &session, "/count 5")).await;
    assert_eq!(stream.turn(&json!(1)).await, counted(5, 1));
    // A key that is removed is not good any more.
    assert!(Client::try_with_key(&endpoint, ALICE).await.is_some());
    let path = baton.dir.path().join("api-keys.json");
    let text = std::fs::read_to_string(&path).expect("written at the start");
    let mut keys: Value = serde_json::from_str(&text).expect("JSON");
    keys["keys"].as_array_mut().expect("keys").remove(0);
    std::fs::write(&path, keys.to_string()).expect("the directory is writable");
    until("alice's key is gone", async || {
        let answer = bearing(ALICE).get(&endpoint).send().await.ok()?;
        (answer.status() == StatusCode::UNAUTHORIZED).then_some(())
    })
    .await;
    assert!(Client::try_with_key(&endpoint, BOB).await.is_some());
    let page = metrics(&endpoint).await;
    let closed = "baton_gateway_connections_closed_total{limit=\"total\",closed=\"idle\"}";
    assert!(page.contains(closed), "{page}");
}

#[tokio::test]
async fn f7_who_works_is_not_closed_for_a_newcomer() {
    let limits = ["--max-connections", "4", "--max-connections-per-address"];
    let baton = Narrow::start("1024:1024", &[&limits[..], &["4"]].concat()).await;
    let endpoint = url(baton.port);
    let bob = Client::with_key(&endpoint, BOB).await;
    let session = bob.new_session().await;
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(bob.session_stream(&session, None).await);
    }
    // One place is left, and each newcomer takes it from the one before.
    let mut held = silent(baton.port, 5).await;
    let mut bytes = Vec::new();
    let first = within("the first is closed", held[0].read_to_end(&mut bytes)).await;
    assert!(first.is_err() || bytes.is_empty());
    assert_eq!(
        within("health", health(baton.port)).await,
        Some(StatusCode::OK)
    );
    // The last stream was opened by the same client as the ones before, and took their place.
    bob.post(prompt(json!(1), &session, "/count 3")).await;
    let mut last = streams.pop().expect("three were opened");
    assert_eq!(last.turn(&json!(1)).await, counted(3, 1));
}

#[tokio::test]
async fn f7_an_address_has_its_share_and_makes_room_for_itself() {
    let limits = ["--max-connections-per-address", "20"];
    let baton = Narrow::start("1024:1024", &limits).await;
    let _silent = silent(baton.port, 100).await;
    assert_eq!(
        within("health", health(baton.port)).await,
        Some(StatusCode::OK)
    );
    let page = metrics(&url(baton.port)).await;
    let closed = "baton_gateway_connections_closed_total{limit=\"address\",closed=\"idle\"}";
    assert!(page.contains(closed), "{page}");
}

#[tokio::test]
async fn f7_a_connection_that_says_nothing_is_closed() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let host = baton.url();
    let host = host.trim_start_matches("http://").trim_end_matches("/acp");
    let mut silent = TcpStream::connect(host).await.expect("the gateway listens");
    let mut used = TcpStream::connect(host).await.expect("the gateway listens");
    let whole = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    used.write_all(whole).await.expect("sent");
    let mut bytes = Vec::new();
    let ended = silent.read_to_end(&mut bytes);
    within("it is closed", ended).await.expect("it is closed");
    assert!(bytes.is_empty());
    // Whoever has said something may rest.
    used.write_all(whole).await.expect("sent");
    let mut answers = vec![0; 64];
    within("an answer", used.read_exact(&mut answers))
        .await
        .expect("it is open");
}

#[tokio::test]
async fn f7_the_soft_limit_is_raised_to_the_hard_one() {
    let baton = Narrow::start("256:4096", &[]).await;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", baton.process.id()));
    let limits = limits.expect("the process runs");
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let numbers: Vec<_> = line.expect("a line").split_whitespace().skip(3).collect();
    assert_eq!(numbers[..2], ["4096", "4096"]);
}

#[test]
fn f7_wrong_numbers_of_connections_are_named_all_at_once() {
    let mut command = baton();
    command.args(["serve", "--ephemeral", "--max-connections", "0"]);
    command.args(["--max-connections-per-address", "7"]);
    let output = command.output().expect("baton runs");
    assert_eq!(output.status.code(), Some(64));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    for fault in [
        "--max-connections 0: must be between 1 and",
        "--max-connections-per-address 7: must be between 1 and",
    ] {
        assert!(text.contains(fault), "{text}");
    }
    let mut command = baton();
    command.args(["serve", "--ephemeral", "--max-connections", "999999999"]);
    let output = command.output().expect("baton runs");
    assert_eq!(output.status.code(), Some(64));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("descriptors (ulimit -n)"), "{text}");
}
