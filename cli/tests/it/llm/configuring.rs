//! The file of `--llm-config`: several endpoints and models, prices, limits and rules.

use std::path::Path;

use serde_json::json;
use tempfile::TempDir;

use super::editor::Editor;
use super::{reads, runs};
use crate::support::Served;
use crate::support::model_server::{ModelScript, ModelServer, WireProtocol};
use crate::support::process::baton;

struct Configured {
    near: ModelServer,
    far: ModelServer,
    baton: Served,
    _dir: TempDir,
}

fn write(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    std::fs::write(&path, text).expect("the directory is writable");
    path.to_str().expect("a path").to_owned()
}

/// Two endpoints with a model each, and what else the file says.
async fn configured(more: &str) -> Configured {
    let (near, far) = (ModelServer::start().await, ModelServer::start().await);
    let dir = TempDir::new().expect("a temporary directory");
    let key = write(dir.path(), "key", "far-key\n");
    let file = format!(
        r#"
{more}

[endpoints.near]
url = "{}"
headers = {{ X-Team = "a" }}

[endpoints.far]
url = "{}"
protocol = "anthropic"
key-file = "{key}"

[[models]]
name = "small"
endpoint = "near"
context = 4_000

[[models]]
id = "large"
name = "large-2026"
title = "The large one"
endpoint = "far"
max-output = 77
prices = {{ input = 100_000, output = 200_000 }}
"#,
        near.url(WireProtocol::Chat),
        far.url(WireProtocol::Anthropic),
    );
    let file = write(dir.path(), "llm.toml", &file);
    let arguments = ["--agent", "llm", "--llm-config", &file, "--ephemeral"];
    let baton = Served::start_with(&arguments).await;
    Configured {
        near,
        far,
        baton,
        _dir: dir,
    }
}

#[tokio::test]
async fn a_conversation_goes_on_at_another_provider() {
    let scene = configured("").await;
    let mut editor = Editor::begin(&scene.baton.url()).await;
    scene.near.then(reads("/tmp/a"));
    scene.near.then(ModelScript::text("It is pineapple."));
    editor.files.insert("/tmp/a".into(), "pineapple".into());
    editor.turn("What is the word?").await;
    let usage = editor.updates("usage_update");
    assert_eq!(usage[1]["size"], 4000);
    assert_eq!(
        usage[1]["cost"],
        json!({ "amount": 0.0, "currency": "USD" })
    );
    assert_eq!(scene.near.call(0).await.headers["x-team"], "a");
    let chosen = json!({ "configId": "model", "value": "large" });
    let answer = editor.call("session/set_config_option", chosen).await;
    let options = &answer["result"]["configOptions"][0]["options"];
    assert_eq!(options[1]["name"], "The large one", "{answer}");
    scene.far.then(ModelScript::text("Yes.").usage(10, 5));
    editor.turn("Are you sure?").await;
    let call = scene.far.call(0).await;
    assert_eq!(
        (call.model(), &call.body["max_tokens"]),
        ("large-2026", &json!(77))
    );
    assert_eq!(call.headers["x-api-key"], "far-key");
    assert!(
        call.body.to_string().contains("pineapple"),
        "{:?}",
        call.body
    );
    // Ten tokens at ten cents, five at twenty.
    let last = editor.updates("usage_update").pop().expect("an update");
    assert_eq!(last["cost"], json!({ "amount": 2.0, "currency": "USD" }));
    editor.turn("/model small").await;
    scene.near.then(ModelScript::text("Here again."));
    editor.turn("And you?").await;
    assert_eq!(scene.near.calls().len(), 3);
    assert!(editor.said().ends_with("Here again."));
}

