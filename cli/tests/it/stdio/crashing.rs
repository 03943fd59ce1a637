//! Agents and workers that end in the middle of something.

use serde_json::{Value, json};

use super::{CONTEXT, Staged, Visit, descendants, is_gone, served};
use crate::support::process::baton;
use crate::support::until;

const INTERRUPTED: i64 = 5005;
const AGENT_FAILED: i64 = 5006;

/// A turn that goes on for ever.
async fn endless(staged: &Staged) -> (Visit, Value) {
    let mut visit = Visit::begin(&staged.url()).await;
    visit.says("say the word is pineapple").await;
    let id = visit.ask("count 1000000 20").await;
    visit.next_chunk().await;
    (visit, id)
}

/// What the worker has started: guard, the first process and the agent. Agents have their own numbers there.
fn started(staged: &Staged, holder: usize) -> Vec<String> {
    let pids = descendants(&staged.workers[holder].id().to_string());
    assert!(pids.len() >= 3, "{pids:?}");
    pids
}

async fn are_gone(pids: &[String]) {
    for pid in pids {
        is_gone(pid).await;
    }
}

#[tokio::test]
async fn a_killed_workers_turn_fails_and_the_next_prompt_knows_what_was_said() {
    let mut staged = Staged::start("", &[]).await;
    let (mut visit, id) = endless(&staged).await;
    let holder = staged.holder(&visit.session);
    let pids = started(&staged, holder);
    staged.workers[holder].kill();
    let (_, answer) = visit.end_of(&id).await;
    assert_eq!(answer["error"]["code"], INTERRUPTED, "{answer}");
    assert_eq!(answer["error"]["data"]["retryable"], true);
    are_gone(&pids).await;
    let told = visit.told().await;
    assert!(
        told.len() == 1 && told[0][0].starts_with(CONTEXT),
        "{told:?}"
    );
    assert!(told[0][0].contains("pineapple"), "{told:?}");
}

#[tokio::test]
async fn a_killed_workers_turn_is_finished_if_it_may_be() {
    let variables = [("BATON_ON_CRASH", "resume")];
    let mut staged = Staged::start("", &variables).await;
    let mut visit = Visit::begin(&staged.url()).await;
    let id = visit.ask("count 60 50").await;
    visit.next_chunk().await;
    let holder = staged.holder(&visit.session);
    let pids = started(&staged, holder);
    staged.workers[holder].kill();
    let (said, answer) = visit.end_of(&id).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    // What was said before stands, at least the chunk that was read above; then it is said once more, from the
    // beginning.
    let whole: String = (1..=60).map(|number| format!("{number} ")).collect();
    assert!(said.ends_with(&whole), "{said}");
    are_gone(&pids).await;
}

#[tokio::test]
async fn a_worker_that_stops_finishes_its_turn_first() {
    let mut staged = Staged::start("", &[]).await;
    let mut visit = Visit::begin(&staged.url()).await;
    let id = visit.ask("count 100 30").await;
    visit.next_chunk().await;
    let holder = staged.holder(&visit.session);
    let pids = started(&staged, holder);
    staged.workers[holder].signal("TERM");
    let (said, answer) = visit.end_of(&id).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert!(said.ends_with(" 100 "), "{said}");
    assert!(staged.workers[holder].exit_status().await.success());
    are_gone(&pids).await;
    assert_eq!(visit.says("say elsewhere").await, "elsewhere");
    assert_eq!(staged.holder(&visit.session), 1 - holder);
}

#[tokio::test]
async fn when_the_grace_is_over_a_turn_is_cut() {
    let variables = [("BATON_GRACE_MS", "100")];
    let mut staged = Staged::start("", &variables).await;
    let (mut visit, id) = endless(&staged).await;
    let holder = staged.holder(&visit.session);
    let pids = started(&staged, holder);
    staged.workers[holder].signal("TERM");
    let (_, answer) = visit.end_of(&id).await;
    assert_eq!(answer["error"]["code"], INTERRUPTED, "{answer}");
    assert!(staged.workers[holder].exit_status().await.success());
    are_gone(&pids).await;
}

