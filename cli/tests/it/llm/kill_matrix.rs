//! The kill matrix: sessions whose turns consist of every kind of step, and workers that are killed
//! before, during and after them, by a seeded schedule. Each word is shown once and in order, no
//! finished tool runs twice, none that may have an effect more than once, and every turn ends.
//!
//! `make chaos AGENT=llm SECONDS=600 SEED=7` runs it for as long as you like.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};

use super::editor::Editor;
use super::{staged_with, variables};
use crate::stdio::Staged;
use crate::support::model_server::{ModelCall, ModelScript, ModelServer, WireProtocol};

/// `MATRIX_SECONDS=600` for more of it.
const SECONDS: u64 = 20;
const SESSIONS: usize = 6;
const RULE: (&str, &str) = ("BATON_ALLOW_MCP_STDIO", "**");
/// The answer when three workers in a row stopped while they worked on a request.
const GIVEN_UP: i64 = 5004;

fn asked(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.and_then(|it| it.parse().ok()).unwrap_or(default)
}

/// The words of a step, which come nowhere else.
fn words(turn: &str, step: usize) -> String {
    let word = |number| format!("{turn}-{step}-{number} ");
    (0..5).map(word).collect()
}

/// Every kind of step, one after the other.
fn script(turn: &str, step: usize) -> ModelScript {
    let said = ModelScript::text(&words(turn, step)).slowly(Duration::from_millis(15));
    let id = json!({ "id": format!("{turn}-{step}") }).to_string();
    match step {
        0 => said.and_call("n__add", &id),
        1 => said.and_call("n__look", &id).and_call("n__look", &id),
        2 => {
            let edit = json!({ "path": "/tmp/a", "old_text": "one", "new_text": "one." });
            said.and_call("edit_file", &edit.to_string())
        }
        3 => {
            let command = json!({ "command": format!("make {turn}") });
            said.and_call("run_command", &command.to_string())
        }
        4 => said.and_call("n__put", &id).and_call("n__add", &id),
        _ => said,
    }
}

const STEPS: usize = 6;

/// Which step of its turn a call of the model is for: by the messages that it has finished since
/// the user's last words.
fn step_of(call: &ModelCall) -> usize {
    let turn = call.prompt();
    let messages = call.messages().iter().rev();
    let own = messages
        .take_while(|it| it["role"] != "user" || !it["content"].to_string().contains(&turn));
    own.filter(|it| it["tool_calls"].is_array()).count()
}

/// The kind of the last message that each session's client has seen.
type LastSeen = Arc<Mutex<BTreeMap<String, String>>>;

fn kind(message: &Value) -> String {
    let update = &message["params"]["update"];
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    match (message["method"].as_str(), update["sessionUpdate"].as_str()) {
        (_, Some("tool_call_update")) => format!("tool {}", text(&update["status"])),
        (_, Some(kind)) => kind.to_owned(),
        (Some(method), None) => method.to_owned(),
        (None, None) => "answer".to_owned(),
    }
}

#[derive(Default)]
struct Tally {
    turns: usize,
    given_up: usize,
    unknown: usize,
}

/// One client, with turns until the time is over.
async fn live(url: &str, number: usize, notes: &Path, until: Instant, seen: LastSeen) -> Tally {
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp-servers/notebook.py");
    let servers = json!([{
        "name": "n", "command": "python3", "args": [server, notes], "env": [],
    }]);
    let fs = json!({ "readTextFile": true, "writeTextFile": true });
    let capabilities = json!({ "fs": fs, "terminal": true });
    let mut editor = Editor::begin_with(url, capabilities, servers).await;
    editor.files.insert("/tmp/a".into(), "one".into());
    let mut tally = Tally::default();
    while Instant::now() < until {
        let turn = format!("t{number}-{}", tally.turns);
        editor.seen.clear();
        editor.commands.clear();
        let id = editor.ask(&turn).await;
        let answer = loop {
            let message = editor.next().await;
            let mut all = seen.lock().expect("held for moments only");
            all.insert(editor.session.clone(), kind(&message));
            drop(all);
            if message["id"] == id && message.get("method").is_none() {
                break message;
            }
        };
        check(&editor, &turn, &answer, &mut tally);
    }
    tally
}