#[tokio::test]
async fn a_turn_and_a_session_use_no_more_than_they_may() {
    let limits = "[limits.turn]\ntokens = 30\n[limits.session]\ntokens = 100\n";
    let scene = configured(limits).await;
    let mut editor = Editor::begin(&scene.baton.url()).await;
    // Fifteen tokens each.
    scene.near.always(|_| reads("/none"));
    let answer = editor.turn("For ever").await;
    assert_eq!(
        answer["result"]["stopReason"], "max_turn_requests",
        "{answer}"
    );
    assert_eq!(scene.near.calls().len(), 2);
    assert!(
        editor.said().contains("has used 30 tokens"),
        "{}",
        editor.said()
    );
    for _ in 0..2 {
        editor.turn("Go on").await;
    }
    assert_eq!(scene.near.calls().len(), 6);
    // 90 tokens are used, so one more call is possible.
    let answer = editor.turn("Go on").await;
    assert_eq!(answer["error"]["data"]["kind"], "session_limit", "{answer}");
    assert_eq!(scene.near.calls().len(), 7);
    let answer = editor.turn("Go on").await;
    assert_eq!(answer["error"]["data"]["retryable"], false, "{answer}");
    assert_eq!(scene.near.calls().len(), 7);
}

#[tokio::test]
async fn a_turn_takes_no_longer_than_it_may() {
    let scene = configured("[limits.turn]\nseconds = 4\n").await;
    let mut editor = Editor::begin(&scene.baton.url()).await;
    editor.silent = &["terminal/wait_for_exit"];
    scene.near.then(runs("sleep 1000"));
    let answer = editor.turn("Sleep").await;
    assert_eq!(
        answer["result"]["stopReason"], "max_turn_requests",
        "{answer}"
    );
    assert!(
        editor.said().contains("has taken 4 seconds"),
        "{}",
        editor.said()
    );
    assert_eq!(editor.requests("terminal/release"), 1);
}

#[tokio::test]
async fn rules_of_the_operator_overrule_modes() {
    let rules =
        "[modes.code]\nallow = [\"run_*\"]\nask = [\"read_file\"]\nhide = [\"write_file\"]\n";
    let scene = configured(rules).await;
    let mut editor = Editor::begin(&scene.baton.url()).await;
    scene.near.then(runs("make")).then(reads("/none"));
    scene.near.then(ModelScript::text("Done."));
    editor.turn("Make it").await;
    assert_eq!(editor.commands, ["make"]);
    assert_eq!(editor.requests("session/request_permission"), 1);
    let tools = scene.near.call(0).await;
    let expected = ["read_file", "edit_file", "run_command", "update_plan"];
    assert_eq!(tools.tools(), expected);
}

#[tokio::test]
async fn calls_that_only_look_are_made_at_the_same_time() {
    let scene = configured("").await;
    let mut editor = Editor::begin(&scene.baton.url()).await;
    editor.silent = &["fs/read_text_file"];
    let read = |path: &str| json!({ "path": path }).to_string();
    let both = reads("/tmp/a").and_call("read_file", &read("/tmp/b"));
    scene
        .near
        .then(both.and_call("run_command", r#"{"command":"make"}"#));
    scene.near.then(ModelScript::text("Done."));
    for name in ["a", "b"] {
        editor.files.insert(format!("/tmp/{name}"), name.into());
    }
    let id = editor.ask("Look").await;
    let first = editor.asked("fs/read_text_file").await;
    let second = editor.asked("fs/read_text_file").await;
    // The command waits for both.
    assert!(editor.commands.is_empty());
    editor.silent = &[];
    editor.reply(&second).await;
    editor.reply(&first).await;
    editor.answer(&id).await;
    let told: Vec<String> = scene
        .near
        .call(1)
        .await
        .tool_results()
        .into_iter()
        .map(|it| it.1)
        .collect();
    assert_eq!(told[..2], ["a", "b"]);
    assert_eq!(editor.commands, ["make"]);
}

#[test]
fn a_file_with_faults_is_refused_with_all_of_them() {
    let dir = TempDir::new().expect("a temporary directory");
    let text = "stepps = 3\n[endpoints.a]\nurl = \"http://a\"\n[[models]]\nnmae = \"m\"\n";
    let file = write(dir.path(), "llm.toml", text);
    let output = baton()
        .args([
            "serve",
            "--ephemeral",
            "--agent",
            "llm",
            "--llm-config",
            &file,
        ])
        .args(["--llm-url", "http://127.0.0.1:1"])
        .output()
        .expect("baton runs");
    assert_eq!(output.status.code(), Some(64));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    for part in [
        "llm.toml:1: stepps: unknown key; did you mean steps?",
        "llm.toml:4: [[models]]: name is missing",
        "--llm-url: with --llm-config the file says that",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}
