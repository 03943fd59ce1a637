//! `session/load` and `session/resume`.

use serde_json::json;

use super::scene::{CWD, Scene, of_kind, refused, setup, words};
use super::{EVERYWHERE, Row, UNASKED, row};
use crate::support::sse::counted;

pub fn rows() -> Vec<Row> {
    vec![
        row!(
            "session/load",
            "replays the whole conversation, in order, before it answers",
            "the words of the user and the agent, thoughts, tool calls, plans and changes of mode \
             of three turns, each once",
            EVERYWHERE,
            replay
        ),
        row!(
            "session/load",
            "replays a long history completely",
            "1,000 chunks, each once and in order",
            EVERYWHERE,
            long_replay
        ),
        row!(
            "session/load",
            "answers with the session's modes and options as they are now",
            "a mode and an option that were changed before",
            EVERYWHERE,
            current_settings
        ),
        row!(
            "session/load",
            "`cwd` must be the session's",
            "-32602 names both paths",
            EVERYWHERE,
            wrong_cwd
        ),
        row!(
            "session/load",
            "`cwd` and `mcpServers` are required",
            "-32602 names the field",
            EVERYWHERE,
            required
        ),
        row!(
            "session/load",
            "an unknown session is not found",
            "-32002 names it",
            EVERYWHERE,
            unknown
        ),
        row!(
            "session/load",
            "while a turn runs: what was said so far, the answer, then the rest live",
            "60 chunks, each once and in order, around the answer; then the session takes a prompt",
            UNASKED,
            during_a_turn
        ),
        row!(
            "session/load",
            "can be repeated",
            "the same history twice on one connection",
            EVERYWHERE,
            twice
        ),
        row!(
            "session/load",
            "brings new servers and directories",
            "the agent names those of the load from the next turn on",
            EVERYWHERE,
            new_servers
        ),
        row!(
            "session/resume",
            "replays nothing",
            "no update before the answer, and the next prompt goes on with the conversation",
            EVERYWHERE,
            no_replay
        ),
        row!(
            "session/resume",
            "answers with modes and options, and needs no `mcpServers`",
            "the current mode; -32602 if `mcpServers` is there and no array",
            EVERYWHERE,
            resume_answers
        ),
        row!(
            "session/resume",
            "`cwd` is required, and must be the session's",
            "-32602 names the field, or both paths",
            EVERYWHERE,
            resume_cwd
        ),
        row!(
            "session/resume",
            "an unknown session is not found",
            "-32002 names it",
            EVERYWHERE,
            resume_unknown
        ),
    ]
}

async fn replay(scene: Scene) {
    let author = scene.peer().await;
    let session = author.new_session().await;
    let first = author.prompt(&session, "/think\nhello world\n/tool").await;
    let second = author.prompt(&session, "/plan\n/mode ask\n/usage").await;
    let third = author.prompt(&session, "/count 3").await;
    let reader = scene.peer().await;
    let history = reader.history(&session).await;

    // The user's words stand before what was said to them; who said them has not heard them again.
    let told: Vec<_> = history
        .iter()
        .filter(|update| update["sessionUpdate"] != "user_message_chunk")
        .cloned()
        .collect();
    let lived = [first.updates, second.updates, third.updates].concat();
    assert_eq!(told, lived);
    let asked: Vec<_> = of_kind(&history, "user_message_chunk");
    let asked: Vec<_> = asked
        .iter()
        .map(|update| &update["content"]["text"])
        .collect();
    let prompts = [
        "/think\nhello world\n/tool",
        "/plan\n/mode ask\n/usage",
        "/count 3",
    ];
    assert_eq!(asked, prompts);
    assert_eq!(history[0]["sessionUpdate"], "user_message_chunk");
    let last_question = history
        .iter()
        .rposition(|update| update["content"]["text"] == "/count 3");
    assert_eq!(last_question, Some(history.len() - 4));
}

async fn long_replay(scene: Scene) {
    let author = scene.peer().await;
    let session = author.new_session().await;
    author.prompt(&session, "/count 1000 size=100").await;
    let history = scene.peer().await.history(&session).await;
    let mut said = words(&history);
    for text in &mut said {
        text.truncate(text.trim_end_matches('.').len());
    }
    assert_eq!(said, counted(1000, 1));
}

async fn current_settings(scene: Scene) {
    let author = scene.peer().await;
    let session = author.new_session().await;
    author
        .prompt(&session, "/mode architect\n/config tone formal")
        .await;
    let (_, answer) = scene.peer().await.load(&session).await;
    let answer = answer.expect("session/load succeeds");
    assert_eq!(answer["modes"]["currentModeId"], "architect");
    let options = answer["configOptions"].as_array().expect("options");
    let tone = options.iter().find(|option| option["id"] == "tone");
    assert_eq!(tone.expect("an option")["currentValue"], "formal");
}

