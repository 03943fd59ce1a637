//! `session/fork`.

use serde_json::{Value, json};

use super::attaching::NOBODY;
use super::closing::remove;
use super::peer::{Answer, Peer};
use super::scene::{CWD, Scene, of_kind, refused, setup, words};
use super::{EVERYWHERE, Row, row};
use crate::support::sse::counted;

pub fn rows() -> Vec<Row> {
    vec![
        row!(
            "session/fork",
            "the child has its parent's past",
            "its history is the parent's, update for update; modes and options are those of the \
             parent",
            EVERYWHERE,
            past
        ),
        row!(
            "session/fork",
            "each goes its own way",
            "turns, modes and titles of one are not seen in the other",
            EVERYWHERE,
            independent
        ),
        row!(
            "session/fork",
            "of a running session: up to the last finished turn",
            "nothing of the running turn is in the child, which can be prompted meanwhile",
            EVERYWHERE,
            running
        ),
        row!(
            "session/fork",
            "at a message",
            "`_meta[\"baton/fork\"].atMessageId`: the history ends with that message, with the \
             mode of that time; -32602 for a message that is not there",
            EVERYWHERE,
            at_message
        ),
        row!(
            "session/fork",
            "of a fork",
            "a chain of four, each with one more turn: everyone's history is complete",
            EVERYWHERE,
            of_a_fork
        ),
        row!(
            "session/fork",
            "outlives its parent, and the parent outlives it",
            "the parent is deleted: the child's history is whole and it works; the same the other \
             way round",
            EVERYWHERE,
            delete_either
        ),
        row!(
            "session/fork",
            "may bring servers, directories and a folder of its own",
            "the child works with what the fork named, the parent with what it had",
            EVERYWHERE,
            own_place
        ),
        row!(
            "session/fork",
            "what is bound stays with the parent, unless asked for",
            "nothing is bound in the child; with `inheritBindings` it is what the parent has",
            EVERYWHERE,
            bindings
        ),
        row!(
            "session/fork",
            "fields must be right, and the parent must exist",
            "-32602 names the field, -32002 the session",
            EVERYWHERE,
            refusals
        ),
        row!(
            "session/fork",
            "a child lives where its parent does, unless it is told otherwise",
            "forked without `cwd`, it is listed in the parent's directory",
            EVERYWHERE,
            same_place
        ),
        row!(
            "session/fork",
            "a closed session can be forked",
            "the child has its history and works; the parent stays closed",
            EVERYWHERE,
            closed
        ),
    ]
}

async fn fork(peer: &Peer, parent: &str, more: Value) -> Answer {
    let mut params = json!({ "sessionId": parent, "cwd": CWD });
    for (name, value) in more.as_object().expect("an object") {
        params[name] = value.clone();
    }
    peer.call("session/fork", params).await
}

async fn forked(peer: &Peer, parent: &str, more: Value) -> String {
    let child = fork(peer, parent, more).await;
    let child = child.expect("session/fork succeeds")["sessionId"].clone();
    let child = child.as_str().expect("an id").to_owned();
    assert_ne!(child, parent);
    child
}

async fn past(scene: Scene) {
    let peer = scene.peer().await;
    let parent = peer.new_session().await;
    peer.prompt(&parent, "/count 3\n/tool\n/plan").await;
    peer.prompt(&parent, "/mode ask\n/config tone formal\nhello")
        .await;
    let child = fork(&peer, &parent, json!({})).await;
    let child = child.expect("session/fork succeeds");
    assert_eq!(child["modes"]["currentModeId"], "ask");
    assert_eq!(child["configOptions"][1]["currentValue"], "formal");
    let child = child["sessionId"].as_str().expect("an id");
    let reader = scene.peer().await;
    let history = reader.history(child).await;
    assert_eq!(history, reader.history(&parent).await);
    assert_eq!(words(&history).concat(), counted(3, 1).concat() + "hello ");
}

