//! The moments of a turn, each in a session of its own: then all workers are killed at once, and new
//! ones go on with every turn.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::editor::Editor;
use super::{staged, worker};
use crate::support::model_server::{ModelCall, ModelScript, ModelServer, ScriptStep};
use crate::support::within;

#[derive(Clone, Copy, Debug)]
enum Moment {
    /// The model stands still in this message, after so many pieces of it.
    Model(usize, usize),
    /// The client keeps this question back, the first or a later one of its kind.
    Question(&'static str, usize),
}

const PERMISSION: &str = "session/request_permission";
const MOMENTS: [Moment; 18] = [
    Moment::Model(0, 0),
    Moment::Model(0, 1),
    Moment::Model(0, 2),
    Moment::Model(0, 3),
    Moment::Model(0, 4),
    Moment::Question("fs/read_text_file", 1),
    Moment::Question(PERMISSION, 1),
    Moment::Question("fs/read_text_file", 2),
    Moment::Question("fs/write_text_file", 1),
    Moment::Model(1, 0),
    Moment::Question(PERMISSION, 2),
    Moment::Question("terminal/create", 1),
    Moment::Question("terminal/wait_for_exit", 1),
    Moment::Question("terminal/output", 1),
    Moment::Question("terminal/release", 1),
    Moment::Model(2, 0),
    Moment::Model(2, 2),
    Moment::Model(2, 4),
];

/// What the model says: it edits a file, runs a command, and reports.
fn message(step: usize) -> ModelScript {
    let text = |text: &str| ScriptStep::Text(text.to_owned());
    match step {
        0 => {
            let words = ["First I ", "change ", "the file. "];
            let thought = ScriptStep::Think("hm".into());
            let steps = [thought].into_iter().chain(words.map(text));
            let edit = json!({ "path": "/tmp/a", "old_text": "one", "new_text": "1" });
            ModelScript::of(steps).and_call("edit_file", &edit.to_string())
        }
        1 => ModelScript::call("run_command", &json!({ "command": "make" })),
        _ => ModelScript::of(["All ", "of it ", "is done ", "now."].map(text)),
    }
}

const SAID: &str = "First I change the file. All of it is done now.";

/// The turns that have come to their moment; each stands still there once.
type Reached = Arc<Mutex<BTreeSet<usize>>>;

fn answer(call: &ModelCall, reached: &Reached) -> ModelScript {
    let number: usize = call.prompt().parse().expect("prompts are numbers");
    let tools = call.messages().iter().filter(|it| it["role"] == "tool");
    let step = tools.count();
    let script = message(step);
    match MOMENTS[number] {
        Moment::Model(at, after) if at == step => {
            let mut reached = reached.lock().expect("held for moments only");
            if reached.insert(number) {
                return script.until(after, ScriptStep::Stall);
            }
            script
        }
        _ => script,
    }
}

/// Goes on with a turn up to its moment.
async fn come_to(editor: &mut Editor, number: usize, reached: &Reached) -> Value {
    let answer = editor
        .call("session/set_mode", json!({ "modeId": "ask" }))
        .await;
    assert!(answer.get("result").is_some(), "{answer}");
    editor.files.insert("/tmp/a".into(), "one two".into());
    if let Moment::Question(method, nth) = MOMENTS[number] {
        editor.hold = Some((method, nth));
    }
    let id = editor.ask(&number.to_string()).await;
    within("the turn comes to its moment", async {
        loop {
            let stands = reached
                .lock()
                .expect("held for moments only")
                .contains(&number);
            if stands || editor.held.is_some() {
                break;
            }
            editor.next_within(Duration::from_millis(50)).await;
        }
    })
    .await;
    id
}

fn check(editor: &Editor, moment: Moment, answer: &Value) {
    assert_eq!(
        answer["result"]["stopReason"], "end_turn",
        "{moment:?}: {answer}"
    );
    assert_eq!(editor.said(), SAID, "{moment:?}");
    assert_eq!(editor.files["/tmp/a"], "1 two", "{moment:?}");
    assert_eq!(editor.commands, ["make"], "{moment:?}");
    let counts = [
        (PERMISSION, 2),
        ("fs/read_text_file", 2),
        ("fs/write_text_file", 1),
        ("terminal/create", 1),
        ("terminal/wait_for_exit", 1),
        ("terminal/output", 1),
        ("terminal/release", 1),
    ];
    for (method, count) in counts {
        assert_eq!(editor.requests(method), count, "{moment:?}: {method}");
    }
    assert_eq!(editor.updates("tool_call").len(), 2, "{moment:?}");
    assert_eq!(editor.updates("usage_update").len(), 3, "{moment:?}");
}

/// Each turn's last call has told the model the same.
fn check_calls(model: &ModelServer) {
    let told = |number: usize| {
        let calls = model.calls();
        let mut calls = calls.iter().rev();
        let last = calls.find(|call| call.prompt() == number.to_string());
        let last = last.expect("every turn has called the model");
        let messages = last.messages().iter();
        let tools = messages.filter(|message| message["role"] == "tool");
        tools.cloned().collect::<Vec<_>>()
    };
    let first = told(0);
    assert_eq!(first.len(), 2);
    for (number, moment) in MOMENTS.iter().enumerate() {
        assert_eq!(told(number), first, "{moment:?}");
    }
}

#[tokio::test]
async fn every_moment_of_a_turn_may_be_its_workers_last() {
    let (model, mut staged) = staged().await;
    let reached = Reached::default();
    let rule = reached.clone();
    model.always(move |call| answer(call, &rule));
    let url = staged.url();
    let turns = (0..MOMENTS.len()).map(async |number| {
        let mut editor = Editor::begin(&url).await;
        let id = come_to(&mut editor, number, &reached).await;
        (editor, id)
    });
    let turns = join_all(turns).await;
    staged.workers.iter_mut().for_each(|worker| worker.kill());
    staged.workers = (4..6)
        .map(|number| worker(&staged, &model, number))
        .collect();
    let ends = turns
        .into_iter()
        .enumerate()
        .map(async |(number, (mut editor, id))| {
            editor.let_go().await;
            let answer = editor.answer(&id).await;
            check(&editor, MOMENTS[number], &answer);
        });
    join_all(ends).await;
    check_calls(&model);
}
