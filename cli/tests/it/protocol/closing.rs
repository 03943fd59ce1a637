//! `session/close` and `session/delete`.

use serde_json::json;

use super::attaching::NOBODY;
use super::peer::{Answer, Peer};
use super::scene::{Scene, over, prompt, refused, setup, words};
use super::{EVERYWHERE, Row, UNASKED, row};
use crate::support::sse::counted;

pub fn rows() -> Vec<Row> {
    vec![
        row!(
            "session/close",
            "cancels what runs and what waits, then answers",
            "the running prompt and one that waits are `cancelled`, the answer is `{}` and comes \
             after them",
            EVERYWHERE,
            cancels
        ),
        row!(
            "session/close",
            "a closed session takes no commands",
            "4006 for a prompt, a mode and an option, of any connection",
            EVERYWHERE,
            takes_nothing
        ),
        row!(
            "session/close",
            "load opens it again",
            "the whole history, then a prompt that works",
            EVERYWHERE,
            load_opens
        ),
        row!(
            "session/close",
            "resume opens it again",
            "a prompt that goes on with the conversation",
            EVERYWHERE,
            resume_opens
        ),
        row!(
            "session/close",
            "may be repeated",
            "`{}` both times",
            EVERYWHERE,
            close_twice
        ),
        row!(
            "session/close",
            "an unknown session is not found",
            "-32002 names it",
            EVERYWHERE,
            close_unknown
        ),
        row!(
            "session/close",
            "together with a prompt: each gets one clear answer",
            "ten times a prompt and a close at the same moment: the prompt ends, is `cancelled` \
             or gets 4006, the close gets `{}`, and the session can be loaded and works",
            EVERYWHERE,
            close_and_prompt
        ),
        row!(
            "session/delete",
            "is final",
            "`{}`; load, resume, prompt, fork and close get -32002, and no list has the session",
            EVERYWHERE,
            delete
        ),
        row!(
            "session/delete",
            "is idempotent",
            "`{}` the second time, and for a session that never was",
            EVERYWHERE,
            delete_twice
        ),
        row!(
            "session/delete",
            "answers those who wait",
            "the running prompt and one that waits are answered",
            EVERYWHERE,
            delete_during_a_turn
        ),
        row!(
            "session/delete",
            "by one connection reaches the others",
            "another connection's prompt is answered, its next gets -32002",
            UNASKED,
            delete_by_another
        ),
    ]
}

pub async fn remove(peer: &Peer, session: &str) {
    let answer = peer
        .call("session/delete", json!({ "sessionId": session }))
        .await;
    assert_eq!(answer.expect("session/delete succeeds"), over());
}

async fn cancels(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    let running = peer.begin_endless(&session).await;
    let waiting = peer.begin(&session, "never said").await;
    peer.close(&session).await;
    for asked in [&running, &waiting] {
        assert_eq!(peer.turn(asked, &session).await.stop, "cancelled");
    }
    let history = scene.peer().await.history(&session).await;
    assert_eq!(words(&history), ["begun "]);
}

async fn takes_nothing(scene: Scene) {
    let (peer, other) = (scene.peer().await, scene.peer().await);
    let session = peer.new_session().await;
    peer.close(&session).await;
    for peer in [&peer, &other] {
        let mode = json!({ "sessionId": session, "modeId": "ask" });
        let option = json!({ "sessionId": session, "configId": "tone", "value": "formal" });
        let commands = [
            ("session/prompt", prompt(&session, "hello")),
            ("session/set_mode", mode),
            ("session/set_config_option", option),
        ];
        for (method, params) in commands {
            refused(peer.call(method, params).await, 4006, &["closed"]);
        }
    }
}

async fn load_opens(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    peer.prompt(&session, "/count 3").await;
    peer.close(&session).await;
    assert_eq!(words(&peer.history(&session).await), counted(3, 1));
    peer.works(&session).await;
}

async fn resume_opens(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    peer.prompt(&session, "/count 3").await;
    peer.close(&session).await;
    peer.resume(&session).await;
    assert_eq!(
        peer.prompt(&session, "/count 2").await.words(),
        counted(2, 2)
    );
}

async fn close_twice(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    peer.close(&session).await;
    peer.close(&session).await;
    scene.peer().await.close(&session).await;
    assert!(peer.load(&session).await.1.is_ok());
    peer.works(&session).await;
}

async fn close_unknown(scene: Scene) {
    let peer = scene.peer().await;
    let answer = peer
        .call("session/close", json!({ "sessionId": NOBODY }))
        .await;
    refused(answer, -32002, &[NOBODY]);
}

async fn close_and_prompt(scene: Scene) {
    let (author, closer) = (scene.peer().await, scene.peer().await);
    let session = author.new_session().await;
    for _ in 0..10 {
        let say = author.call("session/prompt", prompt(&session, "/count 3 delay=1"));
        let end = closer.call("session/close", json!({ "sessionId": session }));
        let (said, ended): (Answer, Answer) = tokio::join!(say, end);
        assert_eq!(ended.expect("session/close succeeds"), over());
        match said {
            Ok(said) if said["stopReason"] == "end_turn" => {}
            Ok(said) => assert_eq!(said["stopReason"], "cancelled"),
            Err(refusal) => assert_eq!(refusal.code, 4006, "{refusal:?}"),
        }
        author.history(&session).await;
        author.works(&session).await;
    }
}

async fn delete(scene: Scene) {
    let (peer, other) = (scene.peer().await, scene.peer().await);
    let cwd = super::listing::folder();
    let session = peer.new_session_with(json!({ "cwd": cwd })).await;
    peer.works(&session).await;
    remove(&peer, &session).await;
    for peer in [&peer, &other] {
        let place = setup(json!({ "sessionId": session, "cwd": cwd }));
        let commands = [
            ("session/load", place.clone()),
            ("session/resume", place.clone()),
            ("session/fork", place),
            ("session/prompt", prompt(&session, "hello")),
            ("session/close", json!({ "sessionId": session })),
        ];
        for (method, params) in commands {
            refused(peer.call(method, params).await, -32002, &[&session]);
        }
        assert_eq!(super::listing::all(peer, &cwd).await, [] as [String; 0]);
    }
}

async fn delete_twice(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    remove(&peer, &session).await;
    remove(&peer, &session).await;
    remove(&scene.peer().await, &session).await;
    remove(&peer, NOBODY).await;
    remove(&peer, "no such thing").await;
}

async fn delete_during_a_turn(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    let running = peer.begin_endless(&session).await;
    let waiting = peer.begin(&session, "never said").await;
    remove(&peer, &session).await;
    for asked in [&running, &waiting] {
        assert_eq!(peer.turn(asked, &session).await.stop, "cancelled");
    }
}

async fn delete_by_another(scene: Scene) {
    let (author, other) = (scene.peer().await, scene.peer().await);
    let session = author.new_session().await;
    let running = author.begin_endless(&session).await;
    remove(&other, &session).await;
    assert_eq!(author.turn(&running, &session).await.stop, "cancelled");
    let again = author
        .call("session/prompt", prompt(&session, "hello"))
        .await;
    refused(again, -32002, &[&session]);
}
