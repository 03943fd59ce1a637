//! What was good once: credentials and tokens that have expired, were used, renewed or taken back.

use futures_util::future::join_all;
use reqwest::{Method, StatusCode};
use serde_json::json;
use tempfile::TempDir;

use super::forge::{CONNECTION, Forge, SESSION, claims, claims_at, said};
use super::{KEPT, Probe, guarded_and};
use crate::auth::provider::{self, Provider, now, with_tokens};
use crate::auth::{A, B, Guarded, write_keys};
use crate::browser::{bearer, enter, ticket_of};
use crate::revocation::{asked, ends, is_refused, revoke, said as told, works};
use crate::support::auth::{ALICE, BOB};
use crate::support::clock::Clock;
use crate::support::http::{bearing, load, new_session, prompt};
use crate::support::process::free_port;
use crate::support::sse::counted;
use crate::support::websocket::{Socket, initialize};
use crate::support::{Client, Cluster, Stream, until};

/// A Baton whose clock is set by the test.
async fn clocked(arguments: &[&str], prepare: impl FnOnce(&TempDir)) -> (Guarded, Clock) {
    clocked_at("+0", arguments, prepare).await
}

async fn clocked_at(
    time: &str,
    arguments: &[&str],
    prepare: impl FnOnce(&TempDir),
) -> (Guarded, Clock) {
    let dir = TempDir::new().expect("a temporary directory");
    prepare(&dir);
    let clock = Clock::new(dir.path());
    clock.set(time);
    let guarded = Guarded::start_in(dir, arguments, |command| clock.rule(command)).await;
    (guarded, clock)
}

#[tokio::test]
async fn row_05_stale_authorisation() {
    // A token that runs out takes what it has opened with it.
    let provider = Provider::new("k1");
    let guarded = with_tokens(&provider).await;
    let mut short = provider::claims("alice");
    short["exp"] = json!(now() + 3);
    let token = provider.token("k1", &short);
    let alice = guarded.open(&token).await;
    let headers = [
        ("acp-connection-id", alice.connection.as_str()),
        ("accept", "text/event-stream"),
    ];
    let response = guarded
        .send(Method::GET, Some(&token), &headers, None)
        .await;
    assert_eq!(response.status(), StatusCode::OK);
    let key = bearer(&token);
    let mut socket = Socket::try_open(&guarded.url, &[("authorization", &key)])
        .await
        .expect("let in");
    socket.send(initialize()).await;
    assert_eq!(socket.next().await["id"], 0);
    Stream::unchecked(response).ends().await;
    assert_eq!(socket.closed().await, 4003);

    // A key that was taken away is asked for with every request; what it has opened is taken back.
    let admin = format!("127.0.0.1:{}", free_port());
    let guarded = guarded_and(&["--admin-listen", &admin]).await;
    let (alice, bob) = (guarded.open(A).await, guarded.open(B).await);
    let stream = async |caller: &str, connection: &str| {
        let headers = [
            ("acp-connection-id", connection),
            ("accept", "text/event-stream"),
        ];
        let response = guarded
            .send(Method::GET, Some(caller), &headers, None)
            .await;
        assert_eq!(response.status(), StatusCode::OK);
        Stream::unchecked(response)
    };
    let open = stream(A, &alice.connection).await;
    let mut others = stream(B, &bob.connection).await;
    let key = bearer(A);
    let mut socket = Socket::try_open(&guarded.url, &[("authorization", &key)])
        .await
        .expect("let in");
    socket.send(initialize()).await;
    assert_eq!(socket.next().await["id"], 0);
    write_keys(guarded.dir.path(), &[("bob", B)]);
    let probe = Probe::of(&guarded, Some(A));
    until("the key is gone", async || {
        (probe.connection(&alice.connection).await == 401).then_some(())
    })
    .await;
    revoke(&format!("http://{admin}"), "--principal", "key:alice");
    ends(open).await;
    assert_eq!(socket.closed().await, 4003);
    let headers = [("acp-connection-id", bob.connection.as_str())];
    let asked = guarded.send(Method::POST, Some(B), &headers, Some(new_session(json!(5))));
    assert_eq!(asked.await.status(), StatusCode::ACCEPTED);
    assert!(others.response(&json!(5)).await["result"].is_object());
}

