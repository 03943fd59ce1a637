//! MCP servers that live in the client.

use serde_json::{Value, json};

use super::editor::Editor;
use super::staged;
use crate::support::model_server::ModelScript;

fn servers() -> Value {
    json!([{ "type": "acp", "name": "c", "serverId": "srv-1" }])
}

fn is_call(message: &Value) -> bool {
    message["method"] == "mcp/message" && message["params"]["method"] == "tools/call"
}

#[tokio::test]
async fn a_tool_in_the_client_is_called_once_although_its_worker_dies() {
    let (model, mut staged) = staged().await;
    let mut editor = Editor::begin_with(&staged.url(), json!({}), servers()).await;
    model
        .then(ModelScript::call("c__count", &json!({ "by": 1 })))
        .then(ModelScript::text("Counted."));
    // The first is the list of tools.
    editor.hold = Some(("mcp/message", 2));
    let id = editor.ask("Count").await;
    while editor.held.is_none() {
        editor.next().await;
    }
    let held = editor.held.clone().expect("just found");
    assert!(is_call(&held), "{held}");
    assert_eq!(held["params"]["params"]["arguments"], json!({ "by": 1 }));
    let progress = |text: &str| {
        let params = json!({
            "serverId": "srv-1", "requestId": held["params"]["requestId"],
            "method": "notifications/progress",
            "params": { "progress": 1, "total": 2, "message": text },
        });
        json!({ "jsonrpc": "2.0", "method": "mcp/message", "params": params })
    };
    editor.client.post(progress("half")).await;
    while !editor.shows("1 of 2: half") {
        editor.next().await;
    }
    let holder = staged.holder(&editor.session);
    staged.workers[holder].kill();
    editor.let_go().await;
    let answer = editor.answer(&id).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!(editor.commands, ["count"]);
    assert_eq!(
        editor.outcomes(),
        [("completed".to_owned(), "count is 1".to_owned())]
    );
    assert_eq!(editor.seen.iter().filter(|it| is_call(it)).count(), 1);
    assert_eq!(editor.said(), "Counted.");
}

#[tokio::test]
async fn a_list_of_tools_that_changes_is_asked_for_again() {
    let (model, staged) = staged().await;
    let mut editor = Editor::begin_with(&staged.url(), json!({}), servers()).await;
    model.always(|_| ModelScript::text("ok"));
    editor.turn("One").await;
    editor.turn("Two").await;
    assert_eq!(editor.requests("mcp/message"), 1);
    // Notices are routed by a request of the agent's.
    let params = json!({
        "serverId": "srv-1", "requestId": format!("{}:x", editor.session),
        "method": "notifications/tools/list_changed", "params": {},
    });
    let changed = json!({ "jsonrpc": "2.0", "method": "mcp/message", "params": params });
    editor.client.post(changed).await;
    editor.turn("Three").await;
    assert_eq!(editor.requests("mcp/message"), 2);
    assert_eq!(model.calls()[2].tools(), ["update_plan", "c__count"]);
}
