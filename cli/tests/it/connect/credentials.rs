//! Who calls: a credential from a file, a variable or a command, and a newer one when it is needed.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::editor::Editor;
use crate::support::auth::{ALICE, write_keys};
use crate::support::http::bearing;
use crate::support::process::baton;
use crate::support::sse::counted;
use crate::support::{Served, until};

/// A server for alice and bob, and a place for files.
async fn guarded() -> (Served, TempDir) {
    let dir = TempDir::new().expect("a temporary directory");
    let keys = write_keys(dir.path());
    let baton = Served::start_with(&["--auth", "keys", "--auth-keys", &keys]).await;
    (baton, dir)
}

async fn works(mut editor: Editor) {
    let answer = editor.initialize().await;
    assert!(answer.get("result").is_some(), "{answer}");
    let session = editor.new_session().await;
    assert_eq!(editor.turn(&session, "/count 2").await.said, counted(2, 1));
}

fn written(dir: &Path, text: &str) -> String {
    let path = dir.join("credential");
    fs::write(&path, text).expect("the directory is writable");
    path.display().to_string()
}

#[tokio::test]
async fn a_credential_comes_from_a_file_a_variable_or_a_command() {
    let (baton, dir) = guarded().await;
    let file = written(dir.path(), &format!("{ALICE}\n"));
    let url = &baton.url();
    works(Editor::start(&[url, "--credential-file", &file], &[])).await;
    works(Editor::start(&[url], &[("BATON_CREDENTIAL", ALICE)])).await;
    let command = format!("echo {ALICE}");
    works(Editor::start(&[url, "--credential-command", &command], &[])).await;
}

#[tokio::test]
async fn a_credential_that_is_missing_or_wrong_is_told() {
    let (baton, _dir) = guarded().await;
    let url = &baton.url();
    let failing = [url, "--credential-command", "exit 7"];
    for (arguments, variables, hint) in [
        (&[url.as_str()][..], &[][..], "--credential-file"),
        (
            &[url.as_str()],
            &[("BATON_CREDENTIAL", "bk_nobody")],
            "credential",
        ),
        (&failing, &[], "exit status: 7"),
    ] {
        let mut editor = Editor::start(arguments, variables);
        let answer = editor.initialize().await;
        assert_eq!(answer["error"]["code"], 4007, "{answer}");
        let text = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(text.contains(hint), "{answer}");
    }
}

#[test]
fn faults_of_the_command_line_are_all_named() {
    let mut command = baton();
    command.args([
        "connect",
        "example.com",
        "--ca",
        "/nowhere.pem",
        "--give-up",
        "1ms",
    ]);
    command.args(["--credential-file", "a", "--credential-command", "b"]);
    let output = command.output().expect("baton runs");
    assert_eq!(output.status.code(), Some(64));
    let said = String::from_utf8_lossy(&output.stderr);
    for name in ["example.com", "--ca", "--give-up", "--credential-command"] {
        assert!(said.contains(name), "{name}: {said}");
    }
    assert!(output.stdout.is_empty());
}

/// A new key of alice, and its entry for the server.
fn new_key() -> (String, Value) {
    let mut command = baton();
    command.args(["token", "api-key", "--principal", "alice"]);
    let output = command.output().expect("baton runs");
    let made: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let key = made["key"].as_str().expect("a key");
    (key.to_owned(), made["entry"].clone())
}

#[tokio::test]
async fn a_key_that_was_rotated_is_picked_up() {
    let (baton, dir) = guarded().await;
    let file = written(dir.path(), ALICE);
    let url = &baton.url();
    let mut editor = Editor::start(&[url, "--credential-file", &file], &[]);
    editor.initialize().await;
    let session = editor.new_session().await;
    assert_eq!(editor.turn(&session, "/count 2").await.said, counted(2, 1));

    let (key, entry) = new_key();
    written(dir.path(), &key);
    let keys = json!({ "keys": [entry] }).to_string();
    let (half, whole) = (dir.path().join("half"), dir.path().join("api-keys.json"));
    fs::write(&half, keys).expect("the directory is writable");
    fs::rename(half, whole).expect("the directory is writable");
    until("the old key is refused", async || {
        let old = bearing(ALICE).delete(url).send().await.ok()?;
        (old.status() == reqwest::StatusCode::UNAUTHORIZED).then_some(())
    })
    .await;
    assert_eq!(editor.turn(&session, "/count 3").await.said, counted(3, 2));
}
