//! `baton serve` is killed, or cannot write any more: what it acknowledged is there when it is back.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;

use crate::support::http::{load, prompt};
use crate::support::process::{Process, baton, free_port};
use crate::support::sse::counted;
use crate::support::{Client, Served, Stream};

/// The stream from where it was cut on, as soon as the server is back.
async fn resumed(client: &Client, session: &str, cut: &Stream) -> Stream {
    client.session_stream(session, Some(&cut.last_id)).await
}

#[tokio::test]
async fn a_turn_survives_fifty_kills_of_its_server() {
    let mut baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    client
        .post(prompt(json!(1), &session, "/count 1000 delay=2"))
        .await;
    let mut chunks = Vec::new();
    for _ in 0..50 {
        for _ in 0..10 {
            chunks.extend(stream.next().await.expect("the stream goes on").chunk());
        }
        baton.kill_and_restart().await;
        // What was under way may still arrive; the cursor says how far it was.
        while let Some(event) = stream.next().await {
            chunks.extend(event.chunk());
        }
        stream = resumed(&client, &session, &stream).await;
    }
    chunks.extend(stream.turn(&json!(1)).await);
    assert_eq!(chunks, counted(1000, 1));
    // The next one counts on from there, so nothing of the session's state was lost either.
    client.post(prompt(json!(2), &session, "/count 3")).await;
    assert_eq!(stream.turn(&json!(2)).await, counted(3, 2));
}

#[tokio::test]
async fn sessions_and_tokens_are_there_after_a_restart() {
    let mut baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let session = client.new_session().await;
    let mut turn = client
        .one_shot(prompt(json!(1), &session, "/count 20"))
        .await;
    turn.turn(&json!(1)).await;
    baton.kill_and_restart().await;
    // The same connection, by its token.
    let mut stream = client.session_stream(&session, None).await;
    client.post(load(json!(2), &session)).await;
    let (events, answer) = stream.until_response(&json!(2)).await;
    assert!(answer.get("result").is_some(), "{answer}");
    let chunks: Vec<_> = events.iter().filter_map(|event| event.chunk()).collect();
    assert_eq!(chunks, counted(20, 1));
    let mode = |path: &str| {
        let metadata = std::fs::metadata(baton.data_dir().join(path)).expect("it is there");
        metadata.permissions().mode() & 0o777
    };
    assert_eq!((mode("keys.json"), mode(".")), (0o600, 0o700));
}

#[tokio::test]
async fn a_second_server_on_the_same_data_is_refused() {
    let baton_one = Served::start().await;
    let output = baton()
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(baton_one.data_dir())
        .output()
        .expect("baton runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(74), "{said}");
    assert!(
        said.contains("another process uses this data directory"),
        "{said}"
    );
}

#[tokio::test]
async fn a_full_disk_stops_the_server_and_loses_nothing() {
    let dir = TempDir::new().expect("a temporary directory");
    let port = free_port();
    let serve = format!(
        "trap '' XFSZ; exec {} serve --listen 127.0.0.1:{port} --data-dir data",
        env!("CARGO_BIN_EXE_baton"),
    );
    let mut shell = Command::new("sh");
    shell.current_dir(dir.path()).args(["-c", &serve]);
    let mut process = Process::start(dir.path(), "limited", &mut shell);
    let url = format!("http://127.0.0.1:{port}/acp");
    crate::support::cluster::ready(port).await;
    let client = Client::initialize(&url).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    client
        .post(prompt(json!(1), &session, "/count 100000 size=1000"))
        .await;
    // From now on no file may grow beyond this: a write past it fails, as on a full disk.
    let limited = Command::new("prlimit")
        .args([format!("--pid={}", process.id()), "--fsize=2000000".into()])
        .status();
    assert!(limited.expect("prlimit runs").success());
    let mut texts = Vec::new();
    while let Some(event) = stream.next().await {
        texts.extend(
            event
                .chunk()
                .map(|text| text.trim_end_matches('.').to_owned()),
        );
    }
    assert_eq!(process.exit_status().await.code(), Some(74));
    let said = process.output();
    assert!(
        said.contains("the data directory cannot be written"),
        "{said}"
    );
    assert!(
        said.contains("Nothing that was acknowledged is lost"),
        "{said}"
    );

    // There is room again.
    let mut command = baton();
    command.current_dir(dir.path());
    command.args([
        "serve",
        "--listen",
        &format!("127.0.0.1:{port}"),
        "--data-dir",
        "data",
    ]);
    let _process = Process::start(dir.path(), "again", &mut command);
    crate::support::cluster::ready(port).await;
    stream = resumed(&client, &session, &stream).await;
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } });
    client.post(cancel).await;
    let (events, answer) = stream.until_response(&json!(1)).await;
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    let chunks = events.iter().filter_map(|event| event.chunk());
    texts.extend(chunks.map(|text| text.trim_end_matches('.').to_owned()));
    let expected = counted(100_000, 1);
    assert_eq!(texts, expected[..texts.len()]);
}
