//! Row M3, for API keys: an end, a list of agents, and keys that only watch.

use std::fs;
use std::path::Path;
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::auth::provider::now;
use crate::auth::{A, B, Guarded};
use crate::browser::{PAGE, bearer, enter, login, open, send, ticket};
use crate::support::http::{load, new_session, prompt};
use crate::support::process::baton;
use crate::support::websocket::{Socket, initialize};
use crate::support::{Client, Stream, until};

/// Alice's key that may less.
const LESS: &str = "bk_third-test-key-000000000000000000000000000";
const ARGUMENTS: [&str; 4] = ["--auth", "keys", "--auth-keys", "api-keys.json"];

fn entry(principal: &str, key: &str, more: Value) -> Value {
    let hash = Sha256::digest(key);
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut entry = json!({ "principal": principal, "sha256": hash });
    let more = more.as_object().expect("an object").clone();
    entry.as_object_mut().unwrap().extend(more);
    entry
}

fn write(dir: &Path, entries: &[Value]) {
    let file = json!({ "keys": entries }).to_string();
    fs::write(dir.join("half"), file).expect("writable");
    fs::rename(dir.join("half"), dir.join("api-keys.json")).expect("writable");
}

/// With A for alice, B for bob, and LESS for alice with `more` about it.
async fn guarded(more: Value) -> Guarded {
    Guarded::start(&ARGUMENTS, |dir| {
        let all = [("alice", A), ("bob", B)].map(|(name, key)| entry(name, key, json!({})));
        write(dir, &[&all[..], &[entry("alice", LESS, more)]].concat());
    })
    .await
}

fn in_seconds(seconds: u64) -> String {
    let time = std::time::UNIX_EPOCH + Duration::from_secs(now() + seconds);
    humantime::format_rfc3339_seconds(time).to_string()
}

#[tokio::test]
async fn m3_a_key_ends_in_time_with_all_that_was_made_of_it() {
    let guarded = guarded(json!({ "expires": in_seconds(6) })).await;
    let url = &guarded.url;
    let credential = bearer(LESS);
    let client = Client::with_key(url, LESS).await;
    let cookie = login(url, &credential).await;
    let page = [("cookie", cookie.as_str()), PAGE];
    assert_eq!(open(url, &page).await, 200);
    let mut stream = client.connection_stream(None).await;
    let mut socket = Socket::try_open(url, &[("authorization", &credential)])
        .await
        .expect("let in");
    let mut by_cookie = Socket::try_open(url, &page).await.expect("let in");
    for socket in [&mut socket, &mut by_cookie] {
        socket.send(initialize()).await;
        assert!(socket.next().await["result"].is_object());
    }
    // Each waits for its own end.
    stream.ends().await;
    assert_eq!(socket.closed().await, 4003);
    assert_eq!(by_cookie.closed().await, 4003);
    assert_eq!(open(url, &page).await, 401);
    assert_eq!(open(url, &[("authorization", &credential)]).await, 401);
    for headers in [&page[..], &[("authorization", credential.as_str())]] {
        let asked = send(url, Method::POST, "/v1/tickets", headers, None).await;
        assert_eq!(asked.status(), StatusCode::UNAUTHORIZED);
    }
    guarded.open(A).await;
}

#[tokio::test]
async fn m3_a_key_that_is_taken_out_ends_what_is_open_with_it_and_nothing_else() {
    let guarded = guarded(json!({})).await;
    let url = &guarded.url;
    let (gone, kept) = (bearer(LESS), bearer(A));
    let cookies = [login(url, &gone).await, login(url, &kept).await];
    let mut sockets = Vec::new();
    for credential in [&gone, &kept] {
        let headers = [("authorization", credential.as_str())];
        let mut socket = Socket::try_open(url, &headers).await.expect("let in");
        socket.send(initialize()).await;
        socket.next().await;
        sockets.push(socket);
    }
    let all = [("alice", A), ("bob", B)].map(|(name, key)| entry(name, key, json!({})));
    write(guarded.dir.path(), &all);
    assert_eq!(sockets[0].closed().await, 4003);
    let [gone, kept] = cookies;
    assert_eq!(open(url, &[("cookie", &gone), PAGE]).await, 401);
    assert_eq!(open(url, &[("cookie", &kept), PAGE]).await, 200);
    sockets[1].send(new_session(json!("n"))).await;
    let mut heard = sockets[1].next().await;
    while heard["id"] != "n" {
        heard = sockets[1].next().await;
    }
    assert!(heard["result"].is_object(), "{heard}");
}