#[tokio::test]
async fn row_14_clocks_that_differ() {
    // It stands still, so that a second more or less can be told apart.
    const NOW: u64 = 1_893_456_000;
    let (guarded, clock) = clocked_at("2030-01-01 00:00:00", &KEPT, |_| ()).await;
    let forge = Forge::of(&guarded);
    let probe = Probe::of(&guarded, None);
    let opened = guarded.initialize(None).await.headers()["acp-connection-id"].clone();
    let opened = opened.to_str().unwrap();
    assert_eq!(said(opened)["iat"], json!(NOW));
    for (issued, expires, expected) in [
        (NOW, NOW + 3600, 200),
        (NOW + 59, NOW + 3600, 200),
        (NOW + 60, NOW + 3600, 200),
        (NOW + 61, NOW + 3600, 404),
        (NOW + 90, NOW + 3600, 404),
        (NOW - 3600, NOW + 1, 200),
        (NOW - 3600, NOW, 404),
        (NOW - 3600, NOW - 1, 404),
        (u64::MAX, u64::MAX, 404),
        (0, 0, 404),
    ] {
        let mut claims = claims_at("anonymous", NOW);
        claims["iat"] = json!(issued);
        claims["exp"] = json!(expires);
        let case = format!("{issued} {expires}");
        let connection = forge.token(CONNECTION, &claims);
        assert_eq!(probe.connection(&connection).await, expected, "{case}");
        let session = forge.token(SESSION, &claims);
        assert_eq!(probe.session(&session).await, expected, "{case}");
    }
    let mut early = claims_at("anonymous", NOW);
    early["nbf"] = json!(NOW + 61);
    assert_eq!(
        probe.connection(&forge.token(CONNECTION, &early)).await,
        404
    );
    // A gateway whose clock is behind has not heard of it yet; what was looked at before is known.
    clock.set("2029-12-31 23:58:30");
    let fresh = forge.token(CONNECTION, &claims_at("anonymous", NOW));
    assert_eq!(probe.connection(&fresh).await, 404);
    clock.set("2029-12-31 23:59:00");
    assert_eq!(probe.connection(&fresh).await, 200);
    assert_eq!(probe.connection(opened).await, 200);
    clock.set("2030-01-01 00:01:30");
    assert_eq!(probe.connection(opened).await, 200);
    clock.set("2030-01-02 00:00:00");
    assert_eq!(probe.connection(opened).await, 404);
}

#[tokio::test]
async fn row_15_replay() {
    // A request that was seen on its way is worth nothing when its credential has run out.
    let provider = Provider::new("k1");
    let arguments = [&KEPT[..], &provider::arguments("jwks.json")].concat();
    let (guarded, clock) = clocked(&arguments, |dir| provider.publish(dir.path())).await;
    let token = provider.token("k1", &provider::claims("alice"));
    let alice = guarded.open(&token).await;
    let seen = Probe::of(&guarded, Some(&token));
    let headers = [("acp-connection-id", alice.connection.as_str())];
    let post = async || {
        let answer = seen
            .send(Method::POST, &headers, Some(new_session(json!(1))))
            .await;
        answer.status().as_u16()
    };
    assert_eq!(post().await, 202);
    // Again it is the same request, and makes no second session; with other words it is none.
    assert_eq!(post().await, 202);
    let place = json!({ "cwd": "/elsewhere", "mcpServers": [] });
    let changed = alice.call(1, "session/new", place).await;
    assert_eq!(changed["error"]["code"], 4002, "{changed}");
    let listed = alice.call(2, "session/list", json!({})).await;
    assert_eq!(listed["result"]["sessions"].as_array().unwrap().len(), 1);
    let ticket = ticket_of(&guarded.url, &token).await;
    let unused = ticket_of(&guarded.url, &token).await;
    enter(&guarded.url, &ticket).await.expect("a good ticket");
    assert_eq!(enter(&guarded.url, &ticket).await.err().unwrap().0, 401);
    clock.set("+1h");
    assert_eq!(post().await, 401);
    assert_eq!(seen.connection(&alice.connection).await, 401);
    assert_eq!(enter(&guarded.url, &unused).await.err().unwrap().0, 401);
    // The name alone is none: with a good credential the connection is still there, until its day is over.
    let renewed = |ahead: u64| {
        let mut claims = provider::claims("alice");
        claims["exp"] = json!(now() + ahead + 600);
        claims["iat"] = json!(now() + ahead);
        Probe::of(&guarded, Some(&provider.token("k1", &claims)))
    };
    assert_eq!(renewed(3600).connection(&alice.connection).await, 200);
    clock.set("+25h");
    assert_eq!(renewed(25 * 3600).connection(&alice.connection).await, 404);
}

