//! A connection that is over is replaced, with its sessions. What cannot be had any more is told.

use std::time::Duration;

use baton_client::options::endpoint;
use baton_client::{ClientOptions, Credential, StreamTransport};
use serde_json::{Value, json};

use super::editor::Editor;
use super::middlebox::Middlebox;
use crate::revocation::revoke;
use crate::support::http::{new_session, prompt};
use crate::support::process::free_port;
use crate::support::sse::{chunk_of, counted};
use crate::support::websocket::initialize;
use crate::support::{PATIENCE, Served, within};

/// A server, and how to end all connections there are.
async fn served() -> (Served, impl Fn()) {
    let admin = format!("127.0.0.1:{}", free_port());
    let baton = Served::start_with(&["--admin-listen", &admin]).await;
    let revoke_all = move || revoke(&format!("http://{admin}"), "--principal", "anonymous");
    (baton, revoke_all)
}

#[tokio::test]
async fn sessions_go_on_when_their_connection_was_revoked() {
    let (baton, revoke_all) = served().await;
    for transport in ["websocket", "sse"] {
        let mut editor = Editor::open(&baton.url(), &["--transport", transport]).await;
        let sessions = [editor.new_session().await, editor.new_session().await];
        for session in &sessions {
            assert_eq!(editor.turn(session, "/count 2").await.said, counted(2, 1));
        }
        revoke_all();
        for session in &sessions {
            let turn = editor.turn(session, "/permission\n/count 3").await;
            assert_eq!(turn.answer["result"]["stopReason"], "end_turn", "{turn:?}");
            assert_eq!(turn.asked, 1);
            assert_eq!(turn.said[1..], counted(3, 2));
        }
        assert_eq!(editor.close().await.0, Some(0));
    }
}

/// A turn in the middle of which `over` happens: it ends with an error, and its words go on.
async fn interrupted(mut editor: Editor, over: impl FnOnce()) {
    let session = editor.new_session().await;
    let id = editor.prompt(&session, "/permission\n/count 3").await;
    let question = loop {
        let message = editor.next().await;
        if message["method"] == "session/request_permission" {
            break message;
        }
    };
    over();
    let answer = editor.answer(&id).await;
    assert_eq!(answer["error"]["code"], 5011, "{answer}");
    // The question is still open, and is answered on the new connection. It is not asked twice.
    editor.allow(&question).await;
    let turn = editor.turn(&session, "/count 4").await;
    assert_eq!(turn.asked, 0, "{turn:?}");
    let mut expected = vec!["permission allow_once ".to_owned()];
    expected.extend(counted(3, 1));
    expected.extend(counted(4, 2));
    assert_eq!(turn.said, expected);
}

#[tokio::test]
async fn a_turn_whose_connection_was_revoked_is_told() {
    let (baton, revoke_all) = served().await;
    interrupted(Editor::open(&baton.url(), &[]).await, revoke_all).await;
}

#[tokio::test]
async fn a_turn_whose_stream_was_reset_is_told() {
    let baton = Served::start().await;
    let between = Middlebox::start(&baton.url()).await;
    let editor = Editor::open(&between.url, &["--transport", "sse"]).await;
    interrupted(editor, || between.reset_streams()).await;
    let seen = between.seen();
    assert_eq!(seen.initialized, 2, "{seen:?}");
    assert!(seen.detached > 0, "{seen:?}");
}

#[tokio::test]
async fn an_old_connection_is_replaced_before_the_next_request() {
    let baton = Served::start().await;
    let between = Middlebox::start(&baton.url()).await;
    let mut connection = baton_client::connect(ClientOptions {
        url: endpoint(&between.url).expect("a URL"),
        transport: StreamTransport::Sse,
        credential: Credential::none(),
        ca: None,
        give_up: PATIENCE,
        renew_after: Duration::ZERO,
    })
    .expect("options that work");
    let mut ask = async |message: Value| {
        let id = message["id"].clone();
        let sent = connection.send(message.to_string()).await;
        sent.expect("it is open");
        let mut said = Vec::new();
        loop {
            let message = within("a message", connection.receive()).await;
            let message = serde_json::from_slice(&message.expect("it goes on"));
            let message: Value = message.expect("JSON");
            if message.get("method").is_none() {
                assert_eq!(message["id"], id, "{message}");
                return (said, message["result"].clone());
            }
            said.extend(chunk_of(&message));
        }
    };
    ask(initialize()).await;
    let (_, opened) = ask(new_session(json!(1))).await;
    let session = opened["sessionId"].as_str().expect("an id");
    for number in 1..4 {
        let (said, _) = ask(prompt(json!(number), session, "/count 3")).await;
        assert_eq!(said, counted(3, number));
    }
    let seen = between.seen();
    assert_eq!((seen.initialized, seen.detached), (5, 4), "{seen:?}");
}