fn check(editor: &Editor, turn: &str, answer: &Value, tally: &mut Tally) {
    tally.turns += 1;
    let whole: String = (0..STEPS).map(|step| words(turn, step)).collect();
    let said = editor.said();
    if answer["error"]["code"] == GIVEN_UP {
        tally.given_up += 1;
        assert!(whole.starts_with(&said), "{turn}: {said}");
    } else {
        assert_eq!(
            answer["result"]["stopReason"], "end_turn",
            "{turn}: {answer}"
        );
        assert_eq!(said, whole, "{turn}");
        assert_eq!(editor.commands, [format!("make {turn}")]);
        assert_eq!(editor.requests("fs/write_text_file"), 1, "{turn}");
    }
    let shown = editor.updates("tool_call");
    let ids = shown.iter().filter_map(|it| it["toolCallId"].as_str());
    let ids: BTreeSet<_> = ids.collect();
    assert_eq!(ids.len(), shown.len(), "{turn}: a tool call is shown once");
    for id in ids {
        let updates = editor.updates("tool_call_update").into_iter();
        let ends = updates.filter(|it| {
            let over = it["status"] == "completed" || it["status"] == "failed";
            it["toolCallId"] == id && over
        });
        let ends: Vec<_> = ends.collect();
        assert!(ends.len() <= 1, "{turn}: {id} ends twice: {ends:?}");
        let unknown = ends
            .iter()
            .filter(|it| it["rawOutput"].to_string().contains("unknown"));
        tally.unknown += unknown.count();
    }
}

/// Kills workers until the time is over. Returns what sessions were at.
async fn kill(staged: &mut Staged, model_url: &str, until: Instant, seen: LastSeen) -> Kills {
    let seed = asked("MATRIX_SEED", 1);
    let mut random = StdRng::seed_from_u64(seed);
    let mut kills = Kills::default();
    let mut number = 10;
    while Instant::now() < until {
        let pause = random.random_range(700..2500);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let victim = random.random_range(0..staged.workers.len());
        let hit = seen.lock().expect("held for moments only").clone();
        staged.workers[victim].kill();
        kills.count += 1;
        for kind in hit.into_values() {
            *kills.moments.entry(kind).or_insert(0) += 1;
        }
        number += 1;
        staged.workers[victim] = staged.cluster.worker_with(number, |command| {
            command
                .env("BATON_AGENT", "llm")
                .envs(variables(model_url))
                .env(RULE.0, RULE.1);
        });
    }
    kills
}

#[derive(Default)]
struct Kills {
    count: usize,
    /// By what the sessions' clients had seen last.
    moments: BTreeMap<String, usize>,
}

/// Calls of tools as their server has noted them.
fn check_notes(notes: &Path) -> BTreeMap<String, usize> {
    let text = std::fs::read_to_string(notes).unwrap_or_default();
    let mut calls = BTreeMap::new();
    for line in text.lines() {
        *calls.entry(line.to_owned()).or_insert(0) += 1;
    }
    for (call, count) in &calls {
        let once = call.starts_with("add ");
        assert!(!once || *count == 1, "{call} was carried out {count} times");
    }
    calls
}

#[tokio::test]
async fn no_kill_of_a_worker_makes_a_difference() {
    let seconds = asked("MATRIX_SECONDS", SECONDS);
    let (model, mut staged) = staged_with(&[RULE]).await;
    model.always(|call| script(&call.prompt(), step_of(call)));
    let url = staged.url();
    let model_url = ModelServer::url(&model, WireProtocol::Chat);
    let dir = staged.cluster.dir().to_owned();
    let notes = |number: usize| -> PathBuf { dir.join(format!("notes-{number}")) };
    let until = Instant::now() + Duration::from_secs(seconds);
    let seen = LastSeen::default();
    let clients = (0..SESSIONS).map(|number| {
        let (url, notes, seen) = (url.clone(), notes(number), seen.clone());
        async move { live(&url, number, &notes, until, seen).await }
    });
    let killing = kill(&mut staged, &model_url, until, seen.clone());
    let (tallies, kills) = tokio::join!(join_all(clients), killing);
    let calls: Vec<_> = (0..SESSIONS)
        .map(|number| check_notes(&notes(number)))
        .collect();
    let sum = |count: fn(&Tally) -> usize| tallies.iter().map(count).sum::<usize>();
    let calls: usize = calls.iter().flat_map(BTreeMap::values).sum();
    println!(
        "{} kills, {} turns ({} given up), {calls} calls of MCP tools, {} with unknown outcome",
        kills.count,
        sum(|it| it.turns),
        sum(|it| it.given_up),
        sum(|it| it.unknown),
    );
    for (moment, count) in &kills.moments {
        println!("  {count:5} sessions were at: {moment}");
    }
    assert!(kills.count > 0 && sum(|it| it.turns) >= SESSIONS);
}
