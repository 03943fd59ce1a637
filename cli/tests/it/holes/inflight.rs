//! F6: what is being received is counted before it is read.

use reqwest::StatusCode;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::auth::{ALICE, BOB, write_keys};
use crate::support::http::prompt;
use crate::support::metrics::page as metrics;
use crate::support::process::baton;
use crate::support::sse::counted;
use crate::support::{Client, Served, until, within};

const MIB: usize = 1 << 20;
/// The largest message.
const MAX_BODY: usize = 16 * MIB;
/// Beside what may be received at once. A debug build that has served a little takes some 60 MiB.
const BESIDES: u64 = 120 << 10;

struct Asking {
    served: Served,
    _dir: TempDir,
}

async fn start() -> Asking {
    let dir = TempDir::new().expect("a temporary directory");
    let keys = write_keys(dir.path());
    let arguments = ["--ephemeral", "--auth", "keys", "--auth-keys", &keys];
    let served = Served::start_with(&arguments).await;
    Asking { served, _dir: dir }
}

async fn connect(url: &str) -> TcpStream {
    let host = url.trim_start_matches("http://").trim_end_matches("/acp");
    let stream = TcpStream::connect(host).await;
    stream.expect("the gateway listens")
}

/// Sends as much as is taken, and says what was answered meanwhile, if anything.
async fn half_sent(client: &Client, key: &str, framing: &str, path: &str) -> (TcpStream, String) {
    let mut stream = connect(&client.url).await;
    let kind = if path == "/acp" { "json" } else { "x-ndjson" };
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: \
         application/{kind}\r\n{framing}\r\nauthorization: Bearer {key}\r\nacp-connection-id: \
         {}\r\n\r\n",
        client.token
    );
    let mut body = vec![b' '; MAX_BODY - MIB];
    if framing.starts_with("transfer") {
        let chunk = format!("{:x}\r\n", MAX_BODY - 1);
        body.splice(0..0, chunk.into_bytes());
    }
    let (mut reads, mut writes) = stream.split();
    let sending = async {
        writes.write_all(head.as_bytes()).await.ok()?;
        writes.write_all(&body).await.ok()
    };
    let mut answer = vec![0; 4096];
    let (_, read) = tokio::join!(within("sent", sending), async {
        let read = tokio::time::timeout(std::time::Duration::from_secs(2), reads.read(&mut answer));
        read.await.map_or(0, |read| read.unwrap_or(0))
    });
    let answer = String::from_utf8_lossy(&answer[..read]).into_owned();
    (stream, answer)
}

#[tokio::test]
async fn f6_half_sent_bodies_are_refused_before_they_fill_the_memory() {
    let baton = start().await;
    let url = baton.served.url();
    let alice = Client::with_key(&url, ALICE).await;
    let bob = Client::with_key(&url, BOB).await;
    let session = bob.new_session().await;
    let mut stream = bob.session_stream(&session, None).await;
    let announced = format!("content-length: {MAX_BODY}");
    let framings = [announced.as_str(), "transfer-encoding: chunked"];
    let all = (0..40).map(|n| {
        let path = if n % 4 == 3 {
            "/v1/sessions/import"
        } else {
            "/acp"
        };
        half_sent(&alice, ALICE, framings[n % 2], path)
    });
    let held = futures_util::future::join_all(all).await;
    let share = 64 << 10;
    let memory = baton.served.process.memory();
    assert!(memory < share + BESIDES, "{memory} KiB");
    // Many of them learn why before they are hung up on.
    let refused: Vec<_> = held
        .iter()
        .filter(|(_, answer)| answer.starts_with("HTTP/1.1 429 "))
        .collect();
    assert!(!refused.is_empty());
    let (_, answer) = refused[0];
    let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
    assert!(head.to_lowercase().contains("retry-after: "), "{head}");
    let body: Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(body["error"]["data"]["limit"], "inflight_bytes", "{body}");
    let page = metrics(&url).await;
    let line = "baton_gateway_limited_total{limit=\"inflight_bytes\"} ";
    let count = page
        .lines()
        .find_map(|it| it.strip_prefix(line)?.parse::<u64>().ok());
    assert!(count >= Some(30), "{count:?}");

    // Nobody else notices, and she may still send what is of ordinary size.
    bob.post(prompt(json!(1), &session, "/count 5")).await;
    assert_eq!(stream.turn(&json!(1)).await, counted(5, 1));
    let own = alice.new_session().await;
    // As soon as hers are gone there is room again.
    drop(held);
    let large = "x".repeat(MAX_BODY - 4096);
    until("there is room", async || {
        let message = prompt(json!(1), &own, &large).to_string();
        let headers = [("content-type", "application/json")];
        let answer = alice.send(&headers, message).await;
        (answer.status() == StatusCode::ACCEPTED).then_some(())
    })
    .await;
}

