//! Tools of the client.

use serde_json::{Value, json};

use super::editor::Editor;
use super::{reads, runs, served};
use crate::support::Client;
use crate::support::http::prompt;
use crate::support::model_server::ModelScript;

/// What the model was told of its calls.
fn results(call: &crate::support::model_server::ModelCall) -> Vec<String> {
    call.tool_results()
        .into_iter()
        .map(|(_, text)| text)
        .collect()
}

async fn set_mode(editor: &mut Editor, mode: &str) {
    let answer = editor
        .call("session/set_mode", json!({ "modeId": mode }))
        .await;
    assert!(answer.get("result").is_some(), "{answer}");
}

#[tokio::test]
async fn files_are_read_and_edited_with_a_diff() {
    let (model, baton) = served(&[]).await;
    let mut editor = Editor::begin(&baton.url()).await;
    editor.files.insert("/tmp/a".into(), "one two three".into());
    let edit = json!({ "path": "/tmp/a", "old_text": "two", "new_text": "2" });
    model
        .then(reads("a"))
        .then(ModelScript::call("edit_file", &edit))
        .then(ModelScript::call(
            "write_file",
            &json!({ "path": "/tmp/b", "content": "new" }),
        ))
        .then(ModelScript::text("Done."));
    let answer = editor.turn("Write 2 for two").await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!(editor.files["/tmp/a"], "one 2 three");
    assert_eq!(editor.files["/tmp/b"], "new");
    assert_eq!(editor.requests("session/request_permission"), 0);
    assert_eq!(results(&model.call(1).await), ["one two three"]);
    let calls = editor.updates("tool_call");
    assert_eq!(calls[0]["kind"], "read");
    assert_eq!(calls[0]["locations"][0]["path"], "/tmp/a");
    assert_eq!(calls[1]["rawInput"], edit);
    let updates = editor.updates("tool_call_update");
    let diff = updates.iter().find(|it| it["content"][0]["type"] == "diff");
    let diff = &diff.expect("a diff is shown")["content"][0];
    assert_eq!(
        (&diff["oldText"], &diff["newText"]),
        (&json!("two"), &json!("2"))
    );
    let statuses: Vec<_> = updates.iter().map(|it| it["status"].clone()).collect();
    let pair = ["in_progress", "completed"];
    assert_eq!(statuses, [pair, pair, pair].concat());
}

#[tokio::test]
async fn a_mode_decides_what_is_asked_and_the_answer_counts() {
    let (model, baton) = served(&[]).await;
    let mut editor = Editor::begin(&baton.url()).await;
    set_mode(&mut editor, "ask").await;
    let write = || ModelScript::call("write_file", &json!({ "path": "/tmp/a", "content": "x" }));
    editor.permission = "reject_once";
    model.then(write()).then(ModelScript::text("I did not."));
    editor.turn("Write").await;
    assert!(editor.files.is_empty());
    assert_eq!(editor.requests("session/request_permission"), 1);
    assert!(results(&model.call(1).await)[0].contains("rejected"));
    let asked = editor
        .seen
        .iter()
        .find(|it| it["method"] == "session/request_permission");
    assert_eq!(
        asked.unwrap()["params"]["toolCall"]["content"][0]["type"],
        "diff"
    );
    // Allowed for good: from then on nobody is asked.
    editor.permission = "allow_always";
    model
        .then(write())
        .then(write())
        .then(ModelScript::text("Now I did."));
    editor.turn("Write").await;
    assert_eq!(editor.requests("session/request_permission"), 2);
    assert_eq!(editor.files["/tmp/a"], "x");
    // Commands are still asked about, in this mode and the next.
    editor.permission = "allow_once";
    set_mode(&mut editor, "code").await;
    model.then(runs("date")).then(ModelScript::text("It is."));
    editor.turn("What day is it?").await;
    assert_eq!(
        (
            editor.requests("session/request_permission"),
            editor.commands.len()
        ),
        (3, 1)
    );
    assert_eq!(
        results(model.calls().last().unwrap()),
        ["exit code 0\nprinted"]
    );
    set_mode(&mut editor, "architect").await;
    model.then(write()).then(ModelScript::text("I cannot."));
    editor.turn("Write").await;
    let last = model.calls().pop().unwrap();
    assert_eq!(last.tools(), ["read_file", "update_plan"]);
    assert!(results(&last)[0].contains("There is no tool"));
}

