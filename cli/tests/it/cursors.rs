//! A connection that watches many sessions: its cursors stay short, and say where each of them is.

mod reader;

use serde_json::{Value, json};

use self::reader::Reader;
use crate::support::balancer::Kind;
use crate::support::http::{load, new_session, prompt};
use crate::support::sse::counted;
use crate::support::websocket::Socket;
use crate::support::{Client, Cluster, Event};

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

#[tokio::test]
async fn closed_and_deleted_sessions_leave_and_come_back_when_they_are_loaded() {
    let cluster = Cluster::start().await;
    let client = Client::initialize(&cluster.gateway_url(0)).await;
    let mut reader = Reader::open(vec![client.clone()], 5).await;
    let sessions = reader.create(&client, 60).await;
    reader.prompt_all(&client, &sessions, "first").await;
    assert!(reader.seen().last().expect("events").0.contains('@'));
    let (kept, others) = sessions.split_at(10);
    let (closed, deleted) = others.split_at(25);
    for session in closed {
        // Whoever closes it twice gets two answers.
        for name in ["close", "close again"] {
            client.post(about("session/close", name, session)).await;
            reader.answer(&format!("{name} {session}")).await;
        }
    }
    for session in deleted {
        client
            .post(about("session/delete", "delete", session))
            .await;
        reader.answer(&format!("delete {session}")).await;
    }
    // Those that were deleted leave when nothing is left to say.
    let mut turns = 0;
    let cursor = loop {
        turns += 1;
        let last = &reader.seen().last().expect("events").0;
        assert!(turns < 100, "they do not leave: {last}");
        let id = format!("turn {turns}");
        client.post(prompt(json!(id), &kept[0], "/count 1")).await;
        reader.answer(&id).await;
        let cursor = reader.seen().last().expect("events").0.clone();
        if cursor.split('~').count() <= 1 + kept.len() {
            break cursor;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    };
    assert!(!cursor.contains('@'), "{cursor}");
    // One comes back, with all it said.
    client.post(load(json!("load"), &closed[3])).await;
    let said = reader.answer("load").await;
    let said: Vec<_> = said.iter().filter_map(Event::chunk).collect();
    assert_eq!(said, counted(3, 1));
    client
        .post(prompt(json!("more"), &closed[3], "/count 2"))
        .await;
    let said = reader.answer("more").await;
    let said: Vec<_> = said.iter().filter_map(Event::chunk).collect();
    assert_eq!(said, counted(2, 2));
}

fn about(method: &str, name: &str, session: &str) -> Value {
    let params = json!({ "sessionId": session });
    json!({ "jsonrpc": "2.0", "id": format!("{name} {session}"), "method": method, "params": params })
}
