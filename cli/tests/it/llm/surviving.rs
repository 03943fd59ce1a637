//! Workers that are killed in the middle of a turn. Another one goes on, and nothing is said or done
//! twice.

use serde_json::json;

use super::editor::Editor;
use super::{reads, runs, staged};
use crate::support::http::cancel;
use crate::support::model_server::{ModelScript, ScriptStep};
use crate::support::{Stream, until};

/// Numbered words, so that each is seen to come once and in order.
fn words(count: usize) -> String {
    (1..=count)
        .map(|number| format!("word-{number} "))
        .collect()
}

#[tokio::test]
async fn a_model_stream_goes_on_where_it_was_shown() {
    let (model, mut staged) = staged().await;
    let mut editor = Editor::begin(&staged.url()).await;
    let whole = words(60);
    let mut broken = ModelScript::text(&whole);
    broken.steps.insert(20, ScriptStep::Stall);
    model.then(broken).then(ModelScript::text(&whole));
    let id = editor.ask("Count").await;
    while !editor.said().ends_with("word-20 ") {
        editor.next().await;
    }
    let holder = staged.holder(&editor.session);
    staged.workers[holder].kill();
    let answer = editor.answer(&id).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!(editor.said(), whole);
    let chunks = editor.updates("agent_message_chunk");
    assert!(
        chunks
            .iter()
            .all(|it| it["messageId"] == chunks[0]["messageId"])
    );
    assert_eq!(editor.updates("session_info_update").len(), 1);
    // The second call had what was said as its beginning.
    let beginning = model.call(1).await.beginning().expect("a beginning");
    assert_eq!(beginning.trim_end(), words(20).trim_end());
    assert_eq!(model.calls().len(), 2);
}

#[tokio::test]
async fn a_permission_question_outlives_the_worker_that_asked() {
    let (model, mut staged) = staged().await;
    let mut editor = Editor::begin(&staged.url()).await;
    editor.silent = &["session/request_permission"];
    model.then(runs("make")).then(ModelScript::text("Made."));
    let id = editor.ask("Make it").await;
    let question = editor.asked("session/request_permission").await;
    let holder = staged.holder(&editor.session);
    staged.workers[holder].kill();
    editor.silent = &[];
    editor.reply(&question).await;
    let answer = editor.answer(&id).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!(
        (editor.commands.len(), editor.said().as_str()),
        (1, "Made.")
    );
    assert_eq!(editor.requests("session/request_permission"), 1);
    assert_eq!(editor.updates("tool_call").len(), 1);
    assert_eq!(model.calls().len(), 2);
}

#[tokio::test]
async fn a_running_command_runs_once_and_is_waited_for_elsewhere() {
    let (model, mut staged) = staged().await;
    let mut editor = Editor::begin(&staged.url()).await;
    editor.silent = &["terminal/wait_for_exit"];
    model
        .then(runs("deploy"))
        .then(ModelScript::text("Deployed."));
    let id = editor.ask("Deploy").await;
    let question = editor.asked("terminal/wait_for_exit").await;
    let holder = staged.holder(&editor.session);
    staged.workers[holder].kill();
    until("somebody else goes on", async || {
        let log = staged.workers[1 - holder].output();
        log.contains("resuming an interrupted turn").then_some(())
    })
    .await;
    editor.silent = &[];
    editor.reply(&question).await;
    let answer = editor.answer(&id).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!(editor.commands, ["deploy"]);
    for method in [
        "session/request_permission",
        "terminal/create",
        "terminal/release",
    ] {
        assert_eq!(editor.requests(method), 1, "{method}");
    }
    let told = model.call(1).await.tool_results();
    assert_eq!(
        told,
        [("call_1".to_owned(), "exit code 0\nprinted".to_owned())]
    );
    assert_eq!(editor.said(), "Deployed.");
}

