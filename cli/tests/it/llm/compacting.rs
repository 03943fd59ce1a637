//! Conversations that become too long are summed up.

use serde_json::{Value, json};

use super::editor::Editor;
use super::{served, staged_with};
use crate::support::model_server::{ModelCall, ModelScript, ModelServer, ScriptStep};

fn asks_for_summary(call: &ModelCall) -> bool {
    call.prompt().starts_with("Sum up our conversation")
}

/// A model that sums up when it is asked to, and otherwise agrees.
fn agreeable(model: &ModelServer) {
    model.always(|call| {
        if asks_for_summary(call) {
            ModelScript::text("The word is pineapple.")
        } else {
            ModelScript::text("ok")
        }
    });
}

fn compactions(editor: &Editor) -> Vec<Value> {
    let calls = editor.updates("tool_call").into_iter();
    calls
        .filter(|it| it["title"] == "Sum up the conversation")
        .collect()
}

fn long(word: &str) -> String {
    format!("{word} {}", "and so on ".repeat(400))
}

#[tokio::test]
async fn a_conversation_that_is_too_long_is_summed_up_and_goes_on() {
    let (model, baton) = served(&["--llm-context", "4000"]).await;
    agreeable(&model);
    let mut editor = Editor::begin(&baton.url()).await;
    for word in ["one", "two"] {
        editor.turn(&long(word)).await;
    }
    assert!(compactions(&editor).is_empty());
    editor.turn(&long("three")).await;
    assert_eq!(compactions(&editor).len(), 1);
    assert!(editor.shows("The word is pineapple."));
    let calls = model.calls();
    assert!(asks_for_summary(&calls[2]), "{:?}", calls[2].body);
    let last = calls[3].body.to_string();
    assert!(last.contains("The word is pineapple.") && last.contains("three"));
    assert!(!last.contains("one and so on"), "{last}");
    // What was said is not said again as an answer.
    assert_eq!(editor.said(), "okokok");
}

#[tokio::test]
async fn a_user_may_want_a_summary_at_any_time() {
    let (model, baton) = served(&[]).await;
    agreeable(&model);
    let mut editor = Editor::begin(&baton.url()).await;
    editor.turn("/compact").await;
    assert!(
        editor.said().contains("nothing to sum up"),
        "{}",
        editor.said()
    );
    assert!(model.calls().is_empty());
    editor
        .turn("The word is pineapple, and the colour is blue.")
        .await;
    editor.turn("/compact").await;
    assert_eq!(compactions(&editor).len(), 1);
    editor.turn("What is the word?").await;
    let last = model.calls().pop().expect("a call").body.to_string();
    assert!(
        last.contains("A summary of our conversation") && !last.contains("blue"),
        "{last}"
    );
    // A model that fails leaves the conversation as it is.
    let body = json!({ "error": { "message": "no" } });
    model.then(ModelScript::error(400, body));
    editor.turn("/compact").await;
    assert!(
        editor.said().contains("could not be summed up"),
        "{}",
        editor.said()
    );
    editor.turn("And now?").await;
    let last = model.calls().pop().expect("a call").body.to_string();
    assert!(last.contains("What is the word?"), "{last}");
}

#[tokio::test]
async fn a_summary_survives_the_worker_that_began_it() {
    let (model, mut staged) = staged_with(&[]).await;
    let mut editor = Editor::begin(&staged.url()).await;
    agreeable(&model);
    editor
        .turn("The word is pineapple, and the colour is blue.")
        .await;
    model.then(ModelScript::text("never shown").until(1, ScriptStep::Stall));
    let id = editor.ask("/compact").await;
    while compactions(&editor).is_empty() {
        editor.next().await;
    }
    model.call(1).await;
    let holder = staged.holder(&editor.session);
    staged.workers[holder].kill();
    let answer = editor.answer(&id).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!(compactions(&editor).len(), 1);
    assert!(editor.shows("The word is pineapple.") && !editor.shows("never shown"));
    // It is known to the worker after that one, too.
    let (other, killed) = (1 - holder, holder);
    staged.workers[killed] = super::worker(&staged, &model, 4);
    staged.workers[other].kill();
    editor.turn("What is the word?").await;
    let last = model.calls().pop().expect("a call").body.to_string();
    assert!(
        last.contains("A summary of our conversation") && !last.contains("blue"),
        "{last}"
    );
}
