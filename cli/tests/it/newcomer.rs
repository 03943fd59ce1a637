//! The first minutes with Baton: its greeting, the documented requests, the messages about a wrong start.

use std::path::Path;
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;

use crate::support::http::prompt;
use crate::support::process::Process;
use crate::support::{Client, Served, until};

/// The page with the requests of a first turn, which the greeting names.
const PAGE: &str = "docs/guide/first-turn.md";

#[tokio::test]
async fn the_documented_requests_stream_a_whole_turn() {
    let baton = Served::start().await;
    let output = run(&documented_requests(&baton.url())).await;
    let chunks: Vec<_> = (1..=5)
        .map(|k| output.find(&format!("chunk {k} of 5, prompt 1 ")))
        .collect();
    assert!(
        chunks.iter().all(Option::is_some) && chunks.is_sorted(),
        "{output}"
    );
    assert!(
        output
            .trim_end()
            .ends_with(r#""result":{"stopReason":"end_turn"}}"#),
        "{output}"
    );
}

/// The block of code that begins with the URL, for the server at `url`.
fn documented_requests(url: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = std::fs::read_to_string(root.join(PAGE)).expect("the page is there");
    let lines = page.lines().map(str::trim);
    let block = lines
        .skip_while(|line| !line.starts_with("URL=http"))
        .take_while(|line| !line.starts_with("```"));
    let requests = block.collect::<Vec<_>>().join("\n");
    let documented = "http://127.0.0.1:8080/acp";
    assert!(requests.contains(documented), "{requests}");
    requests.replace(documented, url)
}

async fn run(script: &str) -> String {
    let dir = TempDir::new().expect("a temporary directory");
    let mut shell = Process::start(
        dir.path(),
        "shell",
        Command::new("sh").arg("-c").arg(script),
    );
    assert!(shell.exit_status().await.success(), "{}", shell.output());
    shell.output()
}

#[tokio::test]
async fn the_printed_line_talks_to_the_agent() {
    let baton = Served::start().await;
    let printed = until("the greeting", async || {
        let output = baton.process.output();
        output.contains("Ctrl-C stops.").then_some(output)
    })
    .await;
    assert!(printed.contains(PAGE), "{printed}");
    let line = printed.lines().find(|line| line.contains(" chat http"));
    let line = line.expect("a line to paste").trim();
    let output = run(&format!("{line} --prompt 'well met'")).await;
    assert!(output.contains("well met"), "{output}");
}

/// With a stream that is open and a session between two turns.
#[tokio::test]
async fn ctrl_c_ends_a_server_that_has_nothing_under_way_without_its_grace() {
    let mut baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    client.post(prompt(json!(1), &session, "/count 2")).await;
    stream.turn(&json!(1)).await;
    baton.process.signal("INT");
    assert!(baton.process.exit_status().await.success());
    // It warns of streams that it cuts when its grace is over.
    let said = baton.process.output();
    assert!(!said.contains(" WARN "), "{said}");
}

#[tokio::test]
async fn a_busy_port_is_named() {
    let baton = Served::start().await;
    let url = baton.url();
    let address = url.trim_start_matches("http://").trim_end_matches("/acp");
    let output = crate::support::process::baton()
        .args(["serve", "--listen", address])
        .output()
        .expect("baton runs");
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        text.contains(address) && text.contains("--listen"),
        "{text}"
    );
}

/// A shell in which workers are started has it.
#[test]
fn serve_does_without_the_variable_of_a_store() {
    let mut command = crate::support::process::baton();
    let command = command.env("BATON_STORE", "redis://127.0.0.1:1");
    let output = command.args(["serve", "--slots", "0"]).output();
    let output = output.expect("baton runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("--slots 0"), "{text}");
}

#[test]
fn a_bad_configuration_names_every_fault_and_exits_64() {
    let mut command = crate::support::process::baton();
    command.args([
        "gateway",
        "--store",
        "postgres://x",
        "--keys",
        "/nowhere/keys.json",
    ]);
    let output = command.output().expect("baton runs");
    assert_eq!(output.status.code(), Some(64));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        text.contains("--store") && text.contains("--keys") && text.contains("token keygen"),
        "{text}"
    );
    let unknown = crate::support::process::baton()
        .args(["serve", "--colour"])
        .output()
        .expect("baton runs");
    assert_eq!(unknown.status.code(), Some(64));
}