async fn wrong_cwd(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    let params = setup(json!({ "sessionId": session, "cwd": "/elsewhere" }));
    let answer = peer.call("session/load", params).await;
    refused(answer, -32602, &["\"/elsewhere\"", &format!("{CWD:?}")]);
    peer.works(&session).await;
}

async fn required(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    let without_cwd = json!({ "sessionId": session, "mcpServers": [] });
    let answer = peer.call("session/load", without_cwd).await;
    refused(answer, -32602, &["params.cwd"]);
    let without_servers = json!({ "sessionId": session, "cwd": CWD });
    let answer = peer.call("session/load", without_servers).await;
    refused(answer, -32602, &["params.mcpServers"]);
    let answer = peer.call("session/load", setup(json!({}))).await;
    refused(answer, -32602, &["params.sessionId"]);
}

async fn unknown(scene: Scene) {
    let (_, answer) = scene.peer().await.load(NOBODY).await;
    refused(answer, -32002, &[NOBODY]);
}

/// The id of no session.
pub const NOBODY: &str = "000-AAAAAAAAAAAAAAAAAAAAAA";

async fn during_a_turn(scene: Scene) {
    let author = scene.peer().await;
    let session = author.new_session().await;
    let asked = author.begin(&session, "/count 60 delay=10").await;
    author.hears(&session, "chunk 5 of 60, prompt 1 ").await;
    let reader = scene.peer().await;
    let history = words(&reader.history(&session).await);
    assert!(history.len() >= 5, "what was said before is history");
    reader.hears(&session, "chunk 60 of 60, prompt 1 ").await;
    assert_eq!(words(&reader.updates(&session)), counted(60, 1));
    assert_eq!(author.turn(&asked, &session).await.words(), counted(60, 1));
    reader.works(&session).await;
}

async fn twice(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    peer.prompt(&session, "/count 3\n/plan").await;
    let first = peer.history(&session).await;
    assert_eq!(words(&first), counted(3, 1));
    assert_eq!(peer.history(&session).await, first);
}

async fn new_servers(scene: Scene) {
    let peer = scene.peer().await;
    let old = json!([{ "name": "old", "command": "/bin/true", "args": [], "env": [] }]);
    let session = peer.new_session_with(json!({ "mcpServers": old })).await;
    let new = json!([{ "name": "new", "command": "/bin/true", "args": [], "env": [] }]);
    let params =
        json!({ "sessionId": session, "mcpServers": new, "additionalDirectories": ["/srv"] });
    let loaded = peer.call("session/load", setup(params)).await;
    loaded.expect("session/load succeeds");
    let said = peer.prompt(&session, "/servers").await.words().concat();
    assert_eq!(said.trim(), "servers: new; directories: /srv");
}

async fn no_replay(scene: Scene) {
    let author = scene.peer().await;
    let session = author.new_session().await;
    author.prompt(&session, "/count 5").await;
    let reader = scene.peer().await;
    reader.resume(&session).await;
    assert_eq!(reader.updates(&session), [] as [serde_json::Value; 0]);
    let turn = reader.prompt(&session, "/count 2").await;
    assert_eq!(turn.words(), counted(2, 2));
    assert_eq!(words(&reader.updates(&session)), counted(2, 2));
}

async fn resume_answers(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    peer.prompt(&session, "/mode ask").await;
    let params = json!({ "sessionId": session, "cwd": CWD });
    let answer = peer.call("session/resume", params).await;
    let answer = answer.expect("session/resume succeeds");
    assert_eq!(answer["modes"]["currentModeId"], "ask");
    let params = setup(json!({ "sessionId": session, "mcpServers": 7 }));
    let answer = peer.call("session/resume", params).await;
    refused(answer, -32602, &["params.mcpServers"]);
}

async fn resume_cwd(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    let answer = peer
        .call("session/resume", json!({ "sessionId": session }))
        .await;
    refused(answer, -32602, &["params.cwd"]);
    let params = json!({ "sessionId": session, "cwd": "/elsewhere" });
    let answer = peer.call("session/resume", params).await;
    refused(answer, -32602, &["\"/elsewhere\"", &format!("{CWD:?}")]);
}

async fn resume_unknown(scene: Scene) {
    let params = json!({ "sessionId": NOBODY, "cwd": CWD });
    let answer = scene.peer().await.call("session/resume", params).await;
    refused(answer, -32002, &[NOBODY]);
}
