//! Whoever is killed in the middle leaves nothing that passes for a backup.

use std::fs;

use serde_json::json;

use super::{Place, Server, refused};
use crate::support::http::prompt;
use crate::support::process::Process;
use crate::support::{Client, until};

/// Large enough that nobody is done with it before somebody is killed.
async fn fill(server: &Server, prompts: u64) -> String {
    let client = Client::initialize(&server.url()).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    for number in 1..=prompts {
        let text = format!("/think {}", "x".repeat(6 << 20));
        client.post(prompt(json!(number), &session, &text)).await;
        stream.response(&json!(number)).await;
    }
    session
}

/// A backup that is being written.
async fn begun(place: &Place) -> Process {
    let mut command = place.backup_command("data", "backup");
    let process = Process::start(place.dir.path(), "backup-log", &mut command);
    until("something of the backup is there", async || {
        half(place).filter(|file| file.metadata().is_ok_and(|about| about.len() > 0))
    })
    .await;
    assert!(!place.at("backup").exists(), "it is not done yet");
    process
}

fn half(place: &Place) -> Option<std::path::PathBuf> {
    let files = fs::read_dir(place.dir.path()).expect("a directory");
    let mut files = files.map(|file| file.expect("a file").path());
    files.find(|file| file.extension().is_some_and(|end| end == "part"))
}

#[tokio::test]
async fn a_backup_that_is_killed_leaves_nothing_that_can_be_restored() {
    let place = Place::new();
    let server = place.serve("data").await;
    fill(&server, 6).await;
    begun(&place).await.kill();
    assert!(!place.at("backup").exists());
    let left = half(&place).expect("what was written so far");
    fs::rename(&left, place.at("left")).unwrap();
    refused(&place.try_restore("left", "restored"), 74, "cut off");
    // The server has noticed, and goes on: another backup is taken.
    until("another one is taken", async || {
        let output = place.backup_command("data", "backup").output().unwrap();
        output.status.success().then_some(())
    })
    .await;
    place.restore("backup", "restored");
}

#[tokio::test]
async fn a_server_that_is_killed_leaves_no_backup() {
    let place = Place::new();
    let mut server = place.serve("data").await;
    fill(&server, 6).await;
    let mut process = begun(&place).await;
    let second = place.backup_command("data", "second").output().unwrap();
    refused(&second, 1, "being taken already");
    server.process.kill();
    assert_eq!(process.exit_status().await.code(), Some(1));
    let said = process.output();
    assert!(said.contains("the backup broke off"), "{said}");
    assert!(!place.at("backup").exists());
    assert_eq!(half(&place), None, "what was written is removed");
    place.backup("data", "backup");
    place.restore("backup", "restored");
}

#[tokio::test]
async fn a_server_that_is_told_to_stop_does_not_wait_for_a_backup() {
    let place = Place::new();
    let mut server = place.serve("data").await;
    fill(&server, 6).await;
    let process = begun(&place).await;
    // From here on nobody takes anything.
    process.signal("STOP");
    server.process.signal("TERM");
    assert!(server.process.exit_status().await.success());
    process.signal("CONT");
    let mut process = process;
    assert!(!process.exit_status().await.success());
    assert!(!place.at("backup").exists());
}
