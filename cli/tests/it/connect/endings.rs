//! However an editor leaves, nothing of it stays behind, and what it said has been heard.

use serde_json::{Value, json};

use super::editor::Editor;
use crate::support::http::prompt;
use crate::support::process::memory;
use crate::support::sse::{chunk_of, counted};
use crate::support::{Client, Served, until};

/// As the gateway counts them.
async fn streams(baton: &Served) -> Option<u64> {
    let url = baton.url().replace("/acp", "/metrics");
    let page = reqwest::get(url).await.ok()?.text().await.ok()?;
    let line = page
        .lines()
        .find_map(|line| line.strip_prefix("baton_gateway_streams "));
    line?.parse().ok()
}

async fn nothing_is_left(baton: &Served) {
    let gone = async || (streams(baton).await == Some(0)).then_some(());
    until("its stream is gone", gone).await;
}

#[tokio::test]
async fn what_was_written_before_the_end_of_input_is_handed_over() {
    let baton = Served::start().await;
    let mut editor = Editor::open(&baton.url(), &[]).await;
    let session = editor.new_session().await;
    editor.prompt(&session, "/count 3").await;
    let (code, log) = editor.close().await;
    assert_eq!(code, Some(0), "{log}");
    nothing_is_left(&baton).await;

    let mut reader = Editor::open(&baton.url(), &[]).await;
    while reader.load(&session).await != counted(3, 1) {}
    assert_eq!(reader.turn(&session, "/count 4").await.said, counted(4, 2));
}

#[tokio::test]
async fn sigterm_ends_it_in_the_middle_of_a_turn() {
    let baton = Served::start().await;
    for transport in ["websocket", "sse"] {
        let mut editor = Editor::open(&baton.url(), &["--transport", transport]).await;
        let session = editor.new_session().await;
        editor.prompt(&session, "/count 10000 size=1000").await;
        editor.next().await;
        // It is not read on, so there is more than a pipe holds.
        terminate(&editor);
        let (code, log) = editor.ended().await;
        assert_eq!(code, Some(0), "{log}");
        nothing_is_left(&baton).await;
    }
}

#[tokio::test]
async fn an_editor_that_is_gone_is_noticed() {
    let baton = Served::start().await;
    let mut editor = Editor::open(&baton.url(), &[]).await;
    let session = editor.new_session().await;
    editor.prompt(&session, "/count 1000 delay=10").await;
    // Its input is still open, but nobody reads.
    editor.deafen();
    let (code, log) = editor.ended().await;
    assert_eq!(code, Some(0), "{log}");
    nothing_is_left(&baton).await;
}

fn terminate(editor: &Editor) {
    let process = editor.child.id().expect("it runs").to_string();
    let sent = std::process::Command::new("kill")
        .args(["-TERM", &process])
        .status();
    assert!(sent.expect("kill runs").success());
}

#[tokio::test]
async fn an_editor_that_does_not_read_costs_no_memory() {
    const CHUNKS: u64 = 1500;
    const SIZE: usize = 10_000;
    let baton = Served::start().await;
    let mut editor = Editor::open(&baton.url(), &[]).await;
    let session = editor.new_session().await;
    let id = editor.prompt(&session, "hello").await;
    editor.rest(&id).await;
    let process = editor.child.id().expect("it runs");
    let before = memory(process);
    let id = editor
        .prompt(&session, &format!("/count {CHUNKS} size={SIZE}"))
        .await;
    // The turn runs.
    let mut said = Vec::new();
    while said.is_empty() {
        let line = editor.line().await.expect("it begins");
        said.extend(chunk_of(&serde_json::from_str(&line).expect("JSON")));
    }
    // The prompt of somebody else waits for its end: then all of it is there for the editor.
    let other = Client::initialize(&baton.url()).await;
    let after = prompt(json!("after"), &session, "/count 1");
    other.one_shot(after).await.turn(&json!("after")).await;
    let grown = memory(process).saturating_sub(before);
    assert!(
        grown < 20_000,
        "{grown} KB of {} KB",
        CHUNKS as usize * SIZE / 1000
    );
    // Too much to hold all of it against the schema.
    loop {
        let line = editor.line().await.expect("it goes on");
        let message: Value = serde_json::from_str(&line).expect("JSON");
        if message.get("method").is_none() {
            assert_eq!(message["id"], id, "{message}");
            break;
        }
        said.extend(chunk_of(&message));
    }
    assert_eq!(said.len(), CHUNKS as usize);
    for (number, chunk) in (1..).zip(&said) {
        let begins = format!("chunk {number} of {CHUNKS}, ");
        assert!(chunk.starts_with(&begins), "{number}");
        assert_eq!(chunk.len(), SIZE);
    }
}
