//! Each process of the agent gets the mode, model and options that were chosen for the session.

use std::time::Duration;

use serde_json::{Value, json};
use tempfile::{NamedTempFile, TempDir};
use tokio::time::sleep;

use super::{Staged, Visit, is_gone, served};
use crate::sessions::sessions;
use crate::support::http::load;
use crate::support::until;
use crate::support::{Client, Served};

const SOON: [&str; 2] = ["--agent-idle", "300ms"];

async fn call(visit: &Visit, method: &str, params: Value) -> Value {
    let mut params = params;
    params["sessionId"] = json!(visit.session);
    let id = json!(format!("{method} {params}"));
    let call = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    let mut body = visit.client.one_shot(call).await;
    body.response(&id).await
}

async fn chooses(visit: &Visit, method: &str, params: Value) {
    let answer = call(visit, method, params).await;
    assert!(answer["result"].is_object(), "{answer}");
}

/// Everything is other than a process begins with. The model first: another one sets the effort back.
async fn chosen(visit: &Visit) {
    chooses(visit, "session/set_mode", json!({ "modeId": "two" })).await;
    let effort = json!({ "configId": "effort", "value": "high" });
    chooses(
        visit,
        "session/set_model",
        json!({ "modelId": "large[low]" }),
    )
    .await;
    chooses(visit, "session/set_config_option", effort).await;
    let reach = json!({ "configId": "reach", "value": "nothing" });
    chooses(visit, "session/set_config_option", reach).await;
}

fn all() -> Value {
    json!({ "mode": "two", "model": "large[low]", "effort": "high", "reach": "nothing" })
}

async fn settings(visit: &mut Visit) -> Value {
    let said = visit.says("settings").await;
    serde_json::from_str(&said).expect("JSON")
}

/// An agent that does not know the modes and values which are in the file.
async fn forgetful() -> (NamedTempFile, Served, Visit) {
    let lost = NamedTempFile::new().expect("a file");
    let arguments = format!("--lost {}", lost.path().display());
    let baton = served(&arguments, &SOON).await;
    let visit = Visit::begin(&baton.url()).await;
    (lost, baton, visit)
}

async fn rests(visit: &mut Visit) {
    let pid = visit.says("pid").await;
    is_gone(&pid).await;
}

/// The settings as one sees them who comes by, after a while in which the agent may be stopped.
async fn visit_once(url: &str, session: &str) -> (String, Value) {
    sleep(Duration::from_millis(500)).await;
    let client = Client::initialize(url).await;
    let mut visit = Visit::of(client, session.to_owned()).await;
    chooses(
        &visit,
        "session/resume",
        json!({ "cwd": "/tmp", "mcpServers": [] }),
    )
    .await;
    visit.turn("settings").await
}

/// As a client sees it that comes later.
async fn view(url: &str, session: &str) -> Value {
    let client = Client::initialize(url).await;
    let mut body = client.one_shot(load(json!("l"), session)).await;
    let answer = body.response(&json!("l")).await;
    answer["result"].clone()
}

#[tokio::test]
async fn it_stays_when_the_agent_was_stopped_or_has_crashed() {
    let kept = TempDir::new().expect("a temporary directory");
    let kept = kept.path().display();
    let resumes = format!("--keep {kept} --ability resume");
    let quiet = format!("{resumes} --quiet");
    for arguments in ["", &resumes, &quiet] {
        let baton = served(arguments, &SOON).await;
        let mut visit = Visit::begin(&baton.url()).await;
        chosen(&visit).await;
        assert_eq!(settings(&mut visit).await, all());
        rests(&mut visit).await;
        assert_eq!(settings(&mut visit).await, all(), "{arguments}");
        let (_, answer) = visit.turn("exit 3").await;
        assert_eq!(answer["error"]["code"], 5006, "{answer}");
        assert_eq!(settings(&mut visit).await, all(), "{arguments}");
        let view = view(&baton.url(), &visit.session).await;
        assert_eq!(view["modes"]["currentModeId"], "two", "{view}");
        assert_eq!(view["models"]["currentModelId"], "large[low]", "{view}");
        assert_eq!(view["configOptions"][0]["currentValue"], "high", "{view}");
    }
}