/// Everything that would change something, about this session.
fn changes(session: &str) -> Vec<Value> {
    let about = |method: &str| {
        let mut message = load(json!(method), session);
        message["method"] = json!(method);
        message["params"]["modeId"] = json!("ask");
        message
    };
    let mut changes = vec![
        new_session(json!("session/new")),
        prompt(json!("session/prompt"), session, "hello"),
    ];
    let methods = [
        "session/fork",
        "session/delete",
        "session/set_mode",
        "session/set_model",
        "session/set_config_option",
        "session/close",
        "_extension",
    ];
    changes.extend(methods.map(about));
    changes
}

#[tokio::test]
async fn m3_a_key_that_observes_lists_loads_and_watches_and_changes_nothing() {
    let guarded = guarded(json!({ "observe": true })).await;
    let url = &guarded.url;
    let owner = Client::with_key(url, A).await;
    let answered = owner
        .send(
            &[
                ("content-type", "application/json"),
                ("accept", "text/event-stream"),
            ],
            new_session(json!("n")).to_string(),
        )
        .await;
    // What controls the session, in the hands of somebody who may not.
    let token = answered.headers()["acp-session-token"].to_str().unwrap();
    let token = token.to_owned();
    let answer = { owner.stream(answered) }.response(&json!("n")).await;
    let session = answer["result"]["sessionId"].as_str().unwrap().to_owned();
    let mut turn = owner.session_stream(&session, None).await;
    owner
        .post(prompt(json!(1), &session, "/permission\n/count 3"))
        .await;
    let question = loop {
        let message = turn.next().await.expect("goes on").message();
        if message["method"] == "session/request_permission" {
            break message;
        }
    };

    let observer = Client::with_key(url, LESS).await;
    let list = json!({ "jsonrpc": "2.0", "id": "list", "method": "session/list", "params": {} });
    let listed = { observer.one_shot(list).await }
        .response(&json!("list"))
        .await;
    assert_eq!(listed["result"]["sessions"][0]["sessionId"], json!(session));
    let response = observer
        .send(
            &[
                ("content-type", "application/json"),
                ("accept", "text/event-stream"),
            ],
            load(json!("l"), &session).to_string(),
        )
        .await;
    assert!(!response.headers().contains_key("acp-session-token"));
    let (_, loaded) = observer.stream(response).until_response(&json!("l")).await;
    assert!(loaded["result"].is_object(), "{loaded}");
    let secret = "baton/session";
    assert!(loaded["result"]["_meta"].get(secret).is_none(), "{loaded}");

    let cookie = login(url, &bearer(LESS)).await;
    let credential = bearer(LESS);
    let answer_it = json!({ "jsonrpc": "2.0", "id": question["id"], "result": {
        "outcome": { "outcome": "selected", "optionId": "allow_once" } } });
    let ways: [&[(&str, &str)]; 3] = [
        &[
            ("authorization", &credential),
            ("acp-connection-id", &observer.token),
        ],
        &[
            ("authorization", &credential),
            ("acp-session-token", &token),
        ],
        &[("cookie", &cookie), PAGE, ("acp-session-token", &token)],
    ];
    for way in ways {
        let headers = [way, &[("accept", "text/event-stream")]].concat();
        for message in changes(&session) {
            let id = message["id"].clone();
            let response = send(url, Method::POST, "/acp", &headers, Some(message)).await;
            assert_eq!(response.status(), StatusCode::OK, "{id}");
            let answer = Stream::unchecked(response).response(&id).await;
            assert_eq!(answer["error"]["code"], 4008, "{id}: {answer}");
        }
        // Nobody answers these.
        let cancel = json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } });
        for message in [answer_it.clone(), cancel] {
            let response = send(url, Method::POST, "/acp", way, Some(message)).await;
            assert_eq!(response.status(), StatusCode::ACCEPTED);
        }
    }
    let asked = ticket(url, &[("authorization", &credential)]).await;
    let mut socket = enter(url, &asked).await.expect("let in");
    socket.send(initialize()).await;
    socket.next().await;
    socket.send(answer_it).await;
    for message in changes(&session) {
        socket.send(message.clone()).await;
        let answer = socket.next().await;
        assert_eq!(answer["error"]["code"], 4008, "{message}: {answer}");
    }
    let headers = [("authorization", credential.as_str())];
    let export = format!("/v1/sessions/{session}/export");
    for (method, path) in [
        (Method::GET, export.as_str()),
        (Method::POST, "/v1/sessions/import"),
    ] {
        let answer = send(url, method, path, &headers, None).await;
        assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{path}");
    }

    // The question is still open: its owner says no, and is heard.
    owner
        .post(json!({ "jsonrpc": "2.0", "id": question["id"], "result": {
            "outcome": { "outcome": "selected", "optionId": "reject_once" } } }))
        .await;
    let said = turn.turn(&json!(1)).await;
    assert_eq!(said[0], "permission reject_once ", "{said:?}");
}

