//! Session tokens: a small signed name of a session, that plays the part of a cookie.

use std::fs;

use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::browser;
use crate::support::auth::{ALICE, BOB};
use crate::support::http::{JSON, load, new_session, prompt};
use crate::support::process::baton;
use crate::support::sse::counted;
use crate::support::{Client, Cluster, Stream, within};

/// A request with these headers and no connection.
async fn send(
    url: &str,
    method: Method,
    headers: &[(&str, &str)],
    body: Option<Value>,
) -> Response {
    browser::send(url, method, "/acp", headers, body).await
}

async fn one_shot(url: &str, token: &str, body: Value) -> Stream {
    let headers = [
        ("acp-session-token", token),
        ("accept", "text/event-stream"),
    ];
    let response = send(url, Method::POST, &headers, Some(body)).await;
    assert_eq!(response.status(), StatusCode::OK);
    Stream::unchecked(response)
}

fn in_meta(answer: &Value) -> String {
    let token = &answer["result"]["_meta"]["baton/session"]["token"];
    token.as_str().expect("a token in _meta").to_owned()
}

/// As an operator would, with the keys of the cluster.
fn mint(cluster: &Cluster, session: &str, scope: &str) -> String {
    mint_with(cluster, session, &["--scope", scope])
}

fn mint_with(cluster: &Cluster, session: &str, arguments: &[&str]) -> String {
    let dir = TempDir::new().unwrap();
    let keys = dir.path().join("keys.json");
    fs::write(&keys, cluster.keys()).unwrap();
    let mut command = baton();
    command.args(["token", "mint", "--session", session]);
    command.args(arguments);
    let made = command
        .arg("--keys")
        .arg(keys)
        .output()
        .expect("baton runs");
    assert!(made.status.success(), "{made:?}");
    String::from_utf8(made.stdout).unwrap().trim().to_owned()
}

#[tokio::test]
async fn every_way_to_open_a_session_brings_a_token_that_is_enough_by_itself() {
    let cluster = Cluster::start().await;
    let client = Client::initialize(&cluster.url()).await;
    let created = client
        .one_shot(new_session(json!("a")))
        .await
        .response(&json!("a"))
        .await;
    let session = created["result"]["sessionId"].as_str().unwrap().to_owned();
    let loaded = client
        .one_shot(load(json!("b"), &session))
        .await
        .response(&json!("b"))
        .await;
    let resume = json!({ "jsonrpc": "2.0", "id": "c", "method": "session/resume", "params": { "sessionId": session, "cwd": "/tmp" } });
    let resumed = client.one_shot(resume).await.response(&json!("c")).await;
    for (at, answer) in [&created, &loaded, &resumed].into_iter().enumerate() {
        let url = cluster.gateway_url(at % 2);
        let body = prompt(json!(7), &session, "/count 3");
        let mut stream = one_shot(&url, &in_meta(answer), body).await;
        assert_eq!(stream.turn(&json!(7)).await, counted(3, at as u64 + 1));
    }
    let fork = json!({ "jsonrpc": "2.0", "id": "d", "method": "session/fork", "params": { "sessionId": session, "cwd": "/tmp" } });
    let forked = client.one_shot(fork).await.response(&json!("d")).await;
    let child = forked["result"]["sessionId"].as_str().unwrap().to_owned();
    // The session may be left out: the token names it.
    let mut body = prompt(json!(8), &child, "/count 2");
    body["params"].as_object_mut().unwrap().remove("sessionId");
    let mut stream = one_shot(&cluster.url(), &in_meta(&forked), body).await;
    assert_eq!(stream.turn(&json!(8)).await, counted(2, 4));
    // But no other one, and nothing else.
    let mut stream = one_shot(
        &cluster.url(),
        &in_meta(&forked),
        prompt(json!(9), &session, "x"),
    )
    .await;
    assert_eq!(stream.response(&json!(9)).await["error"]["code"], -32002);
    let list = json!({ "jsonrpc": "2.0", "id": 10, "method": "session/list", "params": {} });
    let mut stream = one_shot(&cluster.url(), &in_meta(&forked), list).await;
    assert_eq!(stream.response(&json!(10)).await["error"]["code"], -32600);
}

