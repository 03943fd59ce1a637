//! `session/prompt`.

use serde_json::{Value, json};

use super::scene::{Scene, of_kind, refused, selected, words};
use super::{EVERYWHERE, QUEUE, Row, row};
use crate::support::sse::counted;

pub fn rows() -> Vec<Row> {
    vec![
        row!(
            "session/prompt",
            "takes every kind of content",
            "text, image, audio, resource and resource_link arrive at the agent, and come back \
             byte for byte when the session is loaded",
            EVERYWHERE,
            content
        ),
        row!(
            "session/prompt",
            "a content block that is none is refused",
            "-32602 names the block's place: no type, an unknown type, a field that is missing or \
             of the wrong type; nothing of it is in the history",
            EVERYWHERE,
            malformed_content
        ),
        row!(
            "session/prompt",
            "`prompt` is an array",
            "-32602 names `params.prompt`",
            EVERYWHERE,
            prompt_is_an_array
        ),
        row!(
            "session/prompt",
            "the answer says why the turn ended",
            "`end_turn`, `max_tokens`, `max_turn_requests`, `refusal`, `cancelled`",
            EVERYWHERE,
            stop_reasons
        ),
        row!(
            "session/prompt",
            "an agent's failure is an error, and the session goes on",
            "-32603, then a prompt that works",
            EVERYWHERE,
            failure
        ),
        row!(
            "session/prompt",
            "prompts wait for the one before",
            "five sent at once are answered in order, none of their words mixed",
            EVERYWHERE,
            in_order
        ),
        row!(
            "session/prompt",
            "a full queue is said at once",
            "4003 for one prompt too many; all others are answered",
            EVERYWHERE,
            queue_full
        ),
        row!(
            "session/prompt",
            "sessions do not wait for each other",
            "a turn in one ends while a turn in another goes on",
            EVERYWHERE,
            side_by_side
        ),
        row!(
            "session/prompt",
            "the chunks of a message carry its id",
            "one `messageId` for the words of the agent, another for those of the next turn, the \
             same when loaded",
            EVERYWHERE,
            message_ids
        ),
        row!(
            "session/request_permission",
            "asks the client and takes its answer",
            "each option, and an outcome of `cancelled`",
            EVERYWHERE,
            permission
        ),
        row!(
            "fs, terminal, elicitation",
            "asks only what the client has announced",
            "without the capabilities the agent is told; with them each method is asked and its \
             answer used",
            EVERYWHERE,
            client_methods
        ),
    ]
}

fn every_kind() -> Vec<Value> {
    vec![
        json!({ "type": "text", "text": "hello", "annotations": { "priority": 0.5 } }),
        json!({ "type": "image", "mimeType": "image/png", "data": "AAAA" }),
        json!({ "type": "audio", "mimeType": "audio/wav", "data": "BBBB" }),
        json!({ "type": "resource", "resource": { "uri": "file:///a", "text": "inside", "mimeType": "text/plain" } }),
        json!({ "type": "resource", "resource": { "uri": "file:///b", "blob": "CCCC" } }),
        json!({ "type": "resource_link", "uri": "file:///c", "name": "c", "size": 7, "_meta": { "kept": true } }),
    ]
}

async fn content(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    let params = json!({ "sessionId": session, "prompt": every_kind() });
    let asked = peer.ask("session/prompt", params).await;
    let said = peer.turn(&asked, &session).await.words().concat();
    assert_eq!(
        said,
        "hello [image] [audio] [resource] [resource] [resource_link] "
    );
    let history = scene.peer().await.history(&session).await;
    let told = of_kind(&history, "user_message_chunk");
    let told: Vec<_> = told
        .iter()
        .map(|update| update["content"].clone())
        .collect();
    assert_eq!(told, every_kind());
}

async fn malformed_content(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    let wrong = [
        json!({ "text": "no type" }),
        json!({ "type": "dance" }),
        json!({ "type": "text" }),
        json!({ "type": "text", "text": 7 }),
        json!({ "type": "image", "data": "AAAA" }),
        json!({ "type": "audio", "mimeType": "audio/wav" }),
        json!({ "type": "resource", "resource": { "text": "no uri" } }),
        json!({ "type": "resource_link", "name": "no uri" }),
        json!("just text"),
        json!(null),
    ];
    for block in wrong {
        let prompt = json!([{ "type": "text", "text": "fine" }, block]);
        let params = json!({ "sessionId": session, "prompt": prompt });
        let answer = peer.call("session/prompt", params).await;
        refused(answer, -32602, &["params.prompt[1]"]);
    }
    let history = scene.peer().await.history(&session).await;
    assert_eq!(history, [] as [Value; 0]);
    peer.works(&session).await;
}

async fn prompt_is_an_array(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    let missing = json!({ "sessionId": session });
    let text = json!({ "sessionId": session, "prompt": "hello" });
    let null = json!({ "sessionId": session, "prompt": null });
    for params in [missing, text, null] {
        let answer = peer.call("session/prompt", params).await;
        refused(answer, -32602, &["params.prompt", "array"]);
    }
    peer.works(&session).await;
}