async fn independent(scene: Scene) {
    let peer = scene.peer().await;
    let parent = peer.new_session().await;
    peer.prompt(&parent, "/count 1").await;
    let child = forked(&peer, &parent, json!({})).await;
    let in_child = peer.prompt(&child, "/count 2\n/mode ask").await;
    assert_eq!(in_child.words(), counted(2, 2), "the agent knows the past");
    let in_parent = peer.prompt(&parent, "/count 3\n/mode architect").await;
    assert_eq!(in_parent.words(), counted(3, 2));
    let reader = scene.peer().await;
    for (session, chunks, mode) in [(&child, 2, "ask"), (&parent, 3, "architect")] {
        let (history, answer) = reader.load(session).await;
        assert_eq!(
            words(&history),
            [counted(1, 1), counted(chunks, 2)].concat()
        );
        let answer = answer.expect("session/load succeeds");
        assert_eq!(answer["modes"]["currentModeId"], mode);
    }
}

async fn running(scene: Scene) {
    let peer = scene.peer().await;
    let parent = peer.new_session().await;
    peer.prompt(&parent, "/count 2").await;
    let turn = peer.begin_endless(&parent).await;
    let child = forked(&peer, &parent, json!({})).await;
    peer.works(&child).await;
    let history = scene.peer().await.history(&child).await;
    let said = [counted(2, 1), vec!["still ".into(), "here ".into()]].concat();
    assert_eq!(words(&history), said);
    assert_eq!(of_kind(&history, "user_message_chunk").len(), 2);
    peer.cancel(&parent).await;
    assert_eq!(peer.turn(&turn, &parent).await.stop, "cancelled");
}

async fn at_message(scene: Scene) {
    let peer = scene.peer().await;
    let parent = peer.new_session().await;
    let first = peer.prompt(&parent, "/mode ask\n/count 2").await;
    peer.prompt(&parent, "/mode architect\n/count 3").await;
    let chunks = of_kind(&first.updates, "agent_message_chunk");
    let at = |message: &Value| json!({ "_meta": { "baton/fork": { "atMessageId": message } } });
    let child = fork(&peer, &parent, at(&chunks[0]["messageId"])).await;
    let child = child.expect("session/fork succeeds");
    assert_eq!(child["modes"]["currentModeId"], "ask");
    let child = child["sessionId"].as_str().expect("an id");
    let history = scene.peer().await.history(child).await;
    assert_eq!(words(&history), counted(2, 1));
    assert_eq!(history.last(), chunks.last());
    assert_eq!(peer.prompt(child, "hello").await.words(), ["hello "]);
    let answer = fork(&peer, &parent, at(&json!("nobody's"))).await;
    refused(answer, -32602, &["nobody's"]);
    let answer = fork(&peer, &parent, at(&json!(7))).await;
    refused(answer, -32602, &["atMessageId"]);
}

async fn of_a_fork(scene: Scene) {
    let peer = scene.peer().await;
    let mut chain = vec![peer.new_session().await];
    let mut said = Vec::new();
    for turn in 1..=4 {
        let last = chain.last().expect("not empty").clone();
        peer.prompt(&last, &format!("/count {turn}")).await;
        said.push(counted(turn, turn));
        chain.push(forked(&peer, &last, json!({})).await);
    }
    let reader = scene.peer().await;
    for (number, session) in chain.iter().enumerate() {
        let expected = said[..said.len().min(number + 1)].concat();
        assert_eq!(words(&reader.history(session).await), expected);
    }
}

async fn delete_either(scene: Scene) {
    let peer = scene.peer().await;
    for delete_parent in [true, false] {
        let parent = peer.new_session().await;
        peer.prompt(&parent, "/count 3").await;
        let child = forked(&peer, &parent, json!({})).await;
        let (gone, kept) = match delete_parent {
            true => (&parent, &child),
            false => (&child, &parent),
        };
        remove(&peer, gone).await;
        let reader = scene.peer().await;
        refused(reader.load(gone).await.1, -32002, &[gone]);
        assert_eq!(words(&reader.history(kept).await), counted(3, 1));
        reader.works(kept).await;
    }
}

