//! Several clients in one session.

use serde_json::{Value, json};

use super::scene::{CWD, Scene, selected, words};
use super::{EVERYWHERE, Row, UNASKED, row};
use crate::support::sse::counted;

pub fn rows() -> Vec<Row> {
    vec![
        row!(
            "several clients",
            "updates go to all, the answer to the one who asked",
            "three connections see a turn whole and in order; the other two see the user's words \
             and no answer",
            UNASKED,
            updates_to_all
        ),
        row!(
            "several clients",
            "requests with the same id do not meet",
            "two connections use the same ids at the same time; each gets its own answers",
            EVERYWHERE,
            same_ids
        ),
        row!(
            "several clients",
            "the agent asks the one who prompted, loaded or resumed last",
            "a question of a running turn goes to the newcomer; one of the next turn to who \
             prompts then",
            UNASKED,
            controller
        ),
        row!(
            "several clients",
            "a question answered by one is off for the others",
            "`$/cancel_request` names it to the one who did not answer, whose late answer changes \
             nothing",
            EVERYWHERE,
            question_is_off
        ),
        row!(
            "several clients",
            "who vanishes is replaced by the next who prompts",
            "the connection that created the session is gone; another prompts, is asked and \
             answers",
            EVERYWHERE,
            vanished
        ),
        row!(
            "several clients",
            "a question left behind goes to the next who prompts",
            "the connection that was asked is gone; one that had the session open prompts, is \
             asked the same and answers, and both turns end",
            UNASKED,
            left_to_a_friend
        ),
        row!(
            "several clients",
            "a question left behind goes to a stranger who prompts",
            "the same, with a connection that never had the session open",
            UNASKED,
            left_to_a_stranger
        ),
        row!(
            "several clients",
            "a turn goes on without the one who prompted",
            "the connection ends in the middle; the history has the whole turn",
            EVERYWHERE,
            goes_on_alone
        ),
        row!(
            "several clients",
            "who loads or resumes only to watch leaves everything as it is",
            "with `baton/observe` and no `cwd` it gets the history and what follows; the one who \
             prompted is asked, a closed session stays closed",
            UNASKED,
            watching
        ),
    ]
}

async fn updates_to_all(scene: Scene) {
    let author = scene.peer().await;
    let session = author.new_session().await;
    let others = [scene.peer().await, scene.peer().await];
    others[0].resume(&session).await;
    others[1].history(&session).await;
    let turn = author.prompt(&session, "/count 20\n/plan").await;
    for other in &others {
        let is_last = |update: &Value| update["sessionUpdate"] == "plan";
        other
            .inbox
            .update("the turn's last update", &session, is_last)
            .await;
        let seen = other.updates(&session);
        assert_eq!(seen[0]["sessionUpdate"], "user_message_chunk");
        assert_eq!(seen[0]["content"]["text"], "/count 20\n/plan");
        assert_eq!(seen[1..], turn.updates);
    }
    // What comes after the answer in the log comes after it on the streams.
    let author_asks = author.begin(&session, "the end").await;
    author.turn(&author_asks, &session).await;
    for other in &others {
        other.hears(&session, "end ").await;
        assert_eq!(other.inbox.count("\"stopReason\""), 0, "the other's answer");
    }
}

async fn same_ids(scene: Scene) {
    let (first, second) = (scene.peer().await, scene.peer().await);
    let session = first.new_session().await;
    second.resume(&session).await;
    // Both have used one id so far.
    let asked = (
        first.begin(&session, "/count 3").await,
        second.begin(&session, "/count 2\n/stop refusal").await,
    );
    let answers = (first.answer(&asked.0).await, second.answer(&asked.1).await);
    let stop = |answer: super::peer::Answer| answer.expect("an answer")["stopReason"].clone();
    assert_eq!(stop(answers.0), "end_turn");
    assert_eq!(stop(answers.1), "refusal");
}

async fn controller(scene: Scene) {
    let (first, second) = (scene.peer().await, scene.peer().await);
    let session = first.new_session().await;
    second.resume(&session).await;
    // Who prompts is asked, though the other resumed last before.
    let turn = first
        .begin(&session, "/permission\n/sleep 1\n/permission")
        .await;
    let question = first.inbox.question(&session, 0).await;
    // Now the other takes over, and is asked what is open, and then what comes.
    let params = json!({ "sessionId": session, "cwd": CWD });
    second
        .call("session/resume", params)
        .await
        .expect("it succeeds");
    let again = second.inbox.question(&session, 0).await;
    assert_eq!(again["id"], question["id"]);
    second.reply(&again, selected("allow_once")).await;
    let next = second.inbox.question(&session, 1).await;
    second.reply(&next, selected("reject_once")).await;
    let said = first.turn(&turn, &session).await.words();
    assert_eq!(said, ["permission allow_once ", "permission reject_once "]);
    assert_eq!(first.inbox.questions(&session).len(), 1);
    // And back, by a prompt.
    let turn = first.begin(&session, "/permission").await;
    let question = first.inbox.question(&session, 1).await;
    first.reply(&question, selected("allow_always")).await;
    assert_eq!(
        first.turn(&turn, &session).await.words(),
        ["permission allow_always "]
    );
    assert_eq!(second.inbox.questions(&session).len(), 2);
}