#[tokio::test]
async fn nobody_hears_of_it_if_all_is_as_before() {
    let baton = served("", &SOON).await;
    let mut visit = Visit::begin(&baton.url()).await;
    chosen(&visit).await;
    rests(&mut visit).await;
    let id = visit.ask("say here").await;
    let (events, _) = visit.stream.until_response(&id).await;
    let kinds = events.iter().map(|event| event.message());
    let kinds: Vec<Value> = kinds
        .map(|message| message["params"]["update"]["sessionUpdate"].clone())
        .filter(|kind| kind == "current_mode_update" || kind == "config_option_update")
        .collect();
    assert!(kinds.is_empty(), "{kinds:?}");
}

#[tokio::test]
async fn it_stays_in_every_scope() {
    for scope in ["turn", "shared"] {
        let baton = served("", &["--agent-scope", scope, "--agent-idle", "300ms"]).await;
        let mut visit = Visit::begin(&baton.url()).await;
        chosen(&visit).await;
        assert_eq!(settings(&mut visit).await, all(), "{scope}");
        let (_, answer) = visit.turn("exit 3").await;
        assert_eq!(answer["error"]["code"], 5006, "{answer}");
        assert_eq!(settings(&mut visit).await, all(), "{scope}");
    }
}

#[tokio::test]
async fn a_fork_begins_with_it() {
    let baton = served("", &[]).await;
    let parent = Visit::begin(&baton.url()).await;
    chosen(&parent).await;
    let fork = json!({ "cwd": "/tmp", "mcpServers": [] });
    let forked = call(&parent, "session/fork", fork).await;
    let child = forked["result"]["sessionId"].as_str().expect("an id");
    let client = Client::initialize(&baton.url()).await;
    let mut child = Visit::of(client, child.to_owned()).await;
    chooses(
        &child,
        "session/load",
        json!({ "cwd": "/tmp", "mcpServers": [] }),
    )
    .await;
    assert_eq!(settings(&mut child).await, all());
}

/// Where it was exported, whose own word counts.
#[tokio::test]
async fn an_import_begins_with_it() {
    let baton = served("", &[]).await;
    let visit = Visit::begin(&baton.url()).await;
    chosen(&visit).await;
    let exported = sessions(&baton.url(), &["export", &visit.session], b"");
    assert!(exported.status.success(), "{exported:?}");
    let imported = sessions(&baton.url(), &["import"], &exported.stdout);
    assert!(imported.status.success(), "{imported:?}");
    let copy = String::from_utf8(imported.stdout).expect("text");
    let client = Client::initialize(&baton.url()).await;
    let mut copy = Visit::of(client, copy.trim().to_owned()).await;
    chooses(
        &copy,
        "session/load",
        json!({ "cwd": "/tmp", "mcpServers": [] }),
    )
    .await;
    assert_eq!(settings(&mut copy).await, all());
}

#[tokio::test]
async fn another_worker_sets_it_again() {
    let staged = Staged::start("", &[("BATON_LEASE_MS", "1000")]).await;
    let mut visit = Visit::begin(&staged.url()).await;
    chosen(&visit).await;
    assert_eq!(settings(&mut visit).await, all());
    let holder = staged.holder(&visit.session);
    staged.workers[holder].signal("KILL");
    let (said, answer) = visit.turn("settings").await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!(serde_json::from_str::<Value>(&said).expect("JSON"), all());
    assert_ne!(staged.holder(&visit.session), holder);
}

#[tokio::test]
async fn what_the_agent_changes_by_itself_stays_too() {
    let baton = served("", &SOON).await;
    let mut visit = Visit::begin(&baton.url()).await;
    visit.says("switch three").await;
    rests(&mut visit).await;
    assert_eq!(settings(&mut visit).await["mode"], "three");
    // A later choice counts.
    chooses(&visit, "session/set_mode", json!({ "modeId": "two" })).await;
    rests(&mut visit).await;
    assert_eq!(settings(&mut visit).await["mode"], "two");
}