async fn stop_reasons(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    let reasons = [
        "end_turn",
        "max_tokens",
        "max_turn_requests",
        "refusal",
        "cancelled",
    ];
    for reason in reasons {
        let turn = peer
            .prompt(&session, &format!("hello\n/stop {reason}"))
            .await;
        assert_eq!(
            (&*turn.stop, turn.words()),
            (reason, vec!["hello ".to_owned()])
        );
    }
}

async fn failure(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    let asked = peer.begin(&session, "/fail").await;
    refused(peer.answer(&asked).await, -32603, &["/fail"]);
    peer.works(&session).await;
}

async fn in_order(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    let mut asked = Vec::new();
    for number in 1..=5 {
        let text = format!("/count {number} delay=5");
        asked.push((number, peer.begin(&session, &text).await));
    }
    let mut said = Vec::new();
    for (number, asked) in &asked {
        assert_eq!(peer.turn(asked, &session).await.stop, "end_turn");
        said.extend(counted(*number, *number));
    }
    // The bodies of one-shot requests arrive in any order; the history has the one that counts.
    let history = scene.peer().await.history(&session).await;
    assert_eq!(words(&history), said);
}

async fn queue_full(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    let running = peer.begin_endless(&session).await;
    // The one that runs counts, too.
    let mut waiting = vec![running];
    for _ in 1..QUEUE {
        waiting.push(peer.begin(&session, "hello").await);
    }
    let refused_prompt = peer.begin(&session, "one too many").await;
    refused(peer.answer(&refused_prompt).await, 4003, &["wait"]);
    peer.cancel(&session).await;
    for asked in &waiting {
        let ended = peer.answer(asked).await.expect("the prompt is answered");
        assert_eq!(ended["stopReason"], "cancelled");
    }
    peer.works(&session).await;
}

async fn side_by_side(scene: Scene) {
    let peer = scene.peer().await;
    let (first, second) = (peer.new_session().await, peer.new_session().await);
    let running = peer.begin_endless(&first).await;
    peer.works(&second).await;
    peer.cancel(&first).await;
    assert_eq!(peer.turn(&running, &first).await.stop, "cancelled");
}

async fn message_ids(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    let first = peer.prompt(&session, "/count 3").await;
    let second = peer.prompt(&session, "/count 2").await;
    let id = |update: &Value| {
        update["messageId"]
            .as_str()
            .expect("a messageId")
            .to_owned()
    };
    let ids = |updates: &[Value]| {
        let mut ids: Vec<_> = updates.iter().map(id).collect();
        ids.dedup();
        ids
    };
    let (first, second) = (ids(&first.updates), ids(&second.updates));
    assert_eq!((first.len(), second.len()), (1, 1));
    assert_ne!(first, second);
    let history = scene.peer().await.history(&session).await;
    let told = ids(&of_kind(&history, "agent_message_chunk"));
    assert_eq!(told, [first, second].concat());
}

async fn permission(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    let options = ["allow_once", "allow_always", "reject_once"];
    for (number, option) in options.into_iter().enumerate() {
        let asked = peer.begin(&session, "/permission").await;
        let question = peer.inbox.question(&session, number).await;
        assert_eq!(question["method"], "session/request_permission");
        peer.reply(&question, selected(option)).await;
        let turn = peer.turn(&asked, &session).await;
        assert_eq!(turn.words(), [format!("permission {option} ")]);
    }
    let asked = peer.begin(&session, "/permission").await;
    let question = peer.inbox.question(&session, options.len()).await;
    let cancelled = json!({ "outcome": { "outcome": "cancelled" } });
    peer.reply(&question, cancelled).await;
    assert_eq!(peer.turn(&asked, &session).await.stop, "cancelled");
}

const SCRIPT: &str = "/read /a\n/write /b text\n/terminal true\n/elicit";

async fn client_methods(scene: Scene) {
    let unable = scene.peer().await;
    let session = unable.new_session().await;
    let said = unable.prompt(&session, SCRIPT).await.words().concat();
    assert_eq!(
        said.matches("cannot").count() + said.matches("has no").count(),
        4,
        "{said}"
    );
    assert_eq!(unable.inbox.questions(&session), [] as [Value; 0]);

    let fs = json!({ "readTextFile": true, "writeTextFile": true });
    let capabilities = json!({ "fs": fs, "terminal": true, "elicitation": { "form": {} } });
    let able = scene.able_peer(capabilities).await;
    let session = able.new_session().await;
    let asked = able.begin(&session, SCRIPT).await;
    let answers = [
        ("fs/read_text_file", json!({ "content": "read " })),
        ("fs/write_text_file", json!({})),
        ("terminal/create", json!({ "terminalId": "t" })),
        ("terminal/wait_for_exit", json!({ "exitCode": 0 })),
        (
            "terminal/output",
            json!({ "output": "printed ", "truncated": false }),
        ),
        ("terminal/release", json!({})),
        (
            "elicitation/create",
            json!({ "action": "accept", "content": { "name": "Ada" } }),
        ),
    ];
    for (number, (method, answer)) in answers.into_iter().enumerate() {
        let question = able.inbox.question(&session, number).await;
        assert_eq!(question["method"], method);
        able.reply(&question, answer).await;
    }
    let said = able.turn(&asked, &session).await.words().concat();
    assert_eq!(said, "read wrote /b printed elicitation accept Ada ");
}
