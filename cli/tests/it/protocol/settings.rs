//! `session/set_mode`, `session/set_config_option`, `session/set_model`.

use serde_json::{Value, json};

use super::peer::{Answer, Peer};
use super::scene::{Scene, of_kind, refused};
use super::{EVERYWHERE, Row, UNASKED, row};

pub fn rows() -> Vec<Row> {
    vec![
        row!(
            "session/set_mode",
            "changes the mode",
            "the answer is `{}`, and a load shows the new mode",
            EVERYWHERE,
            mode
        ),
        row!(
            "session/set_mode",
            "announces the change before it answers",
            "`current_mode_update`, once, also to another connection",
            UNASKED,
            mode_announced
        ),
        row!(
            "session/set_mode",
            "an unknown mode is refused",
            "-32602 lists the modes there are; the mode stays",
            EVERYWHERE,
            unknown_mode
        ),
        row!(
            "session/set_mode",
            "works while a turn runs",
            "answered before the turn ends, and the turn goes on",
            EVERYWHERE,
            mode_during_a_turn
        ),
        row!(
            "session/set_config_option",
            "changes an option of each shape",
            "a select, a grouped select of category model, a boolean: the answer has all options, \
             one of them changed",
            EVERYWHERE,
            options
        ),
        row!(
            "session/set_config_option",
            "announces the change",
            "`config_option_update` with the list that the answer has, also to another connection",
            UNASKED,
            announced
        ),
        row!(
            "session/set_config_option",
            "an unknown option or value is refused",
            "-32602 lists those there are; nothing changes",
            EVERYWHERE,
            unknown_option
        ),
        row!(
            "session/set_config_option",
            "concerns one session",
            "another session of the same connection keeps its values",
            EVERYWHERE,
            isolated
        ),
        row!(
            "session/set_config_option",
            "works while a turn runs",
            "answered before the turn ends, and the turn goes on",
            EVERYWHERE,
            option_during_a_turn
        ),
        row!(
            "session/set_model",
            "is the option of category model",
            "a load shows the option's new value; -32602 lists the models for one that is not \
             there",
            EVERYWHERE,
            model
        ),
        row!(
            "session/set_model",
            "announces the change as that of an option",
            "`config_option_update` with the new model",
            UNASKED,
            model_announced
        ),
    ]
}

async fn set_mode(peer: &Peer, session: &str, mode: Value) -> Answer {
    let params = json!({ "sessionId": session, "modeId": mode });
    peer.call("session/set_mode", params).await
}

async fn set_option(peer: &Peer, session: &str, id: &str, value: Value) -> Answer {
    let mut params = json!({ "sessionId": session, "configId": id, "value": value });
    if value.is_boolean() {
        params["type"] = json!("boolean");
    }
    peer.call("session/set_config_option", params).await
}

/// The values in a list of options.
fn values(options: &Value) -> Vec<(String, Value)> {
    let options = options.as_array().expect("a list of options").iter();
    let pair = |option: &Value| {
        let id = option["id"].as_str().expect("an id");
        (id.to_owned(), option["currentValue"].clone())
    };
    options.map(pair).collect()
}

fn three(model: &str, tone: &str, verbose: bool) -> Vec<(String, Value)> {
    let pairs = [
        ("model", json!(model)),
        ("tone", json!(tone)),
        ("verbose", json!(verbose)),
    ];
    pairs.map(|(id, value)| (id.to_owned(), value)).into()
}

/// What a load of the session answers.
async fn shown(scene: &Scene, session: &str) -> Value {
    let (_, answer) = scene.peer().await.load(session).await;
    answer.expect("session/load succeeds")
}

async fn mode(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    let answer = set_mode(&peer, &session, json!("ask")).await;
    assert_eq!(answer.expect("it succeeds"), json!({}));
    assert_eq!(
        shown(&scene, &session).await["modes"]["currentModeId"],
        "ask"
    );
}

async fn mode_announced(scene: Scene) {
    let (peer, other) = (scene.peer().await, scene.peer().await);
    let session = peer.new_session().await;
    peer.works(&session).await;
    other.resume(&session).await;
    let params = json!({ "sessionId": session, "modeId": "ask" });
    let asked = peer.ask("session/set_mode", params).await;
    let update = json!({ "sessionUpdate": "current_mode_update", "currentModeId": "ask" });
    let heard = peer.updates_during(&asked, &session).await;
    assert_eq!(heard, std::slice::from_ref(&update));
    let is_update = |heard: &Value| *heard == update;
    other
        .inbox
        .update("the change is announced", &session, is_update)
        .await;
    assert_eq!(other.updates(&session).len(), 1);
}

