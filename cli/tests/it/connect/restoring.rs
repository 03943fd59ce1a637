//! A connection that is over is replaced, with its sessions. What cannot be had any more is told.

use super::editor::Editor;
use crate::revocation::revoke;
use crate::support::Served;
use crate::support::process::free_port;
use crate::support::sse::counted;

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

#[tokio::test]
async fn a_turn_whose_answer_is_lost_ends_with_an_error_and_its_words_go_on() {
    let (baton, revoke_all) = served().await;
    let mut editor = Editor::open(&baton.url(), &[]).await;
    let session = editor.new_session().await;
    let id = editor.prompt(&session, "/permission\n/count 3").await;
    let question = loop {
        let message = editor.next().await;
        if message["method"] == "session/request_permission" {
            break message;
        }
    };
    revoke_all();
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