#[tokio::test]
async fn a_finished_tool_never_runs_again() {
    let (model, mut staged) = staged().await;
    let mut editor = Editor::begin(&staged.url()).await;
    editor.files.insert("/tmp/a".into(), "alpha".into());
    model
        .then(reads("/tmp/a"))
        .then(ModelScript::text("never said").until(0, ScriptStep::Stall))
        .then(ModelScript::text("It says alpha."));
    let id = editor.ask("Read").await;
    while !editor
        .updates("tool_call_update")
        .iter()
        .any(|it| it["status"] == "completed")
    {
        editor.next().await;
    }
    model.call(1).await;
    let holder = staged.holder(&editor.session);
    staged.workers[holder].kill();
    let answer = editor.answer(&id).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!(editor.said(), "It says alpha.");
    assert_eq!(editor.requests("fs/read_text_file"), 1);
    assert_eq!(editor.updates("tool_call").len(), 1);
    let (again, before) = (model.call(2).await, model.call(1).await);
    assert_eq!(again.messages(), before.messages());
}

#[tokio::test]
async fn a_stopping_worker_hands_over_in_the_middle_of_the_stream() {
    let (model, staged) = staged().await;
    let mut editor = Editor::begin(&staged.url()).await;
    let whole = words(40);
    let mut held = ModelScript::text(&whole);
    held.steps.insert(10, ScriptStep::Stall);
    model.then(held).then(ModelScript::text(&whole));
    let id = editor.ask("Count").await;
    while !editor.said().ends_with("word-10 ") {
        editor.next().await;
    }
    let holder = staged.holder(&editor.session);
    staged.workers[holder].signal("TERM");
    editor.answer(&id).await;
    assert_eq!(editor.said(), whole);
}

#[tokio::test]
async fn a_cancel_reaches_the_turn_at_its_next_worker() {
    let (model, mut staged) = staged().await;
    let mut editor = Editor::begin(&staged.url()).await;
    editor.silent = &["terminal/wait_for_exit"];
    model
        .then(runs("sleep 1000"))
        .then(ModelScript::text("I see."));
    let id = editor.ask("Sleep").await;
    editor.asked("terminal/wait_for_exit").await;
    let holder = staged.holder(&editor.session);
    staged.workers[holder].kill();
    editor.client.post(cancel(&editor.session)).await;
    let answer = editor.answer(&id).await;
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    assert_eq!(editor.requests("terminal/release"), 1);
    // The model is told in the next turn.
    editor.turn("What happened?").await;
    let told = model.call(1).await;
    assert!(
        told.body.to_string().contains("cancelled the turn"),
        "{:?}",
        told.body
    );
    assert_eq!((model.calls().len(), editor.said().as_str()), (2, "I see."));
    // Nothing of it is open any more.
    let other = &editor.client;
    let mut stream: Stream = other.session_stream(&editor.session, None).await;
    other
        .post(crate::support::http::load(json!("l"), &editor.session))
        .await;
    stream.response(&json!("l")).await;
}

#[tokio::test]
async fn a_command_whose_terminal_is_just_being_opened_ends_with_a_cancel() {
    let (model, mut staged) = staged().await;
    for killed in [false, true] {
        let mut editor = Editor::begin(&staged.url()).await;
        editor.hold = Some(("terminal/create", 1));
        model.then(runs("sleep 1000"));
        let id = editor.ask("Sleep").await;
        while editor.held.is_none() {
            editor.next().await;
        }
        if killed {
            let holder = staged.holder(&editor.session);
            staged.workers[holder].kill();
        }
        editor.client.post(cancel(&editor.session)).await;
        editor.let_go().await;
        let answer = editor.answer(&id).await;
        assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
        assert_eq!(editor.requests("terminal/release"), 1, "killed: {killed}");
    }
}

#[tokio::test]
async fn a_running_command_ends_well_although_mode_and_worker_change() {
    let (model, mut staged) = staged().await;
    let mut editor = Editor::begin(&staged.url()).await;
    editor.silent = &["terminal/wait_for_exit"];
    model
        .then(runs("deploy"))
        .then(ModelScript::text("Deployed."));
    let id = editor.ask("Deploy").await;
    let question = editor.asked("terminal/wait_for_exit").await;
    let mode = json!({ "modeId": "architect" });
    editor.call("session/set_mode", mode).await;
    let holder = staged.holder(&editor.session);
    staged.workers[holder].kill();
    editor.silent = &[];
    editor.reply(&question).await;
    let answer = editor.answer(&id).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let outcome = ("completed".to_owned(), "exit code 0\nprinted".to_owned());
    assert_eq!(editor.outcomes(), [outcome]);
    assert_eq!(editor.commands, ["deploy"]);
}