async fn unknown_mode(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    let answer = set_mode(&peer, &session, json!("dance")).await;
    refused(answer, -32602, &["ask, code, architect"]);
    let answer = set_mode(&peer, &session, json!(7)).await;
    refused(answer, -32602, &["modeId"]);
    assert_eq!(
        shown(&scene, &session).await["modes"]["currentModeId"],
        "code"
    );
}

async fn mode_during_a_turn(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    let turn = peer.begin_endless(&session).await;
    let answer = set_mode(&peer, &session, json!("architect")).await;
    assert_eq!(answer.expect("it succeeds"), json!({}));
    peer.cancel(&session).await;
    assert_eq!(peer.turn(&turn, &session).await.stop, "cancelled");
    assert_eq!(
        shown(&scene, &session).await["modes"]["currentModeId"],
        "architect"
    );
}

async fn options(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    let steps = [
        ("tone", json!("formal"), three("small", "formal", false)),
        ("model", json!("large"), three("large", "formal", false)),
        ("verbose", json!(true), three("large", "formal", true)),
    ];
    for (id, value, expected) in steps {
        let answer = set_option(&peer, &session, id, value).await;
        let answer = answer.expect("it succeeds");
        assert_eq!(values(&answer["configOptions"]), expected);
    }
    let loaded = shown(&scene, &session).await;
    assert_eq!(
        values(&loaded["configOptions"]),
        three("large", "formal", true)
    );
}

async fn announced(scene: Scene) {
    let (peer, other) = (scene.peer().await, scene.peer().await);
    let session = peer.new_session().await;
    other.resume(&session).await;
    let answer = set_option(&peer, &session, "tone", json!("formal")).await;
    let answer = answer.expect("it succeeds");
    for peer in [&peer, &other] {
        let is_update = |update: &Value| update["sessionUpdate"] == "config_option_update";
        let update = peer
            .inbox
            .update("the change is announced", &session, is_update)
            .await;
        assert_eq!(update["configOptions"], answer["configOptions"]);
        assert_eq!(
            of_kind(&peer.updates(&session), "config_option_update").len(),
            1
        );
    }
}

async fn unknown_option(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    let answer = set_option(&peer, &session, "dance", json!("x")).await;
    refused(answer, -32602, &["model, tone, verbose"]);
    let answer = set_option(&peer, &session, "tone", json!("rude")).await;
    refused(answer, -32602, &["plain, formal"]);
    let answer = set_option(&peer, &session, "model", json!("huge")).await;
    refused(answer, -32602, &["small, medium, large"]);
    let answer = set_option(&peer, &session, "verbose", json!("maybe")).await;
    refused(answer, -32602, &["true", "false"]);
    let loaded = shown(&scene, &session).await;
    assert_eq!(
        values(&loaded["configOptions"]),
        three("small", "plain", false)
    );
}

async fn isolated(scene: Scene) {
    let peer = scene.peer().await;
    let (changed, kept) = (peer.new_session().await, peer.new_session().await);
    let answer = set_option(&peer, &changed, "tone", json!("formal")).await;
    answer.expect("it succeeds");
    set_mode(&peer, &changed, json!("ask"))
        .await
        .expect("it succeeds");
    let loaded = shown(&scene, &kept).await;
    assert_eq!(
        values(&loaded["configOptions"]),
        three("small", "plain", false)
    );
    assert_eq!(loaded["modes"]["currentModeId"], "code");
}

async fn option_during_a_turn(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    let turn = peer.begin_endless(&session).await;
    let answer = set_option(&peer, &session, "verbose", json!(true)).await;
    let answer = answer.expect("it succeeds");
    assert_eq!(
        values(&answer["configOptions"]),
        three("small", "plain", true)
    );
    peer.cancel(&session).await;
    assert_eq!(peer.turn(&turn, &session).await.stop, "cancelled");
}

async fn set_model(peer: &Peer, session: &str, model: &str) -> Answer {
    let params = json!({ "sessionId": session, "modelId": model });
    peer.call("session/set_model", params).await
}

async fn model(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    let answer = set_model(&peer, &session, "large").await;
    assert!(answer.expect("it succeeds").is_object());
    let answer = set_model(&peer, &session, "huge").await;
    refused(answer, -32602, &["small, medium, large"]);
    let loaded = shown(&scene, &session).await;
    assert_eq!(
        values(&loaded["configOptions"]),
        three("large", "plain", false)
    );
}

async fn model_announced(scene: Scene) {
    let peer = scene.peer().await;
    let session = peer.new_session().await;
    peer.works(&session).await;
    let params = json!({ "sessionId": session, "modelId": "medium" });
    let asked = peer.ask("session/set_model", params).await;
    let updates = peer.updates_during(&asked, &session).await;
    assert_eq!(updates.len(), 1);
    assert_eq!(
        values(&updates[0]["configOptions"]),
        three("medium", "plain", false)
    );
}
