//! Products by name: `--agent codex` is a command, its variables and a name for clients.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use super::{Staged, Visit, actor, served_by};
use crate::support::process::baton;

/// A folder with a program that is the actor under another name, and a Node.js of this version.
fn products(program: &str, node: &str) -> TempDir {
    let folder = TempDir::new().expect("a temporary directory");
    let command = actor("").trim_start_matches("stdio:").to_owned();
    write(folder.path(), program, &format!("exec {command}"));
    write(folder.path(), "node", &format!("echo {node}"));
    folder
}

fn write(folder: &Path, name: &str, script: &str) {
    let file = folder.join(name);
    fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("writable");
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).expect("ours");
}

fn path_with(folder: &Path) -> String {
    let path = std::env::var("PATH").expect("there is a PATH");
    format!("{}:{path}", folder.display())
}

#[tokio::test]
async fn a_product_has_its_variables_and_its_name() {
    let folder = products("codex-acp", "v22.1.0");
    let path = path_with(folder.path());
    let actor = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agents");
    let actor = actor.display().to_string();
    let variables = [
        ("PATH", &*path),
        // The script's neighbours are its own, and the actor is not one of them.
        ("BATON_AGENT_SANDBOX_READ", &*actor),
        ("OPENAI_API_KEY", "not-a-key"),
        ("ANTHROPIC_API_KEY", "of-another"),
        ("BATON_AGENT_ENV", "MINE"),
        ("MINE", "too"),
    ];
    // It waits until workers have registered the name.
    let staged = Staged::with("codex", "codex", &variables).await;
    let mut visit = Visit::begin(&staged.url()).await;
    let names = visit.says("environment").await;
    let names: Vec<String> = serde_json::from_str(&names).expect("a list");
    let has = |name: &str| names.iter().any(|one| one == name);
    assert!(has("OPENAI_API_KEY") && has("MINE"), "{names:?}");
    assert!(!has("ANTHROPIC_API_KEY"), "{names:?}");
}

#[test]
fn a_product_that_cannot_run_says_what_to_install() {
    let too_old = products("codex-acp", "v18.20.0");
    let nothing = TempDir::new().expect("a temporary directory");
    for (folder, words) in [
        (&nothing, "npm install -g @agentclientprotocol/codex-acp"),
        (&too_old, "needs Node.js 20 or newer, and"),
    ] {
        let mut serve = baton();
        serve.args(["serve", "--ephemeral", "--listen", "127.0.0.1:0"]);
        let output = serve.args(["--agent", "codex"]).env("PATH", folder.path());
        let output = output.output().expect("baton runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn a_name_that_nobody_knows_comes_with_those_that_are_known() {
    let mut serve = baton();
    let output = serve.args(["serve", "--agent", "cluade"]).output();
    let output = output.expect("baton runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(said.contains("scripted, llm, claude, codex"), "{said}");
}

#[test]
fn the_list_says_which_are_installed_here() {
    let folder = products("codex-acp", "v22.1.0");
    let printed = |arguments: &[&str]| {
        let mut agents = baton();
        let output = agents.arg("agents").args(arguments);
        let output = output.env("PATH", folder.path()).output();
        String::from_utf8(output.expect("baton runs").stdout).expect("text")
    };
    let document: Value = serde_json::from_str(&printed(&["--json"])).expect("JSON");
    let agents = document["agents"].as_array().expect("a list");
    let installed = agents.iter().filter(|agent| agent["installed"] == true);
    let installed: Vec<&Value> = installed.map(|agent| &agent["name"]).collect();
    assert_eq!(installed, ["codex"]);
    let table = printed(&[]);
    for agent in agents {
        let name = agent["name"].as_str().expect("a name");
        let line = table.lines().find(|line| line.starts_with(name));
        let line = line.unwrap_or_else(|| panic!("no {name} in\n{table}"));
        assert!(line.contains(agent["install"].as_str().expect("a command")));
        assert_eq!(line.contains(" yes "), name == "codex", "{line}");
    }
}

/// It is started to learn what it is, when there is no session and so no directory of one.
#[tokio::test]
async fn a_product_that_writes_where_it_starts_can_start() {
    let folder = products("codex-acp", "v22.1.0");
    let command = actor("").trim_start_matches("stdio:").to_owned();
    let script = format!("file=$(mktemp -p .) && rm $file || exit 1\nexec {command}");
    write(folder.path(), "codex-acp", &script);
    let agent = format!("stdio:{}/codex-acp", folder.path().display());
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agents");
    let tests = tests.display().to_string();
    let baton = served_by(&agent, &["--agent-sandbox-read", &tests]).await;
    let mut visit = Visit::begin(&baton.url()).await;
    assert_eq!(visit.says("where").await, "/tmp");
}
