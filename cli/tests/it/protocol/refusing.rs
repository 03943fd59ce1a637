//! What is asked wrongly, whatever the method.

use serde_json::{Value, json};

use super::attaching::NOBODY;
use super::scene::{Scene, prompt, refused};
use super::{EVERYWHERE, Row, row};

pub fn rows() -> Vec<Row> {
    vec![
        row!(
            "bad input",
            "a session that nobody has is not found, whatever is asked",
            "-32002 names it, for prompt, load, resume, fork, close, set_mode, set_config_option, \
             set_model",
            EVERYWHERE,
            unknown_session
        ),
        row!(
            "bad input",
            "a request about a session names it",
            "-32602 names `params.sessionId` if it is missing",
            EVERYWHERE,
            no_session
        ),
        row!(
            "bad input",
            "a `sessionId` that is no text is refused",
            "an error for a number, null and an object, and the connection goes on",
            EVERYWHERE,
            session_of_wrong_type
        ),
        row!(
            "bad input",
            "fields of commands are required and typed",
            "-32602 names `modeId`, `configId`, `value` or `modelId`; the session is as before",
            EVERYWHERE,
            fields
        ),
        row!(
            "bad input",
            "a prompt of a megabyte is no trouble, an id of one is none either",
            "the text comes back in the history; -32002 for the id",
            EVERYWHERE,
            oversized
        ),
        row!(
            "unknown methods",
            "are not found",
            "-32601 names the method, with and without parameters",
            EVERYWHERE,
            unknown_method
        ),
        row!(
            "unknown methods",
            "extensions that nobody has are not found",
            "-32601 for `_…` with a session and without one; a notification is passed over",
            EVERYWHERE,
            extension
        ),
    ]
}

fn about(session: &Value) -> Vec<(&'static str, Value)> {
    let place = json!({ "sessionId": session, "cwd": "/tmp", "mcpServers": [] });
    let option = json!({ "sessionId": session, "configId": "tone", "value": "formal" });
    let mut say = prompt("", "hello");
    say["sessionId"] = session.clone();
    vec![
        ("session/prompt", say),
        ("session/load", place.clone()),
        ("session/resume", place.clone()),
        ("session/fork", place),
        ("session/close", json!({ "sessionId": session })),
        (
            "session/set_mode",
            json!({ "sessionId": session, "modeId": "ask" }),
        ),
        ("session/set_config_option", option),
        (
            "session/set_model",
            json!({ "sessionId": session, "modelId": "large" }),
        ),
    ]
}

async fn unknown_session(scene: Scene) {
    let peer = scene.peer().await;
    for session in [NOBODY, "nosuchthing", ""] {
        for (method, params) in about(&json!(session)) {
            refused(peer.call(method, params).await, -32002, &[session]);
        }
    }
}

async fn no_session(scene: Scene) {
    let peer = scene.peer().await;
    for (method, mut params) in about(&json!("")) {
        params
            .as_object_mut()
            .expect("an object")
            .remove("sessionId");
        refused(
            peer.call(method, params).await,
            -32602,
            &["params.sessionId"],
        );
    }
}

async fn session_of_wrong_type(scene: Scene) {
    let peer = scene.peer().await;
    for session in [json!(7), json!(null), json!({})] {
        for (method, params) in about(&session) {
            let answer = peer.call(method, params).await;
            refused(answer, -32602, &["params.sessionId"]);
        }
    }
    let session = peer.new_session().await;
    peer.works(&session).await;
}

async fn fields(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    let wrong = [
        ("session/set_mode", json!({}), "modeId"),
        ("session/set_mode", json!({ "modeId": {} }), "modeId"),
        (
            "session/set_config_option",
            json!({ "value": "formal" }),
            "configId",
        ),
        (
            "session/set_config_option",
            json!({ "configId": 7, "value": "formal" }),
            "configId",
        ),
        (
            "session/set_config_option",
            json!({ "configId": "tone" }),
            "value",
        ),
        (
            "session/set_config_option",
            json!({ "configId": "tone", "value": 7 }),
            "value",
        ),
        ("session/set_model", json!({}), "modelId"),
        ("session/set_model", json!({ "modelId": 7 }), "modelId"),
    ];
    let before = scene.peer().await.load(&session).await.1.expect("it loads");
    for (method, mut params, field) in wrong {
        params["sessionId"] = json!(session);
        refused(peer.call(method, params).await, -32602, &[field]);
    }
    let after = scene.peer().await.load(&session).await.1.expect("it loads");
    for shown in ["modes", "configOptions"] {
        assert_eq!(before[shown], after[shown]);
    }
    peer.works(&session).await;
}

async fn oversized(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    let text = format!("/think {}", "x".repeat(1 << 20));
    let turn = peer.prompt(&session, &text).await;
    assert_eq!(turn.stop, "end_turn");
    let history = scene.peer().await.history(&session).await;
    assert_eq!(history[0]["content"]["text"], json!(text));
    // Not in a header: that has its own limit.
    if scene.transport != super::Transport::Streams {
        let id = "a".repeat(1 << 20);
        let answer = peer.call("session/prompt", prompt(&id, "hello")).await;
        refused(answer, -32002, &[]);
    }
}

async fn unknown_method(scene: Scene) {
    let peer = scene.peer().await;
    for method in ["session/dance", "dance", "fs/read_text_file", ""] {
        let answer = peer.call(method, json!({})).await;
        refused(answer, -32601, &[method]);
    }
    let session = peer.new_session().await;
    let answer = peer
        .call("session/dance", json!({ "sessionId": session }))
        .await;
    refused(answer, -32601, &["session/dance"]);
    peer.works(&session).await;
}

async fn extension(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    for params in [
        json!({ "sessionId": session, "x": 1 }),
        json!({ "x": 1 }),
        json!({}),
    ] {
        peer.notify("_example.com/dance", params.clone()).await;
        let answer = peer.call("_example.com/dance", params).await;
        refused(answer, -32601, &["_example.com/dance"]);
    }
    peer.works(&session).await;
}
