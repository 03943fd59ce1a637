//! Agents that are not ours, unmodified: one from crates.io, two on the official SDKs, and products. Each is visited by
//! all official clients, through two gateways and two workers.

mod products;

use std::path::{Path, PathBuf};

use serde_json::json;
use tempfile::TempDir;

use super::{CONTEXT, Staged, Visit, served_by};
use crate::clients::{all_visit, python_interpreter};
use crate::support::http::cancel;

/// What is in the project's own folders.
fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn eliza() -> String {
    // Installed by `make setup`.
    let program = project("../target/agents/bin/elizacp");
    format!("stdio:{} --deterministic acp", program.display())
}

/// Keeps its sessions in this folder, and loads them.
fn on_typescript(kept: &Path) -> String {
    let file = project("tests/agents/typescript/agent.mjs");
    format!("stdio:node {} {}", file.display(), kept.display())
}

/// Where that one's packages are.
fn packages() -> String {
    let folders = [
        "tests/clients/typescript",
        "tests/clients/typescript/node_modules",
    ];
    let folders = folders.map(|folder| project(folder).display().to_string());
    folders.join(",")
}

/// Brings no session back.
fn on_python() -> String {
    let file = project("tests/agents/python/agent.py");
    let python = python_interpreter();
    format!("stdio:{} {}", python.display(), file.display())
}

#[tokio::test]
async fn all_clients_visit_eliza() {
    // It can do nothing but listen and answer, so the rest is Baton's.
    let staged = Staged::with("elizacp", &eliza(), &[]).await;
    let mut visit = Visit::begin(&staged.url()).await;
    let said = visit.says("hello").await;
    assert_eq!(said, "How do you do. Please state your problem.");
    let prompts = ["I am sad today", "My mother never tests anything"];
    all_visit(&staged.url(), &prompts).await;
}

#[tokio::test]
async fn all_clients_visit_an_agent_on_the_typescript_sdk() {
    let kept = TempDir::new().expect("a temporary directory");
    let folder = kept.path().to_str().expect("a plain path");
    let packages = packages();
    let variables = [
        ("BATON_AGENT_SANDBOX_WRITE", folder),
        ("BATON_AGENT_SANDBOX_READ", &packages),
    ];
    let staged = Staged::with("sdk-typescript", &on_typescript(kept.path()), &variables).await;
    all_visit(&staged.url(), &["hello brave new world", "permission"]).await;
}

#[tokio::test]
async fn all_clients_visit_an_agent_on_the_python_sdk() {
    // It takes long to start, and can have many sessions: one process for each worker.
    let shared = [("BATON_AGENT_SCOPE", "shared")];
    let staged = Staged::with("sdk-python", &on_python(), &shared).await;
    all_visit(&staged.url(), &["hello brave new world", "permission"]).await;
}

/// Says something, is cancelled, and tells in another process what it remembers.
async fn recalled(agent: &str, kept: &Path) -> (Vec<String>, String) {
    let kept = kept.to_str().expect("a plain path");
    let packages = packages();
    let arguments = [
        "--agent-scope",
        "turn",
        "--agent-sandbox-write",
        kept,
        "--agent-sandbox-read",
        &packages,
    ];
    let baton = served_by(agent, &arguments).await;
    let mut visit = Visit::begin(&baton.url()).await;
    assert_eq!(visit.says("hello there").await, "hello there ");
    let waiting = visit.ask("wait").await;
    assert_eq!(visit.next_chunk().await, "still here ");
    visit.client.post(cancel(&visit.session)).await;
    let (_, answer) = visit.end_of(&waiting).await;
    assert_eq!(answer["result"], json!({ "stopReason": "cancelled" }));
    let said = visit.says("recall").await;
    let told = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"));
    (told, baton.process.output())
}

#[tokio::test]
async fn an_agent_on_the_typescript_sdk_loads_what_it_kept() {
    let kept = TempDir::new().expect("a temporary directory");
    let (told, log) = recalled(&on_typescript(kept.path()), kept.path()).await;
    assert_eq!(told, ["hello there", "wait", "recall"]);
    assert!(
        !log.contains("remembers the conversation otherwise"),
        "{log}"
    );
}

#[tokio::test]
async fn an_agent_on_the_python_sdk_is_told_what_was_said() {
    let nothing = TempDir::new().expect("a temporary directory");
    let (told, _) = recalled(&on_python(), nothing.path()).await;
    let [told] = &told[..] else {
        panic!("{told:?}")
    };
    assert!(told.starts_with(CONTEXT), "{told}");
    assert!(
        told.contains("User: hello there\n\nAssistant: hello there\n"),
        "{told}"
    );
    assert!(told.ends_with("recall"), "{told}");
}
