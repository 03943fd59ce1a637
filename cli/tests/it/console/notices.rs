//! `_baton/turn`: clients that ask for it hear what turns do, whoever has asked for them.

use serde_json::{Value, json};

use crate::support::Served;
use crate::support::http::{load, new_session, prompt};
use crate::support::websocket::Socket;

async fn open(url: &str, asks: bool) -> Socket {
    let mut socket = Socket::open(url, false).await;
    let capabilities = json!({ "_meta": { "baton/turns": asks } });
    let params = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
    socket
        .send(json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }))
        .await;
    assert!(socket.next().await["result"].is_object());
    socket
}

/// Everything up to the message that `ends` is true for.
async fn upto(socket: &mut Socket, ends: impl Fn(&Value) -> bool) -> Vec<Value> {
    let mut messages = Vec::new();
    loop {
        let message = socket.next().await;
        messages.push(message.clone());
        if ends(&message) {
            return messages;
        }
    }
}

fn notices(messages: &[Value]) -> Vec<Value> {
    let notices = messages.iter().filter(|it| it["method"] == "_baton/turn");
    notices
        .map(|it| {
            let mut params = it["params"].clone();
            let fields = params.as_object_mut().unwrap();
            fields.remove("sessionId");
            let turn = fields.remove("turn");
            assert_eq!(turn.is_some(), fields.contains_key("own"), "{it}");
            params
        })
        .collect()
}

fn ended(message: &Value) -> bool {
    message["params"]["state"] == "idle"
}

#[tokio::test]
async fn a_client_that_asks_hears_what_the_turns_of_others_do() {
    let baton = Served::start().await;
    let mut own = open(&baton.url(), true).await;
    own.send(new_session(json!(1))).await;
    let created = upto(&mut own, |it| it["id"] == 1).await;
    let session = created.last().unwrap()["result"]["sessionId"]
        .as_str()
        .unwrap()
        .to_owned();

    let mut other = open(&baton.url(), true).await;
    other.send(load(json!("l"), &session)).await;
    let joined = upto(&mut other, |it| it["id"] == "l").await;
    assert_eq!(notices(&joined), [json!({ "state": "idle" })]);
    let mut silent = open(&baton.url(), false).await;
    silent.send(load(json!("l"), &session)).await;
    upto(&mut silent, |it| it["id"] == "l").await;

    own.send(prompt(json!(2), &session, "/permission\nthanks"))
        .await;
    let is_question = |it: &Value| it["method"] == "session/request_permission";
    let mut seen = upto(&mut own, is_question).await;
    let id = seen.last().unwrap()["id"].clone();
    // A client that joins now is told that it waits, and for what.
    let mut late = open(&baton.url(), true).await;
    late.send(load(json!("l"), &session)).await;
    let told = notices(&upto(&mut late, |it| it["id"] == "l").await);
    let waits = json!({ "state": "waiting", "asked": id });
    assert_eq!(told.last(), Some(&waits), "{told:?}");

    let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } });
    own.send(json!({ "jsonrpc": "2.0", "id": id, "result": outcome }))
        .await;
    seen.extend(upto(&mut own, |it| it["id"] == 2).await);
    let rest = [
        waits,
        json!({ "state": "working", "answered": id }),
        json!({ "state": "idle", "stopReason": "end_turn" }),
    ];
    let mut expected = vec![json!({ "state": "working", "own": true })];
    expected.extend(rest.clone());
    assert_eq!(notices(&seen), expected);
    let mut expected = vec![json!({ "state": "working", "own": false })];
    expected.extend(rest);
    assert_eq!(notices(&upto(&mut other, ended).await), expected);

    // The history has them, too; a client that did not ask hears nothing of all this.
    let mut reader = open(&baton.url(), true).await;
    reader.send(load(json!("l"), &session)).await;
    let history = notices(&upto(&mut reader, |it| it["id"] == "l").await);
    let stop = json!({ "state": "idle", "stopReason": "end_turn" });
    assert!(history.contains(&stop), "{history:?}");
    assert_eq!(history.last(), Some(&json!({ "state": "idle" })));
    silent
        .send(json!({ "jsonrpc": "2.0", "id": 9, "method": "session/list", "params": {} }))
        .await;
    let heard = upto(&mut silent, |it| it["id"] == 9).await;
    assert_eq!(notices(&heard), Vec::<Value>::new());
}
