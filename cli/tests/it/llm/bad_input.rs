//! What users, models, endpoints and servers get wrong: each a clear error or a way around it, and
//! nothing is stuck.

use std::path::Path;

use serde_json::{Value, json};

use super::editor::Editor;
use super::served;
use crate::support::model_server::ModelScript;

/// The session works after whatever has happened.
async fn still_works(model: &crate::support::model_server::ModelServer, editor: &mut Editor) {
    model.then(ModelScript::text("Here I am."));
    let answer = editor.turn("Are you there?").await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert!(editor.said().ends_with("Here I am."));
}

#[tokio::test]
async fn each_refusal_of_an_endpoint_says_what_to_do() {
    let (model, baton) = served(&[]).await;
    let mut editor = Editor::begin(&baton.url()).await;
    for (status, said, kind, advice) in [
        (
            404,
            "The model `test-model` does not exist",
            "unknown_model",
            "test-model",
        ),
        (
            400,
            "test-model does not support tools",
            "tools_unsupported",
            "tools",
        ),
        (
            400,
            "This model's maximum context length is 10 tokens",
            "context_too_long",
            "context",
        ),
        (402, "You are out of credit", "quota_spent", "credit"),
        (
            403,
            "Your key may not do this",
            "unauthorized",
            "BATON_LLM_KEY",
        ),
    ] {
        let body = json!({ "error": { "message": said } });
        model.then(ModelScript::error(status, body));
        let answer = editor.turn("Hello").await;
        assert_eq!(answer["error"]["data"]["kind"], kind, "{answer}");
        assert_eq!(answer["error"]["data"]["retryable"], false, "{answer}");
        let text = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(text.contains(said) && text.contains(advice), "{text}");
    }
    still_works(&model, &mut editor).await;
}

#[tokio::test]
async fn a_command_that_never_ends_is_killed_after_its_time() {
    let (model, baton) = served(&[]).await;
    let mut editor = Editor::begin(&baton.url()).await;
    editor.silent = &["terminal/wait_for_exit"];
    let command = json!({ "command": "sleep 1000", "timeout_seconds": 1 });
    model.then(ModelScript::call("run_command", &command));
    model.then(ModelScript::text("It took too long."));
    let answer = editor.turn("Sleep").await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    for method in ["terminal/kill", "terminal/release"] {
        assert_eq!(editor.requests(method), 1, "{method}");
    }
    assert!(editor.outcomes()[0].1.contains("Killed after 1 seconds"));
    still_works(&model, &mut editor).await;
}

fn script(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/mcp-servers")
        .join(name);
    json!({ "name": "s", "command": "python3", "args": [path], "env": [] })
}

#[tokio::test]
async fn a_server_that_floods_its_worker_is_ended_and_started_again() {
    let (model, baton) = served(&["--allow-mcp-stdio", "**"]).await;
    let servers = json!([script("flood.py")]);
    let mut editor = Editor::begin_with(&baton.url(), json!({}), servers).await;
    model.then(ModelScript::call("s__open", &json!({})));
    model.then(ModelScript::text("It failed."));
    let answer = editor.turn("Open it").await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let (status, text) = editor.outcomes().remove(0);
    assert!(
        status == "failed" && text.contains("outcome is unknown"),
        "{text}"
    );
    still_works(&model, &mut editor).await;
    let call = model.calls().pop().expect("a call");
    assert!(call.tools().contains(&"s__open"), "it was started again");
}

#[tokio::test]
async fn a_server_that_cannot_be_started_is_named_to_the_model() {
    let (model, baton) = served(&["--allow-mcp-stdio", "**"]).await;
    let broken = json!({ "name": "broken", "command": "/no/such/program", "args": [], "env": [] });
    let mut editor = Editor::begin_with(&baton.url(), json!({}), json!([broken])).await;
    still_works(&model, &mut editor).await;
    let told = model.call(0).await.body.to_string();
    assert!(
        told.contains("The MCP server broken cannot be used"),
        "{told}"
    );
}
