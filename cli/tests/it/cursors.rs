//! A connection that watches many sessions: its cursors stay short, and say where each of them is.

mod reader;

use serde_json::json;

use self::reader::Reader;
use crate::support::balancer::Kind;
use crate::support::http::{new_session, prompt};
use crate::support::websocket::Socket;
use crate::support::{Client, Cluster};

/// More of them by hand: `CURSOR_SESSIONS=5000 scripts/test cursors::`.
fn sessions() -> usize {
    let sessions = std::env::var("CURSOR_SESSIONS").ok();
    sessions.map_or(150, |sessions| sessions.parse().expect("a number"))
}

macro_rules! behind {
    ($($name:ident: $kind:ident;)*) => {
        $(#[tokio::test]
        async fn $name() {
            let cluster = Cluster::start_behind(Kind::$kind).await;
            let client = Client::initialize(&cluster.url()).await;
            let mut reader = Reader::open(vec![client.clone()], 1).await;
            let sessions = reader.create(&client, sessions()).await;
            reader.prompt_all(&client, &sessions, "first").await;
            assert!(reader.longest() > 300, "nothing was to be shortened");
        })*
    };
}

// What they ship with takes the headers of such a connection, and every event comes once through any cut.
behind! {
    many_sessions_are_resumed_behind_nginx: Nginx;
    many_sessions_are_resumed_behind_nginx_wherever_it_sends_them: RoundRobin;
    many_sessions_are_resumed_behind_haproxy: Haproxy;
    many_sessions_are_resumed_behind_envoy: Envoy;
}

#[tokio::test]
async fn an_older_cursor_that_names_an_older_entry_is_honoured() {
    let cluster = Cluster::start().await;
    let first = Client::initialize(&cluster.gateway_url(0)).await;
    let second = first.at(&cluster.gateway_url(1));
    let mut reader = Reader::open(vec![first.clone()], 2).await;
    let sessions = reader.create(&first, sessions()).await;
    let from = reader.seen().len();
    reader.prompt_all(&first, &sessions, "first").await;
    let seen = reader.seen().to_vec();
    let named = |cursor: &str| {
        let mut parts = cursor.split('~').skip(1);
        parts
            .next()
            .filter(|part| part.starts_with('@'))
            .map(str::to_owned)
    };
    let last = named(&seen.last().expect("events").0);
    let older = (from..seen.len()).filter(|at| named(&seen[*at].0) != last);
    let older: Vec<usize> = older.collect();
    assert!(older.len() > 20, "they all name the same entry");
    // On both gateways, from here and there.
    for (round, at) in older.iter().step_by(older.len() / 4).enumerate() {
        let client = [&first, &second][round % 2];
        let mut again = client.connection_stream(Some(&seen[*at].0)).await;
        let mut missing: Vec<&String> = seen[at + 1..].iter().map(|(_, data)| data).collect();
        while !missing.is_empty() {
            let event = again.next().await.expect("the stream goes on");
            assert_eq!(event.event, "", "{event:?}");
            let found = missing.iter().position(|data| **data == event.data);
            missing.remove(found.unwrap_or_else(|| panic!("not again: {event:?}")));
        }
    }
}

#[tokio::test]
async fn a_socket_goes_on_where_a_stream_was_cut() {
    let cluster = Cluster::start().await;
    let client = Client::initialize(&cluster.gateway_url(0)).await;
    let mut reader = Reader::open(vec![client.clone()], 3).await;
    let sessions = reader.create(&client, sessions()).await;
    reader.prompt_all(&client, &sessions, "first").await;
    let cursor = reader.seen().last().expect("events").0.clone();
    drop(reader);
    let mut socket = Socket::open(&cluster.gateway_url(1), true).await;
    let resume = json!({ "connection": client.token, "cursor": cursor });
    socket.send(json!({ "resume": resume })).await;
    socket
        .send(prompt(json!("ws"), &sessions[7], "/count 3"))
        .await;
    let mut cursor;
    loop {
        let frame = socket.next().await;
        assert!(frame.get("reset").is_none(), "{frame}");
        cursor = frame["cursor"].as_str().expect("a cursor").to_owned();
        assert!(cursor.len() <= 1024, "{} bytes", cursor.len());
        let message = &frame["message"];
        let about = &message["params"]["sessionId"];
        assert!(about.is_null() || *about == sessions[7], "{message}");
        if message["id"] == "ws" {
            break;
        }
    }
    drop(socket);
    // And back again.
    let mut stream = client.connection_stream(Some(&cursor)).await;
    client
        .post(prompt(json!("sse"), &sessions[8], "/count 1"))
        .await;
    let (events, _) = stream.until_response(&json!("sse")).await;
    for event in events {
        assert_eq!(event.message()["params"]["sessionId"], sessions[8]);
    }
}

#[tokio::test]
async fn another_gateway_takes_the_stream_over_from_what_was_recorded() {
    let cluster = Cluster::start().await;
    let first = Client::initialize(&cluster.gateway_url(0)).await;
    let second = first.at(&cluster.gateway_url(1));
    let mut reader = Reader::open(vec![first.clone()], 4).await;
    let sessions = reader.create(&first, sessions()).await;
    reader.prompt_all(&first, &sessions, "first").await;
    // It ends, and with that its place is recorded.
    drop(reader);
    let url = cluster.gateway_url(0).replace("/acp", "/metrics");
    crate::support::until("the stream to end", || async {
        let page = reqwest::get(&url).await.ok()?.text().await.ok()?;
        page.contains("baton_gateway_streams 0").then_some(())
    })
    .await;
    let mut stream = second.connection_stream(None).await;
    second.post(new_session(json!("more"))).await;
    let event = stream.next().await.expect("an answer");
    assert_eq!(
        (event.event.as_str(), &event.message()["id"]),
        ("", &json!("more"))
    );
    assert!(event.id.len() <= 1024, "{} bytes", event.id.len());
    assert!(event.id.contains('@'), "{}", event.id);
}
