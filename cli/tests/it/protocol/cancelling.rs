//! `session/cancel` and `$/cancel_request`.

use serde_json::json;

use super::peer::{Asked, Peer};
use super::scene::{Scene, selected, words};
use super::{EVERYWHERE, Row, UNASKED, row};
use crate::support::sse::counted;

pub fn rows() -> Vec<Row> {
    vec![
        row!(
            "session/cancel",
            "ends the running turn",
            "`cancelled`, what was said before stays, and the next prompt works",
            EVERYWHERE,
            running
        ),
        row!(
            "session/cancel",
            "concerns prompts that have not begun",
            "the running prompt and two that wait are all `cancelled`; one that is sent \
             afterwards runs",
            EVERYWHERE,
            waiting
        ),
        row!(
            "session/cancel",
            "resolves a pending question of the agent",
            "`cancelled`, and a late answer changes nothing",
            EVERYWHERE,
            during_a_question
        ),
        row!(
            "session/cancel",
            "tells the client that the question is off",
            "`$/cancel_request` names the question, before the turn's answer",
            UNASKED,
            question_is_off
        ),
        row!(
            "session/cancel",
            "after the end does nothing",
            "the next prompt runs to its end",
            EVERYWHERE,
            after_the_end
        ),
        row!(
            "session/cancel",
            "may be repeated",
            "two of them end one turn, and the next prompt runs to its end",
            EVERYWHERE,
            twice
        ),
        row!(
            "session/cancel",
            "ends a turn of another connection",
            "the one who prompted gets `cancelled`",
            EVERYWHERE,
            of_another
        ),
        row!(
            "$/cancel_request",
            "ends the running prompt it names",
            "`cancelled`; the prompt that waits behind it runs",
            EVERYWHERE,
            request_running
        ),
        row!(
            "$/cancel_request",
            "takes back the waiting prompt it names",
            "`cancelled` or -32800; the running one and the one behind it go on",
            EVERYWHERE,
            request_waiting
        ),
        row!(
            "$/cancel_request",
            "of what is done, or was never asked, does nothing",
            "the running turn goes on, also if another connection uses the same id",
            EVERYWHERE,
            request_unknown
        ),
    ]
}

async fn running(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    let asked = peer.begin_endless(&session).await;
    peer.cancel(&session).await;
    let turn = peer.turn(&asked, &session).await;
    assert_eq!(
        (&*turn.stop, turn.words()),
        ("cancelled", vec!["begun ".to_owned()])
    );
    peer.works(&session).await;
}

async fn waiting(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    let first = peer.begin_endless(&session).await;
    let second = peer.begin(&session, "never said").await;
    let third = peer.begin(&session, "never said").await;
    peer.cancel(&session).await;
    let after = peer.begin(&session, "afterwards").await;
    for asked in [&first, &second, &third] {
        assert_eq!(peer.turn(asked, &session).await.stop, "cancelled");
    }
    assert_eq!(
        peer.turn(&after, &session).await.words().concat(),
        "afterwards "
    );
    let said = words(&peer.updates(&session)).concat();
    assert_eq!(said, "begun afterwards ");
}

async fn during_a_question(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    let asked = peer.begin(&session, "/permission").await;
    let question = peer.inbox.question(&session, 0).await;
    peer.cancel(&session).await;
    assert_eq!(peer.turn(&asked, &session).await.stop, "cancelled");
    peer.reply(&question, selected("allow_once")).await;
    peer.works(&session).await;
    let history = scene.peer().await.history(&session).await;
    let said = words(&history).concat();
    assert_eq!(said, "still here ");
}

async fn question_is_off(scene: Scene) {
    let (peer, other) = (scene.peer().await, scene.peer().await);
    let session = peer.new_session().await;
    let asked = peer.begin(&session, "/permission").await;
    let question = peer.inbox.question(&session, 0).await;
    other.cancel(&session).await;
    assert_eq!(peer.turn(&asked, &session).await.stop, "cancelled");
    let off = peer.inbox.called_off(&question).await;
    let (end, _) = peer.inbox.answer(0, &asked.id).await;
    assert!(off < end, "before the answer");
}

async fn after_the_end(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    peer.cancel(&session).await;
    peer.works(&session).await;
    peer.cancel(&session).await;
    let turn = peer.prompt(&session, "/count 3 delay=5").await;
    assert_eq!((&*turn.stop, turn.words()), ("end_turn", counted(3, 2)));
}

async fn twice(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    let asked = peer.begin_endless(&session).await;
    peer.cancel(&session).await;
    peer.cancel(&session).await;
    assert_eq!(peer.turn(&asked, &session).await.stop, "cancelled");
    peer.works(&session).await;
}

async fn cancel_request(peer: &Peer, asked: &Asked) {
    let params = json!({ "requestId": asked.id });
    peer.notify("$/cancel_request", params).await;
}

async fn request_running(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    let first = peer.begin_endless(&session).await;
    let second = peer.begin(&session, "afterwards").await;
    cancel_request(&peer, &first).await;
    assert_eq!(peer.turn(&first, &session).await.stop, "cancelled");
    let turn = peer.turn(&second, &session).await;
    assert_eq!(turn.stop, "end_turn");
}

async fn request_waiting(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    let first = peer.begin(&session, "begun\n/permission").await;
    let question = peer.inbox.question(&session, 0).await;
    let second = peer.begin(&session, "never said").await;
    let third = peer.begin(&session, "afterwards").await;
    cancel_request(&peer, &second).await;
    peer.reply(&question, selected("allow_once")).await;
    match peer.answer(&second).await {
        Ok(result) => assert_eq!(result["stopReason"], "cancelled"),
        Err(refusal) => assert_eq!(refusal.code, -32800, "{refusal:?}"),
    }
    assert_eq!(peer.turn(&first, &session).await.stop, "end_turn");
    assert_eq!(peer.turn(&third, &session).await.stop, "end_turn");
    let said = words(&scene.peer().await.history(&session).await).concat();
    assert_eq!(said, "begun permission allow_once afterwards ");
}

async fn request_unknown(scene: Scene) {
    let (peer, other) = (scene.peer().await, scene.peer().await);
    let session = peer.new_session().await;
    other.resume(&session).await;
    let done = peer.begin(&session, "hello").await;
    peer.turn(&done, &session).await;
    let running = peer.begin(&session, "/permission").await;
    let question = peer.inbox.question(&session, 0).await;
    cancel_request(&peer, &done).await;
    cancel_request(&other, &running).await;
    for id in [json!("never asked"), json!(null), json!({})] {
        peer.notify("$/cancel_request", json!({ "requestId": id }))
            .await;
    }
    peer.notify("$/cancel_request", json!({})).await;
    peer.reply(&question, selected("allow_once")).await;
    assert_eq!(peer.turn(&running, &session).await.stop, "end_turn");
}

async fn of_another(scene: Scene) {
    let (author, other) = (scene.peer().await, scene.peer().await);
    let session = author.new_session().await;
    let asked = author.begin_endless(&session).await;
    other.cancel(&session).await;
    assert_eq!(author.turn(&asked, &session).await.stop, "cancelled");
    // A notification: nothing comes back, also if nobody has the session.
    other
        .notify(
            "session/cancel",
            json!({ "sessionId": super::attaching::NOBODY }),
        )
        .await;
    author.works(&session).await;
}