#[tokio::test]
async fn an_agent_that_ends_in_a_turn_is_reported_with_its_last_words() {
    let baton = served("", &["--agent-stderr", "client"]).await;
    let mut visit = Visit::begin(&baton.url()).await;
    let (said, answer) = visit.turn("say before\nstderr out of tokens\nexit 7").await;
    assert_eq!(said, "before");
    assert_eq!(answer["error"]["code"], AGENT_FAILED, "{answer}");
    let message = answer["error"]["message"].as_str().expect("a message");
    assert!(message.contains("exited with status 7"), "{message}");
    assert_eq!(answer["error"]["data"]["stderr"][0], "out of tokens");
    let told = visit.told().await;
    assert!(told[0][0].contains("Assistant: before"), "{told:?}");
    let log = baton.process.output();
    let line = log.lines().find(|line| line.contains("out of tokens"));
    assert!(
        line.expect("it is in the log").contains(&visit.session),
        "{log}"
    );
}

#[tokio::test]
async fn a_turn_that_ends_its_agent_is_not_tried_for_ever() {
    let baton = served("", &["--on-crash", "resume"]).await;
    let mut visit = Visit::begin(&baton.url()).await;
    let (said, answer) = visit.turn("say x\nexit 0").await;
    assert_eq!(said, "xxx");
    assert_eq!(answer["error"]["code"], AGENT_FAILED, "{answer}");
    assert_eq!(visit.says("say still here").await, "still here");
}

async fn next_question(visit: &mut Visit, heard: &mut Vec<Value>) -> Value {
    loop {
        let message = visit.stream.next().await.expect("an event").message();
        if message["method"] == "session/request_permission" {
            return message;
        }
        heard.push(message);
    }
}

/// Its question is withdrawn before another is asked.
#[tokio::test]
async fn an_agent_that_is_asked_once_more_asks_once() {
    let baton = served("", &["--on-crash", "resume"]).await;
    let mut visit = Visit::begin(&baton.url()).await;
    let id = visit.ask("ask").await;
    let mut heard = Vec::new();
    let question = next_question(&mut visit, &mut heard).await;
    for pid in descendants(&baton.process.id().to_string()) {
        // Some end with others.
        let _ = std::process::Command::new("kill")
            .args(["-9", &pid])
            .status();
    }
    let again = next_question(&mut visit, &mut heard).await;
    let withdrawn = heard.iter().any(|it| {
        it["method"] == "$/cancel_request" && it["params"]["requestId"] == question["id"]
    });
    assert!(withdrawn, "{heard:?}");
    assert_ne!(again["id"], question["id"]);
    let outcome = json!({ "outcome": "selected", "optionId": "yes" });
    let answer = json!({ "jsonrpc": "2.0", "id": again["id"], "result": { "outcome": outcome } });
    visit.client.post(answer).await;
    let (said, answer) = visit.end_of(&id).await;
    assert!(said.contains("yes"), "{said} {answer}");
}

#[tokio::test]
async fn nothing_of_an_agent_outlives_its_worker() {
    let mut baton = served("", &[]).await;
    let mut visit = Visit::begin(&baton.url()).await;
    let pids = visit.says("children").await;
    let pids: Vec<_> = pids.split(' ').collect();
    assert_eq!(pids.len(), 3, "{pids:?}");
    assert!(pids.iter().all(|pid| super::is_alive(pid)), "{pids:?}");
    baton.process.kill();
    for pid in pids {
        is_gone(pid).await;
    }
}

#[tokio::test]
async fn nothing_of_an_agent_outlives_its_session() {
    let baton = served("", &[]).await;
    let mut visit = Visit::begin(&baton.url()).await;
    let pids = visit.says("children").await;
    let close = serde_json::json!({ "sessionId": visit.session });
    let close = serde_json::json!({ "jsonrpc": "2.0", "id": "c", "method": "session/close", "params": close });
    visit.client.post(close).await;
    visit.stream.response(&serde_json::json!("c")).await;
    for pid in pids.split(' ') {
        is_gone(pid).await;
    }
}

