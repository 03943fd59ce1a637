//! A server that is away for too long: whoever waits is told, and it goes on when the server is back.

use serde_json::{Value, json};

use super::editor::Editor;
use crate::support::Served;
use crate::support::cluster::url;
use crate::support::http::new_session;
use crate::support::process::free_port;
use crate::support::sse::counted;

const UNREACHABLE: i64 = 5010;

fn text(answer: &Value) -> &str {
    answer["error"]["message"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn requests_that_wait_are_answered_when_the_server_stays_away() {
    let mut baton = Served::start().await;
    let mut editor = Editor::open(&baton.url(), &["--give-up", "2s"]).await;
    let session = editor.new_session().await;
    let waiting = editor.prompt(&session, "/count 20 delay=100").await;
    editor.next().await;
    baton.process.kill();
    let turn = editor.rest(&waiting).await;
    assert_eq!(turn.answer["error"]["code"], UNREACHABLE, "{turn:?}");
    assert!(
        text(&turn.answer).contains("may still be carried out"),
        "{turn:?}"
    );
    // From then on nobody has to wait for so long.
    let id = editor.prompt(&session, "/count 3").await;
    let refused = editor.answer(&id).await;
    assert_eq!(refused["error"]["code"], UNREACHABLE, "{refused}");

    baton.kill_and_restart().await;
    // Until it has noticed that the server is back.
    let said = loop {
        let id = editor.prompt(&session, "/count 3").await;
        let turn = editor.rest(&id).await;
        if turn.answer.get("error").is_none() {
            break turn.said;
        }
    };
    // The answer to what was given up must not come: nobody knows that id any more. The words do.
    let second = said.iter().position(|chunk| chunk.contains("of 3, "));
    let before = &said[..second.expect("the second turn")];
    assert_eq!(*before, counted(20, 1)[20 - before.len()..], "{said:?}");
    assert_eq!(editor.close().await.0, Some(0));
}

#[tokio::test]
async fn a_server_that_was_never_there_is_an_answer_to_initialize() {
    let nowhere = url(free_port());
    let mut editor = Editor::start(&[&nowhere, "--give-up", "1s"], &[]);
    let answer = editor.initialize().await;
    assert_eq!(answer["error"]["code"], UNREACHABLE, "{answer}");
    assert!(text(&answer).contains("onnection refused"), "{answer}");
    editor.send(new_session(json!(1))).await;
    let answer = editor.answer(&json!(1)).await;
    assert!(text(&answer).contains("initialize"), "{answer}");
    // It may try again.
    let answer = editor.initialize().await;
    assert_eq!(answer["error"]["code"], UNREACHABLE, "{answer}");
}

#[tokio::test]
async fn what_is_no_endpoint_is_told_at_once() {
    let baton = Served::start().await;
    let mut editor = Editor::start(&[&baton.url().replace("/acp", "/elsewhere")], &[]);
    let answer = editor.initialize().await;
    assert!(text(&answer).contains("/acp"), "{answer}");
    editor.send_line("this is no message").await;
    assert_eq!(editor.next().await["error"]["code"], -32700);
    assert_eq!(editor.close().await.0, Some(0));
}
