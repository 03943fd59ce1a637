//! Who may be told more, and how operators say so.

use serde_json::{Value, json};
use tempfile::TempDir;

use super::call;
use crate::stdio::{Visit, served};
use crate::support::http::Client;
use crate::support::process::baton;

/// What the actor gives back of a prompt's `_meta`, and what it answers to a method of its own.
async fn passes(arguments: &[&str]) -> (Value, Value) {
    let baton = served("", arguments).await;
    // Of its own: a confined session may not reach the administrator's token, which is below /tmp if
    // the sources are.
    let directory = TempDir::new().expect("a temporary directory");
    let client = Client::initialize(&baton.url()).await;
    let new = json!({ "cwd": directory.path(), "mcpServers": [] });
    let opened = call(&client, "0", "session/new", new).await;
    let session = opened["result"]["sessionId"].as_str();
    let session = session.unwrap_or_else(|| panic!("{opened}")).to_owned();
    let visit = Visit::of(client, session).await;
    let text = json!({ "type": "text", "text": "say x" });
    let meta =
        json!({ "example": { "big": 9_007_199_254_740_993_u64 }, "other": 1, "baton/bound": 1 });
    let params = json!({ "sessionId": visit.session, "prompt": [text], "_meta": meta });
    let prompted = call(&visit.client, "1", "session/prompt", params).await;
    let params = json!({ "sessionId": visit.session, "x": 1 });
    let mut echoed = call(&visit.client, "2", "_test/echo", params).await;
    (
        prompted["result"]["_meta"].clone(),
        match echoed["error"]["code"].take() {
            Value::Null => echoed["result"]["x"].take(),
            code => code,
        },
    )
}

#[tokio::test]
async fn f1_on_ones_own_machine_everything_passes_unless_said_otherwise() {
    let all = json!({ "example": { "big": 9_007_199_254_740_993_u64 }, "other": 1 });
    let one = json!({ "example": { "big": 9_007_199_254_740_993_u64 } });
    let (nothing, refused) = (Value::Null, json!(-32601));
    for (arguments, expected) in [
        (&[][..], (&all, json!(1))),
        (&["--allow-agent-meta", "exam*"], (&one, json!(1))),
        (&["--allow-agent-meta", "none"], (&nothing, json!(1))),
        (&["--allow-agent-methods", "none"], (&all, refused.clone())),
        (
            &[
                "--allow-agent-meta",
                "x,example",
                "--allow-agent-methods",
                "_other,_test/*",
            ],
            (&one, json!(1)),
        ),
        // Others are let in.
        (
            &["--allow-host", "baton.example.com"],
            (&nothing, refused.clone()),
        ),
        (
            &["--allow-origin", "https://app.example.com"],
            (&nothing, refused.clone()),
        ),
        (&["--trust-proxy", "127.0.0.1"], (&nothing, refused.clone())),
        (
            &["--allow-host", "*", "--allow-agent-meta", "*"],
            (&all, refused.clone()),
        ),
    ] {
        let (meta, method) = passes(arguments).await;
        assert_eq!((&meta, method), expected, "{arguments:?}");
    }
}

#[test]
fn f1_bad_names_are_all_named() {
    let output = baton()
        .args(["serve", "--ephemeral", "--listen", "127.0.0.1:0"])
        .args(["--allow-agent-meta", "baton/bound,a b"])
        .args(["--allow-agent-methods", "session/new,_x y"])
        .output()
        .expect("baton runs");
    assert_eq!(output.status.code(), Some(64));
    let said = String::from_utf8_lossy(&output.stderr);
    for fault in [
        "--allow-agent-meta \"baton/bound\"",
        "--allow-agent-meta \"a b\"",
        "--allow-agent-methods \"session/new\"",
        "--allow-agent-methods \"_x y\"",
    ] {
        assert!(said.contains(fault), "{fault}: {said}");
    }
}
