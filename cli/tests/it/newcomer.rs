//! What a newcomer does first.

use std::process::Command;

use crate::support::process::Process;
use crate::support::{Served, until};
use tempfile::TempDir;

#[tokio::test]
async fn the_printed_snippet_streams_a_whole_turn() {
    let baton = Served::start().await;
    let printed = until("the greeting", async || {
        let output = baton.process.output();
        output.contains("Ctrl-C stops.").then_some(output)
    })
    .await;
    let start = printed
        .find("\nURL=")
        .expect("the snippet begins with the URL")
        + 1;
    let end = printed.find("\n\nCtrl-C").expect("the snippet ends");
    let dir = TempDir::new().expect("a temporary directory");
    let mut shell = Process::start(
        dir.path(),
        "shell",
        Command::new("sh").arg("-c").arg(&printed[start..end]),
    );
    assert!(shell.exit_status().await.success());
    let output = shell.output();
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
