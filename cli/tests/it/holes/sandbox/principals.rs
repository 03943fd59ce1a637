//! Each caller has a workspace and a HOME of its own.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::hostile::{comes_away_with_nothing, hostile, new_in, visit_in};
use crate::support::auth::{ALICE, BOB, write_keys};
use crate::support::process::baton;
use crate::support::{Client, Cluster, Served, until};

#[tokio::test]
async fn m1_callers_have_workspaces_and_homes_of_their_own() {
    let (dir, secrets) = (
        TempDir::new().expect("a directory"),
        TempDir::new().expect("a directory"),
    );
    for name in ["work", "home"] {
        fs::create_dir(dir.path().join(name)).expect("the directory is writable");
    }
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (root, home) = (path("work/{principal}"), path("home/{principal}"));
    let (agent, keys) = (hostile(), write_keys(secrets.path()));
    let baton = Served::start_with(&[
        "--auth",
        "keys",
        "--auth-keys",
        &keys,
        "--agent",
        &agent,
        "--workspace-root",
        &root,
        "--agent-home",
        &home,
    ])
    .await;
    // The first session makes the folder, so that it can be used from then on.
    let (alices, bobs) = (path("work/key=alice"), path("work/key=bob"));
    let mut alice = visit_in(&baton.url(), ALICE, &alices).await;
    comes_away_with_nothing(&mut alice, json!({ "own": [alices] })).await;
    fs::write(format!("{alices}/diary"), "dear diary").expect("it is there");
    fs::write(path("home/key=alice/token"), "alice's").expect("it is there");
    for private in ["work/key=alice", "home/key=alice"] {
        let mode = fs::metadata(dir.path().join(private))
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o700, "{private}");
    }
    let client = Client::with_key(&baton.url(), BOB).await;
    for (cwd, more) in [
        (&alices, &bobs),
        (&bobs, &alices),
        (&path("work"), &bobs),
        (&format!("{bobs}/../key=alice"), &bobs),
    ] {
        let answer = new_in(&client, cwd, &[more]).await;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(
            message.contains("--workspace-root"),
            "{cwd} {more}: {answer}"
        );
    }
    let mut bob = visit_in(&baton.url(), BOB, &bobs).await;
    let orders = json!({
        "files": [format!("{alices}/diary"), path("home/key=alice/token")],
        "folders": [alices, path("home/key=alice"), path("work"), path("home")],
        "own": [bobs],
    });
    comes_away_with_nothing(&mut bob, orders).await;
}

#[tokio::test]
async fn m1_workers_of_a_cluster_know_whose_a_session_is() {
    let dir = TempDir::new().expect("a directory");
    let root = dir.path().join("{principal}").display().to_string();
    let cluster = Cluster::start_with_keys().await;
    let _worker = cluster.worker_with(2, |command| {
        command.env("BATON_AGENT_NAME", "rooted");
        command.env("BATON_WORKSPACE_ROOT", &root);
    });
    let url = format!("{}/rooted", cluster.url());
    until("the agent is there", async || {
        Client::try_with_key(&url, ALICE).await
    })
    .await;
    let alices = dir.path().join("key=alice").display().to_string();
    let answer = |key: &'static str| {
        let (url, alices) = (url.clone(), alices.clone());
        async move { new_in(&Client::with_key(&url, key).await, &alices, &[]).await }
    };
    let alice: Value = answer(ALICE).await;
    assert!(alice.get("result").is_some(), "{alice}");
    let bob: Value = answer(BOB).await;
    let message = bob["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("--workspace-root"), "{bob}");
}

#[test]
fn m1_bad_options_are_named() {
    let output = baton()
        .args([
            "serve",
            "--agent-scope",
            "shared",
            "--workspace-root",
            "/tmp/{principal}",
        ])
        .args(["--agent-home", "/tmp/x-{principal}"])
        .output()
        .expect("baton runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{said}");
    for fault in [
        "--workspace-root with {principal}",
        "--agent-home /tmp/x-{principal}",
    ] {
        assert!(said.contains(fault), "{fault}: {said}");
    }
    let output = baton()
        .args([
            "serve",
            "--agent-warm",
            "1",
            "--agent-home",
            "/tmp/{principal}",
        ])
        .output()
        .expect("baton runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("--agent-home with {principal}"), "{said}");
}
