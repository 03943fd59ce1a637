//! `session/cancel` and `$/cancel_request`.

use serde_json::json;

use super::scene::{Scene, selected};
use super::{EVERYWHERE, Row, row};
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
            "the running prompt and two that wait are all `cancelled`; one that is sent afterwards runs",
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
    ]
}

async fn running(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    let asked = peer.begin_endless(&session).await;
    peer.cancel(&session).await;
    let turn = peer.turn(&asked, &session).await;
    assert_eq!((&*turn.stop, turn.words()), ("cancelled", vec!["begun ".to_owned()]));
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
    assert_eq!(peer.turn(&after, &session).await.words().concat(), "afterwards ");
    let said = super::scene::words(&peer.updates(&session)).concat();
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
    let said = super::scene::words(&history).concat();
    assert_eq!(said, "still here ");
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

async fn of_another(scene: Scene) {
    let (author, other) = (scene.peer().await, scene.peer().await);
    let session = author.new_session().await;
    let asked = author.begin_endless(&session).await;
    other.cancel(&session).await;
    assert_eq!(author.turn(&asked, &session).await.stop, "cancelled");
    // A notification: nothing comes back, also if nobody has the session.
    other.notify("session/cancel", json!({ "sessionId": super::attaching::NOBODY })).await;
    author.works(&session).await;
}