#[tokio::test]
async fn the_202_brings_it_in_a_header_and_browsers_get_a_cookie() {
    let cluster = Cluster::start().await;
    let client = Client::initialize(&cluster.url()).await;
    let mut stream = client.connection_stream(None).await;
    let message = new_session(json!("a")).to_string();
    let response = client.send(&[JSON], message).await;
    assert_eq!(response.status(), StatusCode::ACCEPTED);
    assert!(!response.headers().contains_key("set-cookie"));
    assert_eq!(response.headers()["cache-control"], "no-store");
    let token = response.headers()["acp-session-token"]
        .to_str()
        .unwrap()
        .to_owned();
    assert!(token.len() <= 400, "{}", token.len());
    let session = stream.response(&json!("a")).await["result"]["sessionId"]
        .as_str()
        .unwrap()
        .to_owned();

    let page = [
        ("acp-connection-id", client.token.as_str()),
        ("origin", "http://localhost:3000"),
    ];
    let response = send(
        &client.url,
        Method::POST,
        &page,
        Some(load(json!("b"), &session)),
    )
    .await;
    let cookie = response.headers()["set-cookie"]
        .to_str()
        .unwrap()
        .to_owned();
    for part in [
        "__Host-acp-session-",
        "HttpOnly",
        "Secure",
        "SameSite=Strict",
        "Path=/",
    ] {
        assert!(cookie.contains(part), "{part}");
    }
    // The cookie is as good as the header.
    let pair = cookie.split(';').next().unwrap();
    let headers = [
        ("cookie", pair),
        ("accept", "text/event-stream"),
        ("acp-session-id", &session),
    ];
    let response = send(
        &client.url,
        Method::POST,
        &headers,
        Some(prompt(json!(1), &session, "/count 2")),
    )
    .await;
    assert_eq!(
        Stream::unchecked(response).turn(&json!(1)).await,
        counted(2, 1)
    );
    // A stale one does no harm to a connection, but is nothing by itself.
    let stale = format!("{}x", &pair[..pair.len() - 1]);
    let headers = [
        ("cookie", stale.as_str()),
        ("accept", "text/event-stream"),
        ("acp-connection-id", &client.token),
        ("acp-session-id", &session),
    ];
    for (id, headers) in [(3, &headers[..]), (4, &headers[..2])] {
        let body = Some(prompt(json!(id), &session, "/count 1"));
        let response = send(&client.url, Method::POST, headers, body).await;
        match id {
            3 => assert_eq!(
                Stream::unchecked(response).turn(&json!(id)).await,
                counted(1, 2)
            ),
            _ => assert_eq!(response.status(), StatusCode::NOT_FOUND),
        }
    }
    // What a request carries must agree.
    let headers = [
        ("cookie", pair),
        ("accept", "text/event-stream"),
        ("acp-session-token", &token),
        ("acp-session-id", &session),
    ];
    let response = send(
        &client.url,
        Method::POST,
        &headers,
        Some(prompt(json!(2), &session, "x")),
    )
    .await;
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn an_observer_sees_everything_and_touches_nothing() {
    let cluster = Cluster::start().await;
    let client = Client::initialize(&cluster.url()).await;
    let session = client.new_session().await;
    let mut stream = client
        .one_shot(prompt(json!(1), &session, "/count 3"))
        .await;
    stream.turn(&json!(1)).await;
    let token = mint(&cluster, &session, "observe");
    // The past, without taking control of the session.
    let mut past = one_shot(&cluster.gateway_url(0), &token, load(json!(2), &session)).await;
    let (events, answer) = past.until_response(&json!(2)).await;
    assert_eq!(events.iter().filter_map(|event| event.chunk()).count(), 3);
    assert!(answer["result"]["modes"].is_object());
    // As often as one likes, also as the same request: it is what there is by then.
    client
        .one_shot(prompt(json!("more"), &session, "/count 2"))
        .await
        .turn(&json!("more"))
        .await;
    let mut past = one_shot(&cluster.gateway_url(1), &token, load(json!(2), &session)).await;
    let (events, _) = past.until_response(&json!(2)).await;
    assert_eq!(events.iter().filter_map(|event| event.chunk()).count(), 5);
    // The present, on a stream without any connection.
    let headers = [
        ("acp-session-token", token.as_str()),
        ("accept", "text/event-stream"),
    ];
    let response = send(&cluster.gateway_url(1), Method::GET, &headers, None).await;
    assert_eq!(response.status(), StatusCode::OK);
    let mut watched = Stream::unchecked(response);
    watched
        .block()
        .await
        .expect("a stream begins with its cursor");
    let mut turn = client
        .one_shot(prompt(json!(3), &session, "/count 20 delay=5"))
        .await;
    let mut seen = Vec::new();
    while seen.len() < 10 {
        seen.extend(watched.next().await.expect("the stream goes on").chunk());
    }
    // Cut off, it goes on at the other gateway where it was.
    let cursor = watched.last_id.clone();
    drop(watched);
    let headers = [
        ("acp-session-token", token.as_str()),
        ("accept", "text/event-stream"),
        ("last-event-id", &cursor),
    ];
    let response = send(&cluster.gateway_url(0), Method::GET, &headers, None).await;
    let mut watched = Stream::unchecked(response);
    while seen.len() < 20 {
        seen.extend(watched.next().await.expect("the stream goes on").chunk());
    }
    assert_eq!(seen, counted(20, 3));
    turn.turn(&json!(3)).await;
    // Nothing else.
    let place = json!({ "sessionId": session, "cwd": "/tmp" });
    for (id, method, params) in [
        (
            4,
            "session/prompt",
            json!({ "sessionId": session, "prompt": [] }),
        ),
        (
            5,
            "session/set_mode",
            json!({ "sessionId": session, "modeId": "ask" }),
        ),
        (6, "session/close", json!({ "sessionId": session })),
        (7, "session/delete", json!({ "sessionId": session })),
        (8, "session/fork", place),
    ] {
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let answer = one_shot(&cluster.url(), &token, body)
            .await
            .response(&json!(id))
            .await;
        assert_eq!(answer["error"]["code"], 4008, "{method}");
    }
    // Not even an answer to the agent.
    let mut asked = client
        .one_shot(prompt(json!("p"), &session, "/permission"))
        .await;
    let question = loop {
        let message = asked.next().await.expect("a question").message();
        if message["method"] == "session/request_permission" {
            break message;
        }
    };
    let answer_with = |option: &str| {
        let outcome = json!({ "outcome": { "outcome": "selected", "optionId": option } });
        json!({ "jsonrpc": "2.0", "id": question["id"], "result": outcome })
    };
    let headers = [("acp-session-token", token.as_str())];
    let allow = Some(answer_with("allow_once"));
    let response = send(&cluster.url(), Method::POST, &headers, allow).await;
    assert_eq!(response.status(), StatusCode::ACCEPTED);
    client.post(answer_with("reject_once")).await;
    let (said, _) = asked.until_response(&json!("p")).await;
    let said: Vec<String> = said.iter().filter_map(|event| event.chunk()).collect();
    assert_eq!(said, ["permission reject_once "]);
    // What it was given ends when it says: nothing it does brings it another one.
    assert!(answer["result"]["_meta"]["baton/session"].is_null());
}

#[tokio::test]
async fn a_view_is_shared_with_one_other_caller() {
    let cluster = Cluster::start_with_keys().await;
    let url = cluster.url();
    let alice = Client::with_key(&url, ALICE).await;
    let session = alice.new_session().await;
    let turn = alice.one_shot(prompt(json!(1), &session, "/count 3"));
    turn.await.turn(&json!(1)).await;
    let token = mint_with(
        &cluster,
        &session,
        &[
            "--scope",
            "observe",
            "--principal",
            "key:alice",
            "--share-with",
            "key:bob",
        ],
    );
    let ask = |key: &'static str, method: Method, body: Option<Value>| {
        let key = format!("Bearer {key}");
        let (url, token) = (url.clone(), token.clone());
        async move {
            let headers = [
                ("authorization", key.as_str()),
                ("acp-session-token", &token),
                ("accept", "text/event-stream"),
            ];
            send(&url, method, &headers, body).await
        }
    };
    let past = ask(BOB, Method::POST, Some(load(json!(2), &session))).await;
    let (past, answer) = Stream::unchecked(past).until_response(&json!(2)).await;
    assert_eq!(past.iter().filter_map(|event| event.chunk()).count(), 3);
    assert!(answer["result"]["_meta"]["baton/session"].is_null());
    let mut present = Stream::unchecked(ask(BOB, Method::GET, None).await);
    present
        .block()
        .await
        .expect("a stream begins with its cursor");
    let turn = alice.one_shot(prompt(json!(3), &session, "/count 2"));
    turn.await.turn(&json!(3)).await;
    let mut seen = Vec::new();
    while seen.len() < 2 {
        seen.extend(present.next().await.expect("the stream goes on").chunk());
    }
    assert_eq!(seen, counted(2, 2));
    // To look at, and by nobody else: not even by whose session it is.
    let told = ask(BOB, Method::POST, Some(prompt(json!(4), &session, "x"))).await;
    let told = Stream::unchecked(told).response(&json!(4)).await;
    assert_eq!(told["error"]["code"], 4008);
    let refused = ask(ALICE, Method::GET, None).await;
    assert_eq!(refused.status(), StatusCode::NOT_FOUND);
    // It ends with the rights of either.
    let revoke = |subject: &str| {
        let admin = cluster.admin_url(0);
        let mut command = baton();
        command.args(["token", "revoke", "--admin", &admin, "--principal", subject]);
        assert!(command.status().expect("baton runs").success());
    };
    revoke("key:alice");
    within("the view ends", async {
        while present.block().await.is_some() {}
    })
    .await;
    let refused = ask(BOB, Method::GET, None).await;
    assert_eq!(refused.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_repeated_request_may_carry_a_newer_token() {
    let cluster = Cluster::start().await;
    let client = Client::initialize(&cluster.url()).await;
    let session = client.new_session().await;
    let mut request = prompt(json!(1), &session, "/count 3");
    for _ in 0..2 {
        let token = mint(&cluster, &session, "control");
        request["params"]["_meta"] = json!({ "baton/session": { "token": token } });
        let mut stream = client.one_shot(request.clone()).await;
        assert_eq!(stream.turn(&json!(1)).await, counted(3, 1));
    }
}

#[tokio::test]
async fn a_request_with_an_idempotency_key_happens_once() {
    let cluster = Cluster::start().await;
    let client = Client::initialize(&cluster.url()).await;
    let session = client.new_session().await;
    let token = mint(&cluster, &session, "control");
    let ask = async |key: &str, url: String| {
        let headers = [
            ("acp-session-token", token.as_str()),
            ("accept", "text/event-stream"),
            ("idempotency-key", key),
        ];
        let body = prompt(json!(1), &session, "/count 3");
        let response = send(&url, Method::POST, &headers, Some(body)).await;
        Stream::unchecked(response).turn(&json!(1)).await
    };
    assert_eq!(ask("one", cluster.gateway_url(0)).await, counted(3, 1));
    assert_eq!(ask("one", cluster.gateway_url(1)).await, counted(3, 1));
    assert_eq!(ask("two", cluster.gateway_url(0)).await, counted(3, 2));
}

#[tokio::test]
async fn a_token_that_is_wrong_in_any_way_is_refused_alike() {
    let cluster = Cluster::start().await;
    let client = Client::initialize(&cluster.url()).await;
    let session = client.new_session().await;
    let good = mint(&cluster, &session, "control");
    let other = Cluster::start().await;
    let tampered = format!("{}A{}", &good[..good.len() - 9], &good[good.len() - 8..]);
    let tampered = if tampered == good {
        good.replace('A', "B")
    } else {
        tampered
    };
    let mut answers = Vec::new();
    for token in [
        &mint(&other, &session, "control"),
        &tampered,
        &client.token,
        &"x".repeat(2000),
        "x",
    ] {
        let headers = [
            ("acp-session-token", token),
            ("accept", "text/event-stream"),
        ];
        let response = send(
            &cluster.url(),
            Method::POST,
            &headers,
            Some(prompt(json!(1), &session, "x")),
        )
        .await;
        answers.push((response.status(), response.text().await.unwrap()));
        // On a connection that is good the stream says it, since a status would end that connection.
        let headers = [
            ("acp-session-token", token),
            ("acp-connection-id", &client.token),
            ("accept", "text/event-stream"),
        ];
        let response = send(
            &cluster.url(),
            Method::POST,
            &headers,
            Some(prompt(json!(2), &session, "x")),
        )
        .await;
        let answer = Stream::unchecked(response).response(&json!(2)).await;
        assert_eq!(answer["error"]["code"], -32002);
    }
    assert_eq!(answers[0].0, StatusCode::NOT_FOUND);
    assert!(
        answers.iter().all(|answer| *answer == answers[0]),
        "{answers:?}"
    );
}
