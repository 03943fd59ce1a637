//! Clients that begin a request and do not go on: they are given up, and nobody else notices. Who
//! merely rests is left alone.

use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::http::prompt;
use crate::support::sse::counted;
use crate::support::{Client, Cluster, Served, within};

const HURRY: [&str; 3] = ["--ephemeral", "--request-timeout-ms", "1000"];

fn host(url: &str) -> &str {
    url.trim_start_matches("http://").trim_end_matches("/acp")
}

/// A connection on which this was said.
async fn says(url: &str, bytes: impl AsRef<[u8]>) -> TcpStream {
    let stream = TcpStream::connect(host(url)).await;
    let mut stream = stream.expect("the gateway listens");
    stream.write_all(bytes.as_ref()).await.expect("sent");
    stream
}

/// All that comes until the other side has closed.
async fn rest(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = within("the connection ends", stream.read_to_end(&mut bytes)).await;
    bytes
}

/// One answer that has a length; the connection stays.
async fn answer(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let byte = within("an answer", stream.read_u8()).await;
        bytes.push(byte.expect("the connection is there"));
    }
    let head = String::from_utf8(bytes).expect("text");
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    let length = lines.filter(|(name, _)| *name == "content-length");
    let mut length = length.map(|(_, value)| value.parse().expect("a number"));
    let mut body = vec![0; length.next_back().expect("a length")];
    stream.read_exact(&mut body).await.expect("a body");
    head
}

const WHOLE: &str = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";

#[tokio::test]
async fn half_a_head_is_given_up_and_who_rests_is_not() {
    let baton = Served::start_with(&HURRY).await;
    let url = baton.url();
    let client = Client::initialize(&url).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    // As clients open them in advance.
    let mut fresh = says(&url, "").await;
    let mut resting = says(&url, WHOLE).await;
    assert!(answer(&mut resting).await.starts_with("HTTP/1.1 200"));

    let half = "POST /acp HTTP/1.1\r\nhost: localhost\r\n";
    for said in ["P", "PRI * HTTP/2.0", half] {
        let stopped = says(&url, said).await;
        assert_eq!(rest(stopped).await, b"", "{said}");
    }
    // The second request of a connection.
    let mut stopped = says(&url, WHOLE).await;
    answer(&mut stopped).await;
    stopped.write_all(half.as_bytes()).await.expect("sent");
    assert_eq!(rest(stopped).await, b"");

    // Longer than any of these waited the others, for whom nothing was late.
    for rested in [&mut fresh, &mut resting] {
        rested.write_all(WHOLE.as_bytes()).await.expect("sent");
        assert!(answer(rested).await.starts_with("HTTP/1.1 200"));
    }
    client.post(prompt(json!(1), &session, "/count 5")).await;
    assert_eq!(stream.turn(&json!(1)).await, counted(5, 1));
}

#[tokio::test]
async fn a_head_that_trickles_in_is_given_up() {
    let baton = Served::start_with(&HURRY).await;
    let stream = says(&baton.url(), "GET /healthz HTTP/1.1\r\nx: ").await;
    let (mut reads, mut writes) = stream.into_split();
    let trickle = async {
        loop {
            if writes.write_all(b"x").await.is_err() {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    let mut bytes = Vec::new();
    tokio::select! {
        () = trickle => {}
        _ = within("the connection ends", reads.read_to_end(&mut bytes)) => {}
    }
    assert_eq!(bytes, b"");
}

#[tokio::test]
async fn a_body_that_stops_coming_is_answered_with_408() {
    let baton = Served::start_with(&HURRY).await;
    let url = baton.url();
    let client = Client::initialize(&url).await;
    let mut stopped = Vec::new();
    for (path, kind) in [("/acp", "json"), ("/v1/sessions/import", "x-ndjson")] {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/{kind}\r\n\
             content-length: 1000\r\nacp-connection-id: {}\r\n\r\n{{\"jsonrpc\":",
            client.token
        );
        stopped.push(says(&url, request).await);
    }
    // Others are served meanwhile.
    client.new_session().await;
    for stream in stopped {
        let answer = String::from_utf8(rest(stream).await).expect("text");
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        let body: Value = serde_json::from_str(body).expect("JSON");
        let said = body["error"]["message"].as_str().expect("a message");
        assert!(said.contains("send the request again"), "{said}");
    }
    // On HTTP/2 only the stream is lost.
    let http2 = reqwest::Client::builder().http2_prior_knowledge().build();
    let client = client.over(http2.expect("a client"));
    let never = reqwest::Body::wrap_stream(futures_util::stream::pending::<
        Result<&'static str, std::io::Error>,
    >());
    let answer = client.send(&[("content-type", "application/json")], never);
    assert_eq!(answer.await.status(), StatusCode::REQUEST_TIMEOUT);
    client.new_session().await;
}

#[tokio::test]
async fn heads_have_a_size() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let url = baton.url();
    let many: String = (0..100).map(|n| format!("x-{n}: 1\r\n")).collect();
    let large = format!("x: {}\r\n", "x".repeat(64 << 10));
    for headers in [many, large] {
        let request = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
        let answer = rest(says(&url, request).await).await;
        let answer = String::from_utf8(answer).expect("text");
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
    let fits = format!("x: {}\r\n", "x".repeat(60 << 10));
    let request = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{fits}\r\n");
    let mut stream = says(&url, request).await;
    assert!(answer(&mut stream).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn half_a_head_on_http2_is_given_up() {
    let hurry = ["--request-timeout-ms", "1000", "--stall-ms", "1000"];
    let cluster = Cluster::start_with(&hurry).await;
    let url = cluster.gateway_url(0);
    let http2 = reqwest::Client::builder().http2_prior_knowledge().build();
    let client = Client::initialize(&url).await;
    let client = client.over(http2.expect("a client"));
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    // The preface, empty settings, and of a frame of headers only what announces it.
    let mut said = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    said.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
    said.extend([0, 0, 100, 1, 5, 0, 0, 0, 1]);
    let stopped = says(&url, said).await;
    assert!(!rest(stopped).await.is_empty(), "settings and pings");
    // Whoever answers pings was there all the time.
    client.post(prompt(json!(1), &session, "/count 5")).await;
    assert_eq!(stream.turn(&json!(1)).await, counted(5, 1));
}