/// The agent was replaced by one that has another set of modes.
#[tokio::test]
async fn without_its_mode_no_turn_runs_until_another_is_chosen() {
    let (lost, baton, mut visit) = forgetful().await;
    chosen(&visit).await;
    rests(&mut visit).await;
    std::fs::write(lost.path(), "two large[low]").expect("a file");
    for _ in 0..2 {
        let id = visit.ask("settings").await;
        let (events, answer) = visit.stream.until_response(&id).await;
        assert_eq!(answer["error"]["code"], 5007, "{answer}");
        let text = answer["error"]["message"].as_str().expect("words");
        assert!(text.contains("mode \"two\""), "{text}");
        assert!(events.iter().all(|event| event.chunk().is_none()));
    }
    // Everybody sees how it is.
    let shown = view(&baton.url(), &visit.session).await;
    assert_eq!(shown["modes"]["currentModeId"], "one", "{shown}");
    assert_eq!(shown["models"]["currentModelId"], "small", "{shown}");
    // Also when the agent has rested meanwhile.
    let (_, answer) = visit.turn("settings").await;
    assert_eq!(answer["error"]["code"], 5007, "{answer}");
    chooses(&visit, "session/set_mode", json!({ "modeId": "three" })).await;
    let now = settings(&mut visit).await;
    assert_eq!(
        (&now["mode"], &now["model"]),
        (&json!("three"), &json!("small"))
    );
    assert_eq!(
        (&now["effort"], &now["reach"]),
        (&json!("high"), &json!("nothing"))
    );
}

/// The same may be chosen again, if the agent takes it by then.
#[tokio::test]
async fn what_was_refused_may_be_chosen_again() {
    let (lost, _baton, mut visit) = forgetful().await;
    chooses(&visit, "session/set_mode", json!({ "modeId": "two" })).await;
    rests(&mut visit).await;
    std::fs::write(lost.path(), "two").expect("a file");
    let (_, answer) = visit.turn("settings").await;
    assert_eq!(answer["error"]["code"], 5007, "{answer}");
    std::fs::write(lost.path(), "").expect("a file");
    // The request has an id of its own.
    let again = json!({ "modeId": "two", "_meta": {} });
    chooses(&visit, "session/set_mode", again).await;
    assert_eq!(settings(&mut visit).await["mode"], "two");
}

#[tokio::test]
async fn clients_hear_that_the_mode_is_another_one() {
    let (lost, baton, mut visit) = forgetful().await;
    chosen(&visit).await;
    rests(&mut visit).await;
    std::fs::write(lost.path(), "two").expect("a file");
    let id = visit.ask("settings").await;
    let (events, _) = visit.stream.until_response(&id).await;
    let updates = events
        .iter()
        .map(|event| event.message()["params"]["update"].clone());
    let modes: Vec<Value> = updates
        .filter(|update| update["sessionUpdate"] == "current_mode_update")
        .map(|update| update["currentModeId"].clone())
        .collect();
    assert_eq!(modes, ["one"]);
    // When the agent has it again, it is as it was chosen.
    std::fs::write(lost.path(), "").expect("a file");
    until("the agent was stopped", async || {
        let (said, _) = visit_once(&baton.url(), &visit.session).await;
        said.contains("\"mode\": \"two\"").then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_the_agent_makes_of_a_choice_counts() {
    let baton = served("", &SOON).await;
    let mut visit = Visit::begin(&baton.url()).await;
    let reach = json!({ "configId": "reach", "value": "hardly-anything" });
    chooses(&visit, "session/set_config_option", reach).await;
    rests(&mut visit).await;
    assert_eq!(settings(&mut visit).await["reach"], "nothing");
}

#[tokio::test]
async fn a_model_that_is_gone_stops_nobody() {
    let (lost, _baton, mut visit) = forgetful().await;
    chosen(&visit).await;
    rests(&mut visit).await;
    std::fs::write(lost.path(), "large[low]").expect("a file");
    let now = settings(&mut visit).await;
    assert_eq!(
        (&now["mode"], &now["model"]),
        (&json!("two"), &json!("small"))
    );
}
