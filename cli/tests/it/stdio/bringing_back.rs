//! An agent's process ends, and its session goes on with another.

use serde_json::json;
use tempfile::TempDir;

use super::{CONTEXT, Visit, is_gone, served};
use crate::support::http::load;
use crate::support::{Client, Event};

/// Stopped soon, but not while a test asks one thing after the other.
const SOON: [&str; 2] = ["--agent-idle", "300ms"];

/// An agent that has heard a word, and was stopped since.
async fn stopped(url: &str) -> Visit {
    let mut visit = Visit::begin(url).await;
    visit.says("say the word is pineapple").await;
    let pid = visit.says("pid").await;
    is_gone(&pid).await;
    visit
}

#[tokio::test]
async fn an_agent_that_forgets_is_told_once() {
    let baton = served("", &SOON).await;
    let mut visit = stopped(&baton.url()).await;
    let told = visit.told().await;
    assert_eq!(told.len(), 1, "{told:?}");
    let [context, request] = &told[0][..] else {
        panic!("{told:?}")
    };
    assert!(context.starts_with(CONTEXT), "{context}");
    assert!(
        context.contains("User: say the word is pineapple"),
        "{context}"
    );
    assert!(
        context.contains("Assistant: the word is pineapple"),
        "{context}"
    );
    assert_eq!(request, "recall");
    assert!(!context.contains("recall"), "{context}");
    // It is there now, and needs no telling.
    assert_eq!(visit.told().await.last().unwrap()[..], ["recall"]);
    // Nothing of that was shown to anybody.
    let client = Client::initialize(&baton.url()).await;
    let load = load(json!("l"), &visit.session);
    let mut shown = client.one_shot(load).await;
    let (events, _) = shown.until_response(&json!("l")).await;
    let users = events.iter().map(|event| event.message());
    let users: Vec<_> = users
        .filter(|m| m["params"]["update"]["sessionUpdate"] == "user_message_chunk")
        .map(|m| {
            m["params"]["update"]["content"]["text"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(
        users,
        ["say the word is pineapple", "pid", "recall", "recall"]
    );
}

#[tokio::test]
async fn an_agent_that_remembers_is_asked_to() {
    for ability in ["resume", "load"] {
        let kept = TempDir::new().expect("a temporary directory");
        let arguments = format!("--keep {} --ability {ability}", kept.path().display());
        let baton = served(&arguments, &SOON).await;
        let mut visit = stopped(&baton.url()).await;
        let told = visit.told().await;
        let requests: Vec<_> = told.iter().map(|texts| &texts[..]).collect();
        assert_eq!(
            requests,
            [["say the word is pineapple"], ["pid"], ["recall"]],
            "{ability}"
        );
        if ability == "load" {
            // What it replays is not what it said then.
            let said = baton.process.output();
            assert!(
                said.contains("remembers the conversation otherwise"),
                "{said}"
            );
        }
        // It has forgotten everything: then it is told, as any other.
        let pid = visit.says("pid").await;
        is_gone(&pid).await;
        for file in std::fs::read_dir(kept.path()).unwrap() {
            std::fs::remove_file(file.unwrap().path()).unwrap();
        }
        let told = visit.told().await;
        assert!(
            told.len() == 1 && told[0][0].starts_with(CONTEXT),
            "{told:?}"
        );
    }
}

/// The worker neither shows nor keeps again what the agent tells of the past, in time or late.
#[tokio::test]
async fn what_an_agent_replays_is_not_said_again() {
    for (ability, when) in [
        ("resume", "in-time"),
        ("resume", "late"),
        ("resume", "prompt"),
        ("load", "in-time"),
        ("load", "late"),
        ("load", "prompt"),
    ] {
        let kept = TempDir::new().expect("a temporary directory");
        let kept = kept.path().display();
        let arguments = format!("--keep {kept} --ability {ability} --replay {when}");
        // Each turn has a process of its own, which tells the past.
        let baton = served(&arguments, &["--agent-scope", "turn"]).await;
        let mut visit = Visit::begin(&baton.url()).await;
        for word in ["one", "two", "three"] {
            let id = visit.ask(&format!("say {word} of them")).await;
            let (events, _) = visit.stream.until_response(&id).await;
            let said: String = events.iter().filter_map(Event::chunk).collect();
            assert_eq!(said, format!("{word} of them"), "{ability} {when}");
            let tools = events
                .iter()
                .filter(|event| event.data.contains("Of long ago"));
            assert_eq!(tools.count(), 0, "{ability} {when}");
        }
        let client = Client::initialize(&baton.url()).await;
        let mut shown = client.one_shot(load(json!("l"), &visit.session)).await;
        let (events, _) = shown.until_response(&json!("l")).await;
        let said: String = events.iter().filter_map(Event::chunk).collect();
        assert_eq!(
            said, "one of themtwo of themthree of them",
            "{ability} {when}"
        );
    }
}

#[tokio::test]
async fn a_fork_knows_what_was_said_and_goes_its_own_way() {
    let kept = TempDir::new().expect("a temporary directory");
    let arguments = format!("--keep {} --ability resume", kept.path().display());
    let baton = served(&arguments, &[]).await;
    let mut parent = Visit::begin(&baton.url()).await;
    parent.says("say the word is pineapple").await;
    let fork = json!({ "sessionId": parent.session, "cwd": "/tmp", "mcpServers": [] });
    let fork = json!({ "jsonrpc": "2.0", "id": "f", "method": "session/fork", "params": fork });
    let answer = parent
        .client
        .one_shot(fork)
        .await
        .response(&json!("f"))
        .await;
    let child = answer["result"]["sessionId"]
        .as_str()
        .expect("an id")
        .to_owned();
    let client = Client::initialize(&baton.url()).await;
    let mut child = Visit::of(client, child).await;
    let load = load(json!("l"), &child.session);
    let loaded = child
        .client
        .one_shot(load)
        .await
        .response(&json!("l"))
        .await;
    assert_eq!(loaded["result"]["modes"]["currentModeId"], "one");
    let told = child.told().await;
    assert!(
        told.len() == 1 && told[0][0].contains("pineapple"),
        "{told:?}"
    );
    child.says("say only here").await;
    assert_eq!(parent.told().await.len(), 2);
}

#[tokio::test]
async fn each_turn_may_have_a_process_of_its_own() {
    let baton = served("", &["--agent-scope", "turn"]).await;
    let mut visit = Visit::begin(&baton.url()).await;
    let first = visit.says("pid").await;
    let second = visit.says("pid").await;
    assert_ne!(first, second);
    is_gone(&first).await;
    let told = visit.told().await;
    assert!(told.len() == 1 && told[0][0].contains(CONTEXT), "{told:?}");
}

#[tokio::test]
async fn all_sessions_may_share_one_process() {
    let baton = served("", &["--agent-scope", "shared"]).await;
    let mut one = Visit::begin(&baton.url()).await;
    let mut two = Visit::begin(&baton.url()).await;
    assert_eq!(one.says("pid").await, two.says("pid").await);
    // At once, each hears its own.
    let (a, b) = (one.ask("count 50 2").await, two.ask("count 30 3").await);
    let count = |most: u32| {
        (1..=most)
            .map(|number| format!("{number} "))
            .collect::<String>()
    };
    assert_eq!(one.end_of(&a).await.0, count(50));
    assert_eq!(two.end_of(&b).await.0, count(30));
    assert_eq!(two.told().await.len(), 3);
}

#[tokio::test]
async fn one_is_ready_before_it_is_needed() {
    let baton = served("", &["--agent-warm", "1"]).await;
    let mut pids = Vec::new();
    for _ in 0..3 {
        let mut visit = Visit::begin(&baton.url()).await;
        pids.push(visit.says("pid").await);
    }
    pids.dedup();
    assert_eq!(pids.len(), 3, "each session has its own");
}

#[tokio::test]
async fn a_session_that_comes_back_to_a_shared_agent_as_another_is_heard() {
    let baton = served("", &["--agent-scope", "shared"]).await;
    let _other = Visit::begin(&baton.url()).await;
    let mut visit = Visit::begin(&baton.url()).await;
    visit.says("say one").await;
    let close = json!({ "sessionId": visit.session });
    let close = json!({ "jsonrpc": "2.0", "id": "c", "method": "session/close", "params": close });
    visit
        .client
        .one_shot(close)
        .await
        .response(&json!("c"))
        .await;
    let client = Client::initialize(&baton.url()).await;
    let load = load(json!("l"), &visit.session);
    client.one_shot(load).await.response(&json!("l")).await;
    // The agent knows it by another name now.
    let mut visit = Visit::of(client, visit.session).await;
    assert_eq!(visit.says("say two").await, "two");
}

#[tokio::test]
async fn what_an_agent_says_about_itself_is_no_fault() {
    for scope in ["session", "shared"] {
        let arguments = ["--agent-scope", scope, "--agent-warm", "1"];
        let baton = served("--start status", &arguments).await;
        let mut visit = Visit::begin(&baton.url()).await;
        assert_eq!(visit.says("say here").await, "here");
        let log = baton.process.output();
        let warned = log.matches("agent message for an unknown session").count();
        // The commands of a session that has no name yet reach nobody where processes are shared.
        assert_eq!(warned, usize::from(scope == "shared"), "{log}");
    }
}