#[tokio::test]
async fn f6_half_sent_frames_are_cut_before_they_fill_the_memory() {
    let baton = start().await;
    let url = baton.served.url();
    let mut held = Vec::new();
    for _ in 0..20 {
        let mut stream = connect(&url).await;
        let upgrade = format!(
            "GET /acp HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: \
             websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: \
             dGhlIHNhbXBsZSBub25jZQ==\r\nauthorization: Bearer {ALICE}\r\n\r\n"
        );
        stream.write_all(upgrade.as_bytes()).await.expect("sent");
        let mut answer = [0; 12];
        within("an answer", stream.read_exact(&mut answer))
            .await
            .expect("an answer");
        assert_eq!(&answer, b"HTTP/1.1 101");
        // A masked text frame of nearly 16 MiB, and not all of it.
        let mut frame = vec![0x81, 0xff];
        frame.extend((MAX_BODY as u64 - 1).to_be_bytes());
        frame.extend([0; 4]);
        frame.resize(MAX_BODY - MIB, b' ');
        // The gateway hangs up on those that do not fit.
        let _ = within("sent", stream.write_all(&frame)).await;
        held.push(stream);
    }
    until("some are cut", async || {
        let line = "baton_gateway_limited_total{limit=\"inflight_bytes\"} ";
        let page = metrics(&url).await;
        let count = page
            .lines()
            .find_map(|it| it.strip_prefix(line)?.parse::<u64>().ok());
        (count? >= 15).then_some(())
    })
    .await;
    // What is gathered may take twice its size.
    let memory = baton.served.process.memory();
    assert!(memory < 2 * (64 << 10) + BESIDES, "{memory} KiB");
    Client::with_key(&url, BOB).await.new_session().await;
}

/// B13: who has not read the answer before everything is sent gets it all the same.
#[tokio::test]
async fn f6_a_body_that_is_too_large_gets_its_413_while_it_is_being_sent() {
    let baton = start().await;
    let url = baton.served.url();
    let alice = Client::with_key(&url, ALICE).await;
    for framing in ["content-length: 33554432", "transfer-encoding: chunked"] {
        let mut stream = connect(&url).await;
        let head = format!(
            "POST /acp HTTP/1.1\r\nhost: localhost\r\ncontent-type: \
             application/json\r\n{framing}\r\nauthorization: Bearer {ALICE}\r\nacp-connection-id: \
             {}\r\n\r\n",
            alice.token
        );
        stream.write_all(head.as_bytes()).await.expect("sent");
        let piece = vec![b' '; MIB];
        for _ in 0..32 {
            if framing.starts_with("transfer") {
                stream
                    .write_all(b"100000\r\n")
                    .await
                    .expect("it is still read");
            }
            stream.write_all(&piece).await.expect("it is still read");
            if framing.starts_with("transfer") {
                stream.write_all(b"\r\n").await.expect("it is still read");
            }
        }
        let mut answer = [0; 12];
        within("an answer", stream.read_exact(&mut answer))
            .await
            .expect("an answer");
        assert_eq!(&answer, b"HTTP/1.1 413", "{framing}");
    }
}

#[test]
fn f6_a_budget_that_is_too_small_is_named() {
    let mut command = baton();
    command.args(["serve", "--ephemeral", "--max-inflight-bytes", "1000000"]);
    let output = command.output().expect("baton runs");
    assert_eq!(output.status.code(), Some(64));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        text.contains("--max-inflight-bytes 1000000: must be"),
        "{text}"
    );
}