#[tokio::test]
async fn m3_a_key_uses_the_agents_of_its_list() {
    let guarded = guarded(json!({ "agents": ["painter"] })).await;
    let session = guarded.open(A).await.new_session().await;
    let refused = guarded.initialize(Some(LESS)).await;
    let refused: Value = serde_json::from_str(&refused.text().await.unwrap()).unwrap();
    assert_eq!(refused["error"]["code"], 5001, "{refused}");
    let painter = guarded.open(LESS).await;
    let params = json!({ "cwd": "/tmp", "mcpServers": [] });
    let refused = painter.call(1, "session/new", params.clone()).await;
    assert_eq!(refused["error"]["code"], 5001, "{refused}");
    let mut params = params;
    params["sessionId"] = json!(session);
    let refused = painter.call(2, "session/load", params).await;
    assert_eq!(refused["error"]["code"], -32002, "{refused}");
    // An archive does not bring the agent in either.
    let export = format!("/v1/sessions/{session}/export");
    let headers = [("authorization", bearer(A))];
    let headers = headers
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    let archive = send(&guarded.url, Method::GET, &export, &headers, None).await;
    let archive = archive.text().await.unwrap();
    for (key, expected) in [(LESS, 400), (A, 201)] {
        let import = guarded.url.replace("/acp", "/v1/sessions/import");
        let request = reqwest::Client::new().post(import).bearer_auth(key);
        let request = request.header("content-type", "application/x-ndjson");
        let answer = request.body(archive.clone()).send().await.unwrap();
        assert_eq!(answer.status(), expected, "{key}");
    }
    // Another list, another connection.
    let all = [("alice", A), ("bob", B)].map(|(name, key)| entry(name, key, json!({})));
    let wider = entry("alice", LESS, json!({ "agents": ["scripted"] }));
    write(guarded.dir.path(), &[&all[..], &[wider]].concat());
    until("the list is another", async || {
        let answer = guarded.initialize(Some(LESS)).await.text().await.unwrap();
        answer.contains("result").then_some(())
    })
    .await;
    let old = ("acp-connection-id", painter.connection.as_str());
    let answer = guarded.send(Method::GET, Some(LESS), &[old], None).await;
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
    guarded.open(LESS).await.new_session().await;
}

#[test]
fn m3_an_entry_with_rights_is_made_and_read() {
    let run = |arguments: &[&str]| {
        let mut command = baton();
        command.args(["token", "api-key", "--principal", "alice"]);
        command.args(arguments).output().expect("baton runs")
    };
    let made = run(&["--ttl", "90d", "--agents", "coder,writer", "--observe"]);
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    let entry = &made["entry"];
    assert_eq!(entry["agents"], json!(["coder", "writer"]));
    assert_eq!(entry["observe"], true);
    let end = humantime::parse_rfc3339(entry["expires"].as_str().unwrap()).unwrap();
    assert!(end > std::time::SystemTime::now() + Duration::from_secs(89 * 24 * 3600));
    for (arguments, expected) in [
        (&["--ttl", "0s"][..], "--ttl"),
        (&["--ttl", "10000y"], "--ttl"),
        (&["--agents", "a/b"], "a/b"),
    ] {
        let output = run(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{said}");
        assert!(said.contains(expected), "{said}");
    }
    let dir = tempfile::TempDir::new().unwrap();
    for (more, expected) in [
        (json!({ "expires": "tomorrow" }), "2027-01-31T12:00:00Z"),
        (json!({ "expires": 17 }), "not a file of API keys"),
        (json!({ "agents": [] }), "agents is empty"),
        (json!({ "agents": ["a b"] }), "cannot be an agent's name"),
        (json!({ "observe": "yes" }), "not a file of API keys"),
        (json!({ "observes": true }), "observes"),
    ] {
        write(dir.path(), &[super::api_keys::entry("alice", A, more)]);
        let mut command = baton();
        command.current_dir(dir.path());
        command.args(["serve", "--ephemeral", "--listen", "127.0.0.1:0"]);
        let output = command.args(ARGUMENTS).output().expect("baton runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}
