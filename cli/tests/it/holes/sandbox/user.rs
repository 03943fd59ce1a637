//! Agents that are another user.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use serde_json::json;
use tempfile::TempDir;

use super::hostile::{comes_away_with_nothing, hostile, new_in};
use crate::stdio::Visit;
use crate::support::auth::{ALICE, write_keys};
use crate::support::process::baton;
use crate::support::{Client, Served};

fn are_root() -> bool {
    fs::metadata("/proc/self").expect("ourselves").uid() == 0
}

fn refused(user: &str) -> String {
    let output = baton()
        .args(["serve", "--agent-user", user])
        .output()
        .expect("baton runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(said.contains(&format!("--agent-user {user:?}")), "{said}");
    said
}

/// Who is not root hears that only root can.
#[tokio::test]
async fn f3_agents_run_as_another_user() {
    if !are_root() {
        assert!(refused("nobody").contains("only root"));
        return;
    }
    refused("root");
    refused("nobody-of-that-name");
    let dir = TempDir::new_in("/var/tmp").expect("a directory");
    let open = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    fs::set_permissions(dir.path(), open).expect("it is ours");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let agent = hostile().replace("python3", "/usr/bin/python3");
    let (root, home) = (path("{principal}/work"), path("{principal}"));
    let private = TempDir::new().expect("a directory");
    let keys = write_keys(private.path());
    let arguments = [
        "--ephemeral",
        "--auth",
        "keys",
        "--auth-keys",
        &keys,
        "--agent",
        &agent,
        "--agent-user",
        "nobody",
        "--workspace-root",
        &root,
        "--agent-home",
        &home,
    ];
    let baton = Served::start_with(&arguments).await;
    let client = Client::with_key(&baton.url(), ALICE).await;
    // The refusal names the caller's own.
    let refusal = new_in(&client, "/tmp", &[]).await["error"]["message"].to_string();
    let work = refusal
        .split("\\\"")
        .find(|part| part.ends_with("/work"))
        .unwrap_or_else(|| panic!("{refusal}"));
    let answer = new_in(&client, work, &[]).await;
    let session = answer["result"]["sessionId"]
        .as_str()
        .unwrap_or_else(|| panic!("{answer}"))
        .to_owned();
    let mut visit = Visit::of(client, session).await;
    comes_away_with_nothing(&mut visit, json!({ "own": [work] })).await;
    let agents = crate::stdio::descendants(&baton.process.id().to_string());
    let status =
        |pid: &String| fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = |status: &str, name: &str| {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name).map(str::to_owned));
        line.unwrap_or_default().trim().to_owned()
    };
    let theirs: Vec<_> = agents
        .iter()
        .map(status)
        .filter(|status| line(status, "Name:").starts_with("python"))
        .collect();
    assert!(!theirs.is_empty());
    for status in theirs {
        assert!(
            line(&status, "Uid:").starts_with("65534\t65534\t65534"),
            "{status}"
        );
        assert_eq!(line(&status, "Groups:"), "", "{status}");
    }
}