#[tokio::test]
async fn calls_that_make_no_sense_go_back_to_the_model() {
    let (model, baton) = served(&[]).await;
    let mut editor = Editor::begin(&baton.url()).await;
    let wrong = ModelScript::of([])
        .and_call("read_file", "{\"path\":")
        .and_call("no_such_tool", "{}")
        .and_call("read_file", "{\"path\":\"/none\"}")
        .and_call("read_file", "[]");
    model.then(wrong).then(ModelScript::text("Sorry."));
    let answer = editor.turn("Try").await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let told = results(&model.call(1).await);
    let words = [
        "cannot be understood",
        "There is no tool",
        "no such file",
        "cannot be understood",
    ];
    for (told, word) in told.iter().zip(words) {
        assert!(told.contains(word), "{told}");
    }
    assert_eq!(told.len(), 4);
    let failed = editor.updates("tool_call_update");
    assert_eq!(
        failed.iter().filter(|it| it["status"] == "failed").count(),
        4
    );
}

#[tokio::test]
async fn a_plan_is_shown_and_long_output_is_cut() {
    let (model, baton) = served(&["--llm-tool-output", "1"]).await;
    let mut editor = Editor::begin(&baton.url()).await;
    editor
        .files
        .insert("/tmp/long".into(), "long ".repeat(10_000));
    let entries = json!([{ "content": "look", "status": "in_progress" }]);
    model
        .then(ModelScript::call(
            "update_plan",
            &json!({ "entries": entries }),
        ))
        .then(reads("/tmp/long"))
        .then(ModelScript::text("It is long."));
    editor.turn("Look").await;
    assert_eq!(editor.updates("plan")[0]["entries"][0]["content"], "look");
    let told = results(&model.call(2).await).remove(0);
    assert!(
        told.len() < 1200 && told.contains("bytes were left out"),
        "{told}"
    );
}

#[tokio::test]
async fn a_turn_takes_no_more_steps_than_it_may() {
    let (model, baton) = served(&["--llm-steps", "3"]).await;
    let mut editor = Editor::begin(&baton.url()).await;
    model.always(|_| reads("/none"));
    let answer = editor.turn("For ever").await;
    assert_eq!(
        answer["result"]["stopReason"], "max_turn_requests",
        "{answer}"
    );
    assert_eq!(model.calls().len(), 3);
}

#[tokio::test]
async fn a_client_without_files_is_offered_no_tools_for_them() {
    let (model, baton) = served(&[]).await;
    let client = Client::initialize(&baton.url()).await;
    let session = client.new_session().await;
    model.then(ModelScript::text("I see nothing."));
    let mut stream = client.one_shot(prompt(json!(1), &session, "Look")).await;
    assert_eq!(stream.turn(&json!(1)).await.concat(), "I see nothing.");
    assert_eq!(model.call(0).await.tools(), ["update_plan"]);
}

#[tokio::test]
async fn a_cancelled_command_is_given_up() {
    let (model, baton) = served(&[]).await;
    let mut editor = Editor::begin(&baton.url()).await;
    editor.silent = &["terminal/wait_for_exit"];
    model.then(runs("sleep 1000"));
    let id = editor.ask("Sleep").await;
    editor.asked("terminal/wait_for_exit").await;
    editor
        .client
        .post(crate::support::http::cancel(&editor.session))
        .await;
    let answer: Value = editor.answer(&id).await;
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    assert_eq!(editor.requests("terminal/release"), 1);
    let last = editor.updates("tool_call_update").pop().unwrap();
    assert_eq!(last["status"], "failed", "{last}");
}
