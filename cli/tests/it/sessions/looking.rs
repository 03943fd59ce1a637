//! `list` and `show`, which change nothing.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use super::{NOBODY, document, printed, refused, said};
use crate::support::http::prompt;
use crate::support::process::baton;
use crate::support::{Client, Served};

async fn in_directory(client: &Client, id: &str, cwd: &str) -> String {
    let params = json!({ "cwd": cwd, "mcpServers": [] });
    let new = json!({ "jsonrpc": "2.0", "id": id, "method": "session/new", "params": params });
    let answer = client.one_shot(new).await.response(&json!(id)).await;
    answer["result"]["sessionId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_list_has_every_session_on_a_line() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let url = baton.url();
    assert_eq!(printed(&url, &["list"]).lines().count(), 1, "a heading");
    let client = Client::initialize(&url).await;
    // More than a page.
    let mut ids = Vec::new();
    for number in 0..60 {
        let cwd = if number % 20 == 0 { "/rare" } else { "/often" };
        ids.push(in_directory(&client, &format!("new-{number}"), cwd).await);
    }
    said(&client, &ids[7], "1", "/title Seven \u{1b}[2J\u{9b}31m").await;
    let list = printed(&url, &["list"]);
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines.len(), 61);
    for heading in ["ID", "UPDATED", "CWD", "TITLE"] {
        assert!(lines[0].contains(heading), "{}", lines[0]);
    }
    assert!(ids.iter().all(|id| list.contains(id)), "{list}");
    // Changed last, so first; and what an agent calls it does nothing to a terminal.
    assert!(lines[1].starts_with(&ids[7]), "{}", lines[1]);
    assert!(
        lines[1].ends_with("Seven \\u{1b}[2J\\u{9b}31m"),
        "{}",
        lines[1]
    );

    assert_eq!(
        printed(&url, &["list", "--limit", "55"]).lines().count(),
        56
    );
    let rare = document(&url, &["list", "--cwd", "/rare", "--json"]);
    let rare = rare["sessions"].as_array().expect("a list");
    assert_eq!(rare.len(), 3);
    assert!(rare.iter().all(|session| session["cwd"] == "/rare"));
    let text = printed(&url, &["list", "--json"]);
    assert!(!text.contains('\u{9b}'), "{text}");
    let all: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(all["sessions"].as_array().expect("a list").len(), 60);
    assert_eq!(all["sessions"][0]["title"], "Seven \u{1b}[2J\u{9b}31m");
}

#[tokio::test]
async fn a_conversation_is_shown_as_it_went() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let url = baton.url();
    let client = Client::initialize(&url).await;
    let session = client.new_session().await;
    let script = "/think\n/plan\n/tool\n/title A title\n/usage\n/mode ask\nnice \u{1b}[31mwords";
    said(&client, &session, "1", script).await;
    let shown = printed(&url, &["show", &session]);
    for line in [
        &format!("session {session}")[..],
        "  /think",
        "thought",
        "plan:",
        "  [x] look",
        "  [ ] act",
        "tool: ",
        "title: A title",
        "usage: 1000 of 200000 tokens",
        "mode: ask",
        "  nice \\u{1b}[31mwords",
    ] {
        let found = shown.lines().any(|shown| shown.starts_with(line));
        assert!(found, "{line:?} is not in {shown}");
    }
    let text = printed(&url, &["show", &session, "--json"]);
    assert!(!text.contains("eyJ") && !text.contains('\u{1b}'), "{text}");
    let shown: Value = serde_json::from_str(&text).expect("one document");
    assert_eq!(shown["sessionId"], json!(session));
    assert_eq!(shown["modes"]["currentModeId"], "ask");
    let updates = shown["updates"].as_array().expect("a list");
    assert_eq!(updates[0]["sessionUpdate"], "user_message_chunk");
    assert_eq!(updates[0]["content"]["text"], script);

    let fault = refused(&url, &["show", NOBODY, "--json"]);
    assert!(fault.contains("there is no session"), "{fault}");
}

#[tokio::test]
async fn who_looks_at_a_session_takes_nothing_from_its_client() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let client = Client::initialize(&baton.url()).await;
    let session = client.new_session().await;
    let asks = prompt(json!(1), &session, "/permission\nafterwards");
    let mut stream = client.one_shot(asks).await;
    let question = loop {
        let message = stream.next().await.expect("a question").message();
        if message["method"] == "session/request_permission" {
            break message;
        }
    };
    let shown = printed(&baton.url(), &["show", &session]);
    assert!(shown.contains("tool: "), "{shown}");
    let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } });
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": outcome });
    client.post(answer).await;
    let words = stream.turn(&json!(1)).await.concat();
    assert_eq!(words, "permission allow_once afterwards ");
}

#[tokio::test]
async fn a_pipe_that_is_closed_is_no_fault() {
    let baton_at = Served::start_with(&["--ephemeral"]).await;
    let client = Client::initialize(&baton_at.url()).await;
    let session = client.new_session().await;
    // More than a pipe holds.
    said(&client, &session, "1", "/count 1000 size=1000").await;
    let url = baton_at.url().replace("/acp", "");
    for verb in ["show", "export"] {
        let mut child = baton()
            .args(["sessions", "--url", &url, verb, &session])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("baton runs");
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        output.read_line(&mut line).expect("a line");
        assert!(line.contains(&session), "{line}");
        drop(output);
        let ended = child.wait_with_output().expect("it ends");
        assert!(
            ended.status.success() && ended.stderr.is_empty(),
            "{ended:?}"
        );
    }
}