async fn own_place(scene: Scene) {
    let peer = scene.peer().await;
    let server =
        |name: &str| json!([{ "name": name, "command": "/bin/true", "args": [], "env": [] }]);
    let more = json!({ "mcpServers": server("old"), "additionalDirectories": ["/srv/old"] });
    let parent = peer.new_session_with(more).await;
    let kept = forked(&peer, &parent, json!({})).await;
    let more =
        json!({ "cwd": "/elsewhere", "mcpServers": server("new"), "additionalDirectories": [] });
    let changed = forked(&peer, &parent, more).await;
    let old = "servers: old; directories: /srv/old";
    for (session, expected) in [
        (&parent, old),
        (&kept, old),
        (&changed, "servers: new; directories:"),
    ] {
        let said = peer.prompt(session, "/servers").await.words().concat();
        assert_eq!(said.trim(), expected);
    }
    let params = setup(json!({ "sessionId": changed, "cwd": "/elsewhere" }));
    let loaded = peer.call("session/load", params).await;
    loaded.expect("it lives where the fork said");
}

async fn bindings(scene: Scene) {
    let peer = scene.peer().await;
    let parent = peer.new_session().await;
    peer.prompt(&parent, "/bind sandbox vm-17").await;
    let bound = async |session: &str| {
        let said = peer.prompt(session, "/bound").await.words().concat();
        serde_json::from_str::<Value>(&said).expect("JSON")
    };
    assert_eq!(bound(&parent).await, json!({ "sandbox": "vm-17" }));
    let bare = forked(&peer, &parent, json!({})).await;
    assert_eq!(bound(&bare).await, json!({}));
    let wish = json!({ "_meta": { "baton/fork": { "inheritBindings": true } } });
    let heir = forked(&peer, &parent, wish).await;
    assert_eq!(bound(&heir).await, json!({ "sandbox": "vm-17" }));
}

async fn refusals(scene: Scene) {
    let peer = scene.peer().await;
    refused(fork(&peer, NOBODY, json!({})).await, -32002, &[NOBODY]);
    let parent = peer.new_session().await;
    let answer = fork(&peer, &parent, json!({ "cwd": "not/absolute" })).await;
    refused(answer, -32602, &["params.cwd"]);
    let answer = fork(&peer, &parent, json!({ "mcpServers": 7 })).await;
    refused(answer, -32602, &["params.mcpServers"]);
    let answer = fork(&peer, &parent, json!({ "additionalDirectories": ["x"] })).await;
    refused(answer, -32602, &["params.additionalDirectories"]);
}

async fn same_place(scene: Scene) {
    let peer = scene.peer().await;
    let parent = peer.new_session().await;
    let params = json!({ "sessionId": parent });
    let answer = peer.call("session/fork", params).await;
    let child = answer.expect("it is forked")["sessionId"].clone();
    let listed = peer.call("session/list", json!({ "cwd": CWD })).await;
    let listed = listed.expect("a list");
    let mut sessions = listed["sessions"].as_array().expect("a list").iter();
    assert!(sessions.any(|session| session["sessionId"] == child));
}

async fn closed(scene: Scene) {
    let peer = scene.peer().await;
    let parent = peer.new_session().await;
    peer.prompt(&parent, "/count 3").await;
    peer.close(&parent).await;
    let child = forked(&peer, &parent, json!({})).await;
    assert_eq!(
        words(&scene.peer().await.history(&child).await),
        counted(3, 1)
    );
    peer.works(&child).await;
    let prompt = super::scene::prompt(&parent, "hello");
    refused(peer.call("session/prompt", prompt).await, 4006, &["closed"]);
}
