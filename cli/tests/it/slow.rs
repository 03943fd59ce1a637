//! Clients that don't read: they are given up, others don't notice, and whoever comes back gets
//! everything once.

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::support::http::{load, new_session, prompt};
use crate::support::metrics::page as metrics;
use crate::support::sse::{Event, Stream, counted};
use crate::support::websocket::{Socket, initialize};
use crate::support::{Client, Cluster, until, within};

/// More than sockets hold.
const CHUNKS: u64 = 5000;
const PROMPT: &str = "/count 5000 size=4000";

fn texts(events: &[Event]) -> Vec<String> {
    let chunks = events.iter().filter(|event| !event.data.is_empty());
    let chunks = chunks.filter_map(Event::chunk);
    chunks
        .map(|chunk| chunk.trim_end_matches('.').to_owned())
        .collect()
}

pub async fn given_up(url: &str, kind: &str) {
    let line = format!("baton_gateway_stalled_total{{kind=\"{kind}\"}} 1\n");
    until("the stream is given up", async || {
        metrics(url).await.contains(&line).then_some(())
    })
    .await;
}

/// A session's stream that nobody reads, with as little room on the way as can be.
pub async fn unread(client: &Client, session: &str) -> TcpStream {
    let address = client
        .url
        .trim_start_matches("http://")
        .trim_end_matches("/acp");
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    let stream = socket.connect(address.parse().expect("an address")).await;
    let mut stream = stream.expect("the gateway listens");
    // Without chunks: the body is what the gateway wrote.
    let request = format!(
        "GET /acp HTTP/1.0\r\nhost: localhost\r\naccept: text/event-stream\r\nacp-connection-id: \
         {}\r\nacp-session-id: {session}\r\n\r\n",
        client.token
    );
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("an answer"));
    }
    stream
}

#[tokio::test]
async fn a_client_that_does_not_read_is_given_up_and_disturbs_nobody() {
    let cluster = Cluster::start_with(&["--stall-ms", "4000"]).await;
    let url = cluster.gateway_url(0);
    let slow = Client::initialize(&url).await;
    let session = slow.new_session().await;
    let mut unread = unread(&slow, &session).await;
    let other = Client::initialize(&url).await;
    let mut stream = other.session_stream(&session, None).await;
    other.post(load(json!(1), &session)).await;
    stream.response(&json!(1)).await;
    let before = cluster.gateways[0].memory();

    slow.post(prompt(json!(1), &session, PROMPT)).await;
    let mut said = Vec::new();
    while said.len() < CHUNKS as usize {
        let event = stream.next().await.expect("the stream goes on");
        said.extend(texts(&[event]));
    }
    assert_eq!(said, counted(CHUNKS, 1));
    given_up(&url, "session").await;
    println!(
        "memory of the gateway: {before} kB, then {} kB",
        cluster.gateways[0].memory()
    );
    // What had arrived counts, up to the last whole event.
    let mut bytes = Vec::new();
    let _ = within("the end of the socket", unread.read_to_end(&mut bytes)).await;
    let seen = Stream::parse_bytes(&slow.token, &bytes);
    let mut said = texts(&seen);
    assert!(said.len() < CHUNKS as usize, "most of it was never read");
    let cursor = &seen.last().expect("the stream had begun").id;
    let mut stream = slow.session_stream(&session, Some(cursor)).await;
    let (events, _) = stream.until_response(&json!(1)).await;
    said.extend(texts(&events));
    assert_eq!(said, counted(CHUNKS, 1));
}

#[tokio::test]
async fn a_stuck_stream_of_an_http2_connection_is_given_up() {
    let cluster = Cluster::start_with(&["--stall-ms", "4000"]).await;
    let url = cluster.gateway_url(0);
    let http2 = reqwest::Client::builder().http2_prior_knowledge().build();
    let client = Client::initialize(&url).await;
    let client = client.over(http2.expect("a client"));
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    client.post(prompt(json!(1), &session, PROMPT)).await;
    given_up(&url, "session").await;
    // The connection goes on, and what was sent before is still there.
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        events.push(event);
    }
    let cursor = stream.last_id.clone();
    let mut stream = client.session_stream(&session, Some(&cursor)).await;
    events.extend(stream.until_response(&json!(1)).await.0);
    assert_eq!(texts(&events), counted(CHUNKS, 1));
}

#[tokio::test]
async fn a_socket_that_is_not_read_is_given_up() {
    let cluster = Cluster::start_with(&["--stall-ms", "4000"]).await;
    let url = cluster.gateway_url(0);
    let mut socket = Socket::open(&url, true).await;
    socket.send(initialize()).await;
    let opened = socket.next().await;
    let token = opened["message"]["result"]["_meta"]["baton/connection"]["token"].clone();
    socket.send(new_session(json!(1))).await;
    let answer = socket.next().await;
    let session = answer["message"]["result"]["sessionId"].as_str();
    socket
        .send(prompt(json!(2), session.expect("an id"), PROMPT))
        .await;
    given_up(&url, "websocket").await;
    drop(socket);
    let mut socket = Socket::open(&url, true).await;
    let resume = json!({ "connection": token, "cursor": answer["cursor"] });
    socket.send(json!({ "resume": resume })).await;
    for chunk in 1..=CHUNKS {
        let frame = socket.next().await;
        let text = frame["message"]["params"]["update"]["content"]["text"].as_str();
        let expected = format!("chunk {chunk} of {CHUNKS}, prompt 1 ");
        assert_eq!(
            text.map(|text| text.trim_end_matches('.')),
            Some(&*expected)
        );
    }
    assert_eq!(socket.next().await["message"]["id"], 2);
}