/// Whoever is killed, the worker or the guard: with a process that has left its group and its parent, and is deaf.
#[tokio::test]
async fn nothing_of_an_agent_with_its_own_processes_outlives_its_worker_or_guard() {
    for victim in ["worker", "guard"] {
        // A guard that is killed leaves the agent's folder behind.
        let temporary = tempfile::TempDir::new().expect("a temporary directory");
        let folder = temporary.path().to_str().expect("a plain path");
        let mut staged = Staged::start("", &[("TMPDIR", folder)]).await;
        let mut visit = Visit::begin(&staged.url()).await;
        visit.says("children").await;
        let holder = staged.holder(&visit.session);
        let pids = started(&staged, holder);
        // All but the guard have a number in their own namespace, too.
        let status = |pid: &String| std::fs::read_to_string(super::process(pid).join("status"));
        let numbers = |status: String| {
            let mut lines = status.lines();
            let numbers = lines.find_map(|line| line.strip_prefix("NSpid:"));
            numbers.map_or(0, |numbers| numbers.split_whitespace().count())
        };
        let numbers: Vec<_> = pids.iter().flat_map(status).map(numbers).collect();
        assert_eq!(numbers, [1, 2, 2, 2, 2], "{pids:?}");
        match victim {
            "worker" => staged.workers[holder].kill(),
            _ => {
                let guard = rustix::process::Pid::from_raw(pids[0].parse().expect("a number"));
                let kill = rustix::process::Signal::KILL;
                rustix::process::kill_process(guard.expect("a process"), kill).expect("it runs");
            }
        }
        are_gone(&pids).await;
    }
}

#[test]
fn an_agent_that_cannot_start_says_why() {
    for (agent, why) in [
        (super::actor("--start exit"), "there is no licence"),
        (
            "stdio:no-such-agent --acp".to_owned(),
            "cannot start no-such-agent",
        ),
    ] {
        let output = baton()
            .args([
                "serve",
                "--ephemeral",
                "--listen",
                "127.0.0.1:0",
                "--agent",
                &agent,
            ])
            .output()
            .expect("baton runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{said}");
    }
}

#[tokio::test]
async fn an_agent_that_stops_starting_is_left_alone_for_a_while() {
    let switch = tempfile::TempDir::new().expect("a temporary directory");
    let off = switch.path().join("off");
    // Starts as long as it is not switched off.
    let agent = super::actor("").replacen("stdio:", "", 1);
    let script = format!(
        "test -e {} && echo switched off >&2 && exit 1; exec {agent}",
        off.display()
    );
    let agent = format!("stdio:sh -c '{script}'");
    let baton = crate::support::Served::start_with(&[
        "--ephemeral",
        "--agent-stderr",
        "client",
        // Nobody sees through a shell's script what it needs.
        "--agent-sandbox-read",
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/agents"),
        "--agent",
        &agent,
    ])
    .await;
    let mut visit = Visit::begin(&baton.url()).await;
    let pid = visit.says("pid").await;
    std::fs::write(&off, "").expect("the directory is writable");
    visit.turn("exit 1").await;
    is_gone(&pid).await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        let (_, answer) = visit.turn("say x").await;
        assert_eq!(answer["error"]["code"], AGENT_FAILED, "{answer}");
        seen.push(answer["error"]["data"].clone());
    }
    assert_eq!(seen[0]["stderr"][0], "switched off", "{seen:?}");
    assert!(
        seen.iter().any(|data| data["retryAfterMs"].is_u64()),
        "{seen:?}"
    );
    std::fs::remove_file(&off).expect("the directory is writable");
    let visit = tokio::sync::Mutex::new(visit);
    until("the agent is tried again", async || {
        let (said, _) = visit.lock().await.turn("say back").await;
        (said == "back").then_some(())
    })
    .await;
}
