//! TLS on the gateway's own port.

use std::io::ErrorKind;

use reqwest::StatusCode;
use rustls::version::{TLS12, TLS13};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::cluster::address;
use crate::support::http::{new_session, prompt};
use crate::support::process::baton;
use crate::support::sse::counted;
use crate::support::tls::{H2, HTTP1, Secured};
use crate::support::websocket::{Socket, initialize};
use crate::support::{Client, until, within};

async fn plays_a_turn(client: &Client) {
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    client.post(prompt(json!(1), &session, "/count 5")).await;
    assert_eq!(stream.turn(&json!(1)).await, counted(5, 1));
}

#[tokio::test]
async fn http2_and_http1_are_spoken_as_the_client_likes() {
    let baton = Secured::start(&[]).await;
    for (offered, chosen) in [
        (&[H2, HTTP1][..], Some(H2)),
        (&[HTTP1, H2], Some(H2)),
        (&[HTTP1], Some(HTTP1)),
        (&[], None),
    ] {
        for versions in [&TLS12, &TLS13] {
            let stream = baton.connect(offered, &[versions]).await;
            let stream = stream.expect("a handshake");
            assert_eq!(stream.get_ref().1.alpn_protocol(), chosen);
        }
    }
    let strange = baton.connect(&[b"spdy/1"], &[&TLS13]).await;
    assert!(strange.is_err(), "nothing in common");

    let client = Client::initialize(&baton.tunnel(&[HTTP1]).await).await;
    plays_a_turn(&client).await;
    let http2 = reqwest::Client::builder().http2_prior_knowledge().build();
    let url = baton.tunnel(&[H2]).await;
    plays_a_turn(&client.at(&url).over(http2.expect("a client"))).await;
    let older = baton.tunnel_of(baton.client(&[], &[&TLS12])).await;
    plays_a_turn(&client.at(&older)).await;

    let greeting = baton.process.output();
    assert!(
        greeting.contains(&format!("listens on {}", baton.url())),
        "{greeting}"
    );
    assert!(greeting.contains(" chat https://"), "{greeting}");
    assert!(greeting.contains("--ca FILE"), "{greeting}");
}

#[tokio::test]
async fn a_websocket_has_a_whole_turn() {
    let baton = Secured::start(&[]).await;
    let mut socket = Socket::open(&baton.tunnel(&[HTTP1]).await, false).await;
    socket.send(initialize()).await;
    socket.next().await;
    socket.send(new_session(json!(1))).await;
    let session = socket.next().await["result"]["sessionId"].clone();
    let session = session.as_str().expect("an id");
    socket.send(prompt(json!(2), session, "/count 20")).await;
    for _ in 0..20 {
        assert_eq!(socket.next().await["method"], "session/update");
    }
    assert_eq!(socket.next().await["result"]["stopReason"], "end_turn");
}

#[tokio::test]
async fn every_answer_tells_browsers_to_be_careful() {
    let baton = Secured::start(&[]).await;
    let url = baton.tunnel(&[HTTP1]).await;
    for (path, status) in [
        ("/acp", StatusCode::BAD_REQUEST),
        ("/healthz", StatusCode::OK),
        ("/nowhere", StatusCode::NOT_FOUND),
    ] {
        let answer = reqwest::get(url.replace("/acp", path)).await;
        let answer = answer.expect("an answer");
        assert_eq!(answer.status(), status, "{path}");
        let header = |name: &str| answer.headers()[name].to_str().expect("text");
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!(header("referrer-policy"), "no-referrer");
        assert_eq!(header("cache-control"), "no-store");
        assert_eq!(header("strict-transport-security"), "max-age=31536000");
    }
}

#[tokio::test]
async fn a_certificate_changes_under_open_streams_and_a_bad_one_is_left_alone() {
    let baton = Secured::start(&[]).await;
    let client = Client::initialize(&baton.tunnel(&[HTTP1]).await).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    let first = baton.shown().await;
    let second = baton.renew();
    assert_ne!(first, second);
    until("the new certificate is shown", async || {
        (baton.shown().await == second).then_some(())
    })
    .await;
    client.post(prompt(json!(1), &session, "/count 5")).await;
    assert_eq!(stream.turn(&json!(1)).await, counted(5, 1));

    baton.spoil();
    until("it is said that the new one is no good", async || {
        let said = baton.process.output();
        said.contains("keeping the previous version").then_some(())
    })
    .await;
    assert_eq!(baton.shown().await, second);
    client.post(prompt(json!(2), &session, "/count 5")).await;
    assert_eq!(stream.turn(&json!(2)).await, counted(5, 2));
}

#[tokio::test]
async fn handshakes_that_stall_keep_nobody_out_and_end() {
    let baton = Secured::start(&["--request-timeout-ms", "10000"]).await;
    let mut stalled = Vec::new();
    for number in 0..64 {
        let stream = TcpStream::connect(address(baton.port)).await;
        let mut stream = stream.expect("the gateway listens");
        if number % 2 == 0 {
            // The beginning of a record that never comes.
            let begun = [22, 3, 1, 2, 0, 1];
            stream.write_all(&begun).await.expect("sent");
        }
        stalled.push(stream);
    }
    let url = baton.tunnel(&[HTTP1]).await;
    within("somebody else is served", Client::initialize(&url)).await;
    let last = stalled.last().expect("there are some");
    let heard = last.try_read(&mut [0]).map_err(|error| error.kind());
    assert_eq!(heard, Err(ErrorKind::WouldBlock), "it has not ended yet");
    for mut stream in stalled {
        // However it ends.
        let _ = within("it is given up", stream.read_to_end(&mut Vec::new())).await;
    }
}

#[tokio::test]
async fn half_a_head_is_given_up_under_tls_too_and_who_listens_is_not() {
    let baton = Secured::start(&["--request-timeout-ms", "1000"]).await;
    let client = Client::initialize(&baton.tunnel(&[HTTP1]).await).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    let slow = baton.connect(&[HTTP1], &[&TLS13]).await;
    let mut slow = slow.expect("a handshake");
    slow.write_all(b"GET /heal").await.expect("sent");
    let _ = within("it is given up", slow.read_to_end(&mut Vec::new())).await;
    client.post(prompt(json!(1), &session, "/count 5")).await;
    assert_eq!(stream.turn(&json!(1)).await, counted(5, 1));
}

#[test]
fn a_certificate_needs_its_key_and_faults_are_named() {
    let start = |arguments: &[&str]| {
        let mut command = baton();
        command.args(["serve", "--ephemeral", "--listen", "127.0.0.1:0"]);
        let output = command.args(arguments).output().expect("baton runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let (code, said) = start(&["--tls-cert", "a.pem"]);
    assert_eq!(code, Some(64));
    assert!(said.contains("--tls-cert needs --tls-key"), "{said}");
    let (code, said) = start(&["--tls-key", "a.pem"]);
    assert_eq!(code, Some(64));
    assert!(said.contains("--tls-key needs --tls-cert"), "{said}");
    let (code, said) = start(&[
        "--tls-cert",
        "/nowhere/tls.crt",
        "--tls-key",
        "/nowhere/tls.key",
        "--request-timeout-ms",
        "1",
        "--trust-proxy",
        "nginx,10.0.0.0/8",
    ]);
    assert_eq!(code, Some(64));
    for named in ["/nowhere/tls.crt", "--request-timeout-ms 1", "\"nginx\""] {
        assert!(said.contains(named), "{said}");
    }
}
