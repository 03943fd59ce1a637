//! What judges the server's messages must notice a wrong one.

use serde_json::{Value, json};

use crate::support::schema::Conversations;

/// Whether the message passes, on a connection that has sent these requests with the ids 1, 2, …
fn passes(asked: &[&str], message: Value) -> bool {
    let talk = Conversations::default();
    for (id, method) in (1..).zip(asked) {
        talk.sent("a", &json!({ "id": id, "method": method }));
    }
    talk.judge("a", &message).is_ok()
}

fn update(update: Value) -> Value {
    let params = json!({ "sessionId": "s", "update": update });
    json!({ "jsonrpc": "2.0", "method": "session/update", "params": params })
}

fn result(id: u64, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

#[test]
fn an_answer_is_judged_by_the_method_that_was_asked() {
    let asked = ["session/new", "session/prompt"];
    assert!(passes(&asked, result(1, json!({ "sessionId": "s" }))));
    assert!(passes(
        &asked,
        result(2, json!({ "stopReason": "end_turn" }))
    ));
    assert!(!passes(
        &asked,
        result(1, json!({ "stopReason": "end_turn" }))
    ));
    assert!(!passes(&asked, result(2, json!({ "sessionId": "s" }))));
    assert!(!passes(&asked, result(2, json!({ "stopReason": "tired" }))));
    assert!(!passes(&asked, result(1, json!({ "sessionId": 7 }))));
    assert!(!passes(&asked, result(3, json!({}))), "nobody asked");
    assert!(!passes(&["session/dance"], result(1, json!({}))));
    assert!(passes(&["session/set_model"], result(1, json!({}))));
    assert!(!passes(&["session/set_model"], result(1, json!(null))));
}

#[test]
#[should_panic(expected = "breaks the protocol")]
fn a_reader_fails_over_a_wrong_message() {
    let talk = Conversations::default();
    talk.received(
        "a",
        &json!({ "jsonrpc": "2.0", "method": "session/update" }),
    );
}

#[test]
fn an_id_used_twice_has_the_answer_of_either() {
    let talk = Conversations::default();
    talk.sent("a", &json!({ "id": 1, "method": "session/new" }));
    talk.sent("a", &json!({ "id": 1, "method": "session/prompt" }));
    talk.received("a", &result(1, json!({ "stopReason": "end_turn" })));
    talk.received("a", &result(1, json!({ "sessionId": "s" })));
}

#[test]
fn an_error_has_a_code_and_a_message() {
    let error = |error: Value| json!({ "jsonrpc": "2.0", "id": null, "error": error });
    assert!(passes(&[], error(json!({ "code": 4003, "message": "m" }))));
    assert!(!passes(&[], error(json!({ "code": 4003 }))));
    assert!(!passes(
        &[],
        error(json!({ "code": "4003", "message": "" }))
    ));
    let mut both = error(json!({ "code": 4003, "message": "m" }));
    both["result"] = json!({});
    assert!(!passes(&[], both));
}

#[test]
fn what_the_agent_says_and_asks_is_judged() {
    let text = json!({ "type": "text", "text": "hello" });
    let chunk = json!({ "sessionUpdate": "agent_message_chunk", "content": text });
    assert!(passes(&[], update(chunk.clone())));
    let mut unversioned = update(chunk);
    unversioned["jsonrpc"] = json!("1.0");
    assert!(!passes(&[], unversioned));
    let wrong = [
        json!({ "sessionUpdate": "agent_message_chunk" }),
        json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": 1 } }),
        json!({ "sessionUpdate": "plan", "entries": [{ "content": "look" }] }),
        json!({ "sessionUpdate": "dance" }),
    ];
    for wrong in wrong {
        assert!(!passes(&[], update(wrong)));
    }
    let ask = |method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": "q", "method": method, "params": params });
    let path = json!({ "sessionId": "s", "path": "/a" });
    assert!(passes(&[], ask("fs/read_text_file", path.clone())));
    assert!(!passes(&[], ask("fs/write_text_file", path.clone())));
    assert!(!passes(&[], ask("session/prompt", path)), "not of an agent");
}

#[test]
fn a_kind_that_was_announced_is_let_through_on_that_connection_alone() {
    let talk = Conversations::default();
    talk.tolerate("a", "dance");
    let dance = update(json!({ "sessionUpdate": "dance" }));
    talk.received("a", &dance);
    assert!(talk.judge("b", &dance).is_err());
}
