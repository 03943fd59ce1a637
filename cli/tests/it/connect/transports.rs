//! Every way to the server: WebSocket, SSE, through a proxy, with TLS, past something that lets only one through.

use super::editor::Editor;
use super::middlebox::{Middlebox, Tunnel};
use crate::support::Served;
use crate::support::sse::counted;
use crate::support::tls::Secured;

async fn works(mut editor: Editor) {
    let answer = editor.initialize().await;
    assert!(answer.get("result").is_some(), "{answer}");
    let session = editor.new_session().await;
    let turn = editor.turn(&session, "/permission\n/count 5").await;
    assert_eq!((turn.asked, &turn.said[1..]), (1, &counted(5, 1)[..]));
    assert_eq!(editor.load(&session).await, turn.said);
    let (code, log) = editor.close().await;
    assert_eq!(code, Some(0), "{log}");
}

#[tokio::test]
async fn what_lets_no_websocket_through_is_passed_by_sse() {
    let baton = Served::start().await;
    let between = Middlebox::start(&baton.url()).await;
    works(Editor::start(&[&between.url], &[])).await;
    let seen = between.seen();
    assert!(seen.upgrades > 0, "{seen:?}");
    assert!(seen.streams > 0, "{seen:?}");
}

#[tokio::test]
async fn one_transport_alone_can_be_chosen() {
    let baton = Served::start().await;
    works(Editor::start(
        &[&baton.url(), "--transport", "websocket"],
        &[],
    ))
    .await;
    let between = Middlebox::start(&baton.url()).await;
    works(Editor::start(&[&between.url, "--transport", "sse"], &[])).await;
    let seen = between.seen();
    assert_eq!(seen.upgrades, 0, "{seen:?}");
}

#[tokio::test]
async fn a_proxy_is_used_where_the_environment_names_one() {
    let baton = Served::start_with(&["--allow-host", "baton.test"]).await;
    for transport in ["websocket", "sse"] {
        let tunnel = Tunnel::start("baton.test:80", &baton.url()).await;
        let arguments = ["http://baton.test", "--transport", transport];
        works(Editor::start(&arguments, &[("HTTP_PROXY", &tunnel.url)])).await;
        assert!(tunnel.opened() > 0);
    }
}

#[tokio::test]
async fn tls_is_checked_against_the_authority_that_was_named() {
    let baton = Secured::start(&[]).await;
    let ca = baton.authority_file().display().to_string();
    for transport in ["websocket", "sse"] {
        let arguments = [&baton.url(), "--ca", &ca, "--transport", transport];
        works(Editor::start(&arguments, &[])).await;
    }
    let mut stranger = Editor::start(&[&baton.url(), "--give-up", "1s"], &[]);
    let answer = stranger.initialize().await;
    let text = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(text.contains("certificate"), "{answer}");
}