#[tokio::test]
async fn row_16_revocation_that_does_not_reach() {
    let mut cluster = Cluster::start_with_keys().await;
    let (here, there) = (cluster.gateway_url(0), cluster.gateway_url(1));
    let one = Client::with_key(&here, ALICE).await;
    let two = Client::with_key(&there, ALICE).await;
    let bob = Client::with_key(&there, BOB).await;
    let streams = [
        one.at(&there).connection_stream(None).await,
        two.connection_stream(None).await,
    ];
    let mut untouched = bob.connection_stream(None).await;

    revoke(&cluster.admin_url(0), "--principal", "key:alice");
    // In the same second, as it may be.
    let early = Client::with_key(&here, ALICE).await;
    works(&early).await;
    for stream in streams {
        ends(stream).await;
    }
    for refused in [&one, &two] {
        is_refused(&refused.at(&here)).await;
        is_refused(&refused.at(&there)).await;
    }
    works(&early.at(&there)).await;
    works(&Client::with_key(&there, ALICE).await).await;
    bob.post(new_session(json!(5))).await;
    let answer = untouched.response(&json!(5)).await;
    assert!(answer.get("result").is_some(), "{answer}");

    // Nobody learns from a refusal which it was.
    let mut unknown = one.at(&there);
    unknown.token = "nonsense".into();
    let mut foreign = one.at(&there);
    foreign.token.clone_from(&bob.token);
    let refused = told(asked(&two).await).await;
    assert_eq!(refused.0, StatusCode::NOT_FOUND);
    assert_eq!(told(asked(&unknown).await).await, refused);
    assert_eq!(told(asked(&foreign).await).await, refused);

    // What is given up at one gateway is over at the other.
    let left = Client::with_key(&here, BOB).await;
    let mut over = left.at(&there).connection_stream(None).await;
    assert_eq!(left.delete().await, StatusCode::ACCEPTED);
    over.ends().await;
    until("the other gateway knows", async || {
        let status = left.at(&there).get(&[]).await.status();
        (status == StatusCode::NOT_FOUND).then_some(())
    })
    .await;
    is_refused(&left.at(&there)).await;

    drop(untouched);
    for number in 0..2 {
        cluster.restart_gateway(number).await;
    }
    for url in [&here, &there] {
        is_refused(&one.at(url)).await;
        is_refused(&left.at(url)).await;
        works(&early.at(url)).await;
        works(&bob.at(url)).await;
    }
}

#[tokio::test]
async fn row_17_races_around_renewal() {
    let (guarded, clock) = clocked(&KEPT, |_| ()).await;
    let connection = guarded.initialize(None).await.headers()["acp-connection-id"].clone();
    let probe = Probe::of(&guarded, None);
    let named = [
        ("acp-connection-id", connection.to_str().unwrap()),
        ("accept", "text/event-stream"),
    ];
    let made = probe
        .send(Method::POST, &named, Some(new_session(json!(1))))
        .await;
    let made = Stream::unchecked(made).response(&json!(1)).await;
    let session = made["result"]["sessionId"].as_str().unwrap().to_owned();
    // Past half of its life.
    let mut old = claims("anonymous");
    old["sid"] = json!(session);
    old["iat"] = json!(now() - 2000);
    old["exp"] = json!(now() + 1600);
    let old = Forge::of(&guarded).token(SESSION, &old);
    let prompts = async |token: &str, id: u64| {
        let headers = [
            ("acp-session-token", token),
            ("accept", "text/event-stream"),
        ];
        let body = prompt(json!(id), &session, "/count 1");
        let answer = probe.send(Method::POST, &headers, Some(body)).await;
        let status = answer.status().as_u16();
        let renewed = answer.headers().get("acp-session-token").cloned();
        if status == 200 {
            Stream::unchecked(answer).turn(&json!(id)).await;
        }
        (
            status,
            renewed.map(|renewed| renewed.to_str().unwrap().to_owned()),
        )
    };
    // Many at once cross the renewal: none is refused, each brings a token of the next generation.
    let answers = join_all((0..50).map(|id| prompts(&old, id))).await;
    let mut renewed = Vec::new();
    for (status, token) in answers {
        assert_eq!(status, 200);
        renewed.extend(token);
    }
    assert_eq!(renewed.len(), 50);
    for token in &renewed {
        let said = said(token);
        assert_eq!(
            (&said["gen"], &said["fam"]),
            (&json!(1), &json!("abcdefgh"))
        );
        assert_eq!(probe.session(token).await, 200);
    }
    assert_eq!(prompts(&old, 60).await.0, 200, "still under way");
    clock.set("+130s");
    assert_eq!(prompts(&old, 61).await.0, 404);
    assert_eq!(probe.session(&old).await, 404);
    let (status, none) = prompts(&renewed[0], 62).await;
    assert_eq!((status, none), (200, None));
}

#[tokio::test]
async fn row_40_closing() {
    let cluster = Cluster::start_with_keys().await;
    let [here, there] = [cluster.gateway_url(0), cluster.gateway_url(1)];
    let alice = Client::with_key(&here, ALICE).await;
    let elsewhere = alice.at(&there);
    let session = alice.new_session().await;
    let (all, reading) = (
        elsewhere.connection_stream(None).await,
        elsewhere.session_stream(&session, None).await,
    );
    // Nobody else can give it up.
    let bob = Client::with_key(&here, BOB).await;
    let foreign = alice.at(&here).over(bearing(BOB));
    assert_eq!(foreign.delete().await, StatusCode::NOT_FOUND);
    let mut turn = alice.one_shot(prompt(json!(1), &session, "/count 3")).await;
    assert_eq!(turn.turn(&json!(1)).await, counted(3, 1));

    assert_eq!(alice.delete().await, StatusCode::ACCEPTED);
    is_refused(&alice).await;
    ends(all).await;
    ends(reading).await;
    is_refused(&elsewhere).await;
    // The session is still there for who comes back, and others notice nothing.
    let again = Client::with_key(&there, ALICE).await;
    let loaded = again.one_shot(load(json!(2), &session)).await;
    let (past, _) = { loaded }.until_response(&json!(2)).await;
    assert_eq!(past.iter().filter_map(|event| event.chunk()).count(), 3);
    works(&bob).await;
}