async fn question_is_off(scene: Scene) {
    let (first, second) = (scene.peer().await, scene.peer().await);
    let session = first.new_session().await;
    let turn = first.begin(&session, "/permission\n/count 2").await;
    let question = first.inbox.question(&session, 0).await;
    if UNASKED.contains(&scene.transport) {
        second.resume(&session).await;
        second.inbox.question(&session, 0).await;
    }
    second.reply(&question, selected("allow_once")).await;
    first.inbox.called_off(&question).await;
    first.reply(&question, selected("reject_once")).await;
    let said = first.turn(&turn, &session).await.words();
    let expected = [vec!["permission allow_once ".to_owned()], counted(2, 1)].concat();
    assert_eq!(said, expected);
    first.works(&session).await;
}

async fn vanished(scene: Scene) {
    let first = scene.peer().await;
    let session = first.new_session().await;
    first.works(&session).await;
    drop(first);
    let second = scene.peer().await;
    let turn = second.begin(&session, "/permission").await;
    let question = second.inbox.question(&session, 0).await;
    second.reply(&question, selected("allow_once")).await;
    assert_eq!(
        second.turn(&turn, &session).await.words(),
        ["permission allow_once "]
    );
}

async fn left_to_a_friend(scene: Scene) {
    left_behind(scene, true).await;
}

async fn left_to_a_stranger(scene: Scene) {
    left_behind(scene, false).await;
}

async fn left_behind(scene: Scene, knows_it: bool) {
    let (first, second) = (scene.peer().await, scene.peer().await);
    let session = first.new_session().await;
    if knows_it {
        second.resume(&session).await;
    }
    first.begin(&session, "/permission").await;
    let question = first.inbox.question(&session, 0).await;
    drop(first);
    let asked = second.begin(&session, "afterwards").await;
    let again = second.inbox.question(&session, 0).await;
    assert_eq!(again["id"], question["id"]);
    second.reply(&again, selected("allow_once")).await;
    assert_eq!(second.turn(&asked, &session).await.stop, "end_turn");
    let said = words(&scene.peer().await.history(&session).await).concat();
    assert_eq!(said, "permission allow_once afterwards ");
}

async fn watching(scene: Scene) {
    let (author, watcher) = (scene.peer().await, scene.peer().await);
    let server = json!({ "name": "tools", "command": "/bin/true", "args": [], "env": [] });
    let session = author
        .new_session_with(json!({ "mcpServers": [server] }))
        .await;
    author.prompt(&session, "/count 2").await;
    let turn = author.begin(&session, "/permission\n/servers").await;
    let question = author.inbox.question(&session, 0).await;
    let observe = json!({ "sessionId": session, "_meta": { "baton/observe": true } });
    for method in ["session/load", "session/resume"] {
        let answer = watcher.call(method, observe.clone()).await;
        assert!(answer.expect("it succeeds")["modes"].is_object());
    }
    assert_eq!(words(&watcher.updates(&session)), counted(2, 1));
    author.reply(&question, selected("allow_once")).await;
    let said = author.turn(&turn, &session).await.words();
    assert_eq!(said[1], "servers: tools; directories:  ");
    watcher.hears(&session, &said[1]).await;
    assert_eq!(watcher.inbox.questions(&session).len(), 0);
    author.close(&session).await;
    watcher
        .call("session/load", observe)
        .await
        .expect("it succeeds");
    let prompt = super::scene::prompt(&session, "hello");
    let answer = author.call("session/prompt", prompt).await;
    super::scene::refused(answer, 4006, &["closed"]);
    let wrong = json!({ "sessionId": session, "_meta": { "baton/observe": 1 } });
    let answer = watcher.call("session/load", wrong).await;
    super::scene::refused(answer, -32602, &["baton/observe"]);
}

async fn goes_on_alone(scene: Scene) {
    let first = scene.peer().await;
    let session = first.new_session().await;
    first.begin(&session, "/count 40 delay=10").await;
    first.hears(&session, "chunk 3 of 40, prompt 1 ").await;
    drop(first);
    let second = scene.peer().await;
    // A prompt waits for the turn before it.
    second.works(&session).await;
    let said = words(&scene.peer().await.history(&session).await);
    assert_eq!(said[..40], counted(40, 1));
}
